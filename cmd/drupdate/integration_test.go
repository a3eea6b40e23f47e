//go:build integration

package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/watcher"
)

const (
	asDrupdate = "DRUPDATE_TEST_IS_DRUPDATE" // makes the test's own binary be drupdate
	lease      = v1alpha1.LeaseWatcher
	// lost is how long a watcher may take to notice that it does not lead any more: the renewal's deadline is 10 seconds.
	lost = time.Minute
)

func TestMain(m *testing.M) {
	if os.Getenv(asDrupdate) != "" {
		main()
	}
	os.Exit(m.Run())
}

// cluster is a namespace of the API server that KUBECONFIG names, reached by watchers through a line that can be cut.
type cluster struct {
	t      *testing.T
	client client.Client
	ns     string
	line   *line
	config string
}

// crd is installed once for all tests: two who did it at the same time would be in each other's way.
var crd struct {
	once sync.Once
	err  error
}

func installCRD(config *rest.Config) error {
	crd.once.Do(func() {
		_, crd.err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{
			Paths: []string{filepath.Join("..", "..", "deploy", "crd", "drupdate.dev_drupalsites.yaml")}, ErrorIfPathMissing: true, MaxTime: time.Minute,
		})
	})
	return crd.err
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	require.NotEmpty(t, path, "KUBECONFIG must name a cluster to test against")
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	require.NoError(t, installCRD(config))
	live, err := client.New(config, client.Options{Scheme: watcher.Scheme()})
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "drupdate-process-"}}
	require.NoError(t, live.Create(t.Context(), ns))
	t.Cleanup(func() { require.NoError(t, live.Delete(context.WithoutCancel(t.Context()), ns)) })
	c := &cluster{t: t, client: live, ns: ns.Name, line: newLine(t, config)}
	c.config = c.through(path)
	return c
}

// through writes a kubeconfig that leads through the line.
func (c *cluster) through(path string) string {
	c.t.Helper()
	raw, err := clientcmd.LoadFromFile(path)
	require.NoError(c.t, err)
	for _, one := range raw.Clusters {
		one.Server = "https://" + c.line.address
	}
	to := filepath.Join(c.t.TempDir(), "kubeconfig")
	require.NoError(c.t, clientcmd.WriteToFile(*raw, to))
	return to
}

// watcher starts one that leads, and returns the end of its process.
func (c *cluster) watcher() <-chan error {
	c.t.Helper()
	before := c.holder()
	cmd := exec.CommandContext(c.t.Context(), os.Args[0], "watcher", "--leader-elect", "--leader-elect-namespace="+c.ns, "--watch-namespaces="+c.ns,
		"--metrics-addr=0", "--health-addr=0")
	cmd.Env = append(os.Environ(), asDrupdate+"=1", "KUBECONFIG="+c.config, "TEMPORAL_ADDRESS=127.0.0.1:1")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(c.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	require.Eventually(c.t, func() bool { now := c.holder(); return now != "" && now != before }, lost, 100*time.Millisecond, "nobody leads")
	return ended
}

func (c *cluster) holder() string {
	c.t.Helper()
	var l coordinationv1.Lease
	err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: c.ns, Name: lease}, &l)
	if client.IgnoreNotFound(err) != nil {
		c.t.Fatal(err)
	}
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// ends requires the process to end by itself, as a failure: then Kubernetes starts it anew.
func (c *cluster) ends(ended <-chan error) {
	c.t.Helper()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		require.ErrorAs(c.t, err, &exit)
		require.Equal(c.t, 1, exit.ExitCode())
	case <-time.After(lost):
		c.t.Fatal("a watcher that does not lead goes on")
	}
}

func TestIntegrationAWatcherThatLostItsLeaseEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ended := c.watcher()
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var l coordinationv1.Lease
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: c.ns, Name: lease}, &l); err != nil {
			return err
		}
		now := metav1.NowMicro()
		l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.AcquireTime = new("another"), &now, &now
		l.Spec.LeaseDurationSeconds = new(int32(600))
		return c.client.Update(t.Context(), &l)
	}))
	c.ends(ended)
	require.Equal(t, "another", c.holder())
}

func TestIntegrationAWatcherThatIsCutOffEndsAndItsSuccessorLeads(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ended := c.watcher()
	c.line.cut()
	c.ends(ended)
	c.line.mend()
	c.watcher()
}

// line forwards connections to the API server until it is cut.
type line struct {
	address string
	mu      sync.Mutex
	down    bool
	open    map[net.Conn]bool
}

func newLine(t *testing.T, config *rest.Config) *line {
	t.Helper()
	to := strings.TrimPrefix(config.Host, "https://")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{address: listener.Addr().String(), open: map[net.Conn]bool{}}
	t.Cleanup(func() { l.cut(); _ = listener.Close() }) // Nothing was written to it.
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go l.forward(from, to)
		}
	}()
	return l
}

func (l *line) forward(from net.Conn, to string) {
	defer from.Close()
	far, err := net.Dial("tcp", to)
	if err != nil || !l.note(from, far) {
		return
	}
	defer far.Close()
	go func() { _, _ = io.Copy(far, from); _ = far.Close() }() // A line that is cut loses what is on it.
	_, _ = io.Copy(from, far)
}

func (l *line) note(connections ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range connections {
		if l.down {
			_ = c.Close() // It is cut.
		}
		l.open[c] = true
	}
	return !l.down
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.open {
		_ = c.Close() // It is cut.
	}
	clear(l.open)
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}
