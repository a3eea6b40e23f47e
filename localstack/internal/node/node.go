package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/drupdate/drupdate/localstack/internal/container"
)

// recordFile is the file in a container's folder that names its process.
const recordFile = "process.json"

// Config is what a node needs to know.
type Config struct {
	Name      string
	REST      *rest.Config
	Server    string // the API server, for the programs in the pods.
	Listen    string // host and port of the node's own API.
	Advertise int    // the port that the API server is told; zero means that of Listen.
	Cert, Key string // files that prove who the node is.
	CA        string // the file of the authority of those who may ask.
	Pods      string // a folder for the pods.
	Volumes   string // a folder for the claims.
	Databases string // a folder that every container shares.
	Init      string // the program container.Program.
	Simsite   string // the program of the simulated sites.
	Links     string // a folder for links to it.
	Drupdate  string // the program of the image "drupdate"; it may be absent as long as no pod asks for it.
	Log       *slog.Logger
}

// Node runs the pods of one node.
type Node struct {
	config    Config
	ctx       context.Context
	client    kubernetes.Interface
	runtime   *container.Runtime
	images    *images
	recorder  record.EventRecorder
	addresses addresses
	log       *slog.Logger

	mu   sync.Mutex
	pods map[types.UID]*pod
}

// Run runs a node until the context ends. The containers end with the process,
// and the next Run takes up their pods.
func Run(ctx context.Context, config Config) error {
	client, err := kubernetes.NewForConfig(config.REST)
	if err != nil {
		return fmt.Errorf("run node: %w", err)
	}
	n := &Node{
		config: config, ctx: ctx, client: client, runtime: container.New(config.Init), log: config.Log,
		images:    &images{program: config.Simsite, folder: config.Links, drupdate: config.Drupdate},
		addresses: addresses{block: blockOf(config.Listen), taken: map[string]bool{}},
		pods:      map[types.UID]*pod{},
	}
	stopEvents := n.recordEvents()
	defer stopEvents()
	if err := provision(ctx, client, config.Volumes); err != nil {
		return err
	}
	stopServing, err := n.serve()
	if err != nil {
		return err
	}
	defer stopServing()
	if err := n.watchPods(ctx); err != nil {
		return err
	}
	object, err := n.object()
	if err != nil {
		return err
	}
	const leaseSeconds = 40 // as a kubelet has it.
	controller, err := vknode.NewNodeController(vknode.NewNaiveNodeProvider(), object, client.CoreV1().Nodes(),
		vknode.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), leaseSeconds),
		vknode.WithNodeStatusUpdateErrorHandler(n.reregister))
	if err != nil {
		return fmt.Errorf("run node: %w", err)
	}
	if err := controller.Run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run node: %w", err)
	}
	return nil
}

// reregister is told that the status of the node could not be written. The
// next heartbeat tries again, which is all that is needed after an outage.
func (n *Node) reregister(_ context.Context, err error) error {
	n.log.Warn("write node status", "error", err)
	return nil
}

// recordEvents starts the recording of events and returns what ends it.
func (n *Node) recordEvents() func() {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(eventSink(n.client))
	n.recorder = broadcaster.NewRecorder(eventScheme, corev1.EventSource{Component: "kubelet", Host: n.config.Name})
	return broadcaster.Shutdown
}

// find returns the newest pod of a name. A pod and the one before it may be
// here at the same time while the older one ends.
func (n *Node) find(namespace, name string) (*pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var newest *pod
	for _, p := range n.pods {
		if p.namespace == namespace && p.name == name && (newest == nil || newest.started.Before(&p.started)) {
			newest = p
		}
	}
	if newest == nil {
		return nil, errdefs.NotFoundf("pod %q not found", namespace+"/"+name)
	}
	return newest, nil
}

// clean removes the folders of pods that went away while no node ran.
func (n *Node) clean(keep map[types.UID]bool) error {
	entries, err := os.ReadDir(n.config.Pods)
	if err != nil {
		return fmt.Errorf("clean up pods: %w", err)
	}
	for _, entry := range entries {
		if keep[types.UID(entry.Name())] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(n.config.Pods, entry.Name())); err != nil {
			return fmt.Errorf("clean up pods: %w", err)
		}
	}
	return nil
}

// port is the port under which the API server finds the node's own API.
func (n *Node) port() (int32, error) {
	if n.config.Advertise != 0 {
		return int32(n.config.Advertise), nil
	}
	_, port, err := net.SplitHostPort(n.config.Listen)
	if err != nil {
		return 0, fmt.Errorf("run node: listen address: %w", err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("run node: listen address: %w", err)
	}
	return int32(number), nil
}

// resync is how often the pods are looked at without an event.
const resync = 5 * time.Minute
