package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// idleStream is how long a silent exec or log stream is kept. The library's 30
// seconds would cut off every long command.
const idleStream = 4 * time.Hour

// serve starts the node's own API, which only the API server may use, and
// returns what ends it.
func (n *Node) serve() (func(), error) {
	cert, err := tls.LoadX509KeyPair(n.config.Cert, n.config.Key)
	if err != nil {
		return nil, fmt.Errorf("serve node: %w", err)
	}
	ca, err := os.ReadFile(n.config.CA)
	if err != nil {
		return nil, fmt.Errorf("serve node: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("serve node: %q: no certificate in it", n.config.CA)
	}
	listener, err := tls.Listen("tcp", n.config.Listen, &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		return nil, fmt.Errorf("serve node: %w", err)
	}
	server := &http.Server{Handler: n.handler(), ReadHeaderTimeout: 30 * time.Second}
	go func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("serve node", "error", err)
		}
	}()
	return func() { _ = server.Close() }, nil // the process ends with it.
}

func (n *Node) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.Handle("/", api.PodHandler(api.PodHandlerConfig{
		RunInContainer:        n.runInContainer,
		GetContainerLogs:      n.containerLogs,
		AttachToContainer:     n.attach,
		PortForward:           n.portForward,
		GetPods:               n.objects,
		GetPodsFromKubernetes: n.objects,
		GetStatsSummary:       func(context.Context) (*stats.Summary, error) { return &stats.Summary{}, nil },
		GetMetricsResource:    func(context.Context) ([]*dto.MetricFamily, error) { return nil, nil },
		StreamIdleTimeout:     idleStream,
		StreamCreationTimeout: 30 * time.Second,
	}, false))
	return mux
}

// attach follows the log of a container: its own streams are already taken.
func (n *Node) attach(ctx context.Context, namespace, name, containerName string, attach api.AttachIO) error {
	logs, err := n.containerLogs(ctx, namespace, name, containerName, api.ContainerLogOpts{Follow: true, Tail: 1})
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }() // only read.
	if attach.Stdout() == nil {
		return nil
	}
	_, err = io.Copy(attach.Stdout(), logs)
	return err
}

// portForward is kubectl port-forward: it connects a stream with a port of
// the pod's address.
func (n *Node) portForward(ctx context.Context, namespace, name string, port int32, stream io.ReadWriteCloser) error {
	p, err := n.find(namespace, name)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(p.ip, strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("forward port: %w", err)
	}
	defer func() { _ = conn.Close() }() // either side may have closed it.
	done := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(conn, stream) // ends when either side is done.
		done <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(stream, conn)
		done <- struct{}{}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return nil
}

func (n *Node) objects(context.Context) ([]*corev1.Pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]*corev1.Pod, 0, len(n.pods))
	for _, p := range n.pods {
		p.mu.Lock()
		list = append(list, p.object.DeepCopy())
		p.mu.Unlock()
	}
	return list, nil
}
