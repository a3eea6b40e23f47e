package stack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// NodeName is the name of the one node of the cluster.
const NodeName = "local"

// startLimit is how long a part may take to serve. The slowest, the API
// server, takes five seconds on two idle cores.
const startLimit = 2 * time.Minute

// await polls a part until it is ready. It fails at once when the process
// ends, with the end of its log.
func (s *Stack) await(ctx context.Context, part component) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := part.ready(ctx)
		if err == nil {
			return nil
		}
		if id, idErr := s.running(part.name); idErr != nil || !id.Alive() {
			return errors.Join(idErr, fmt.Errorf("start %s: it ended: %s", part.name, tail(s.log(part.name))))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start %s: not ready: %w (see %s)", part.name, err, s.log(part.name))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *Stack) apiReady(ctx context.Context) error {
	client, err := clientFor(s.Kubeconfig())
	if err != nil {
		return err
	}
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// accountsReady is nil when the controller manager works: it has made the
// service account without which no pod can be created.
func (s *Stack) accountsReady(ctx context.Context) error {
	client, err := clientFor(s.Kubeconfig())
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func (s *Stack) nodeReady(ctx context.Context) error {
	if err := s.tlsGet(ctx, "https://"+loopback(s.config.Ports.Node)+"/healthz"); err != nil {
		return err
	}
	client, err := clientFor(s.Kubeconfig())
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("check node: %q: not ready", NodeName)
}

// temporalReady asks with Temporal's own tool, since the default namespace
// appears a moment after the server begins to answer.
func (s *Stack) temporalReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.path("bin", "temporal"), "operator", "namespace", "describe",
		"--namespace", "default", "--address", s.TemporalAddress()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("check temporal: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func clientFor(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %q: %w", kubeconfig, err)
	}
	config.Timeout = 5 * time.Second
	return kubernetes.NewForConfig(config)
}

// tlsGet asks a part for its health as the administrator. Who answers on the
// loopback address is not in doubt, so its certificate is not checked.
func (s *Stack) tlsGet(ctx context.Context, url string) error {
	cert, err := tls.LoadX509KeyPair(s.path("pki", admin.File+".crt"), s.path("pki", admin.File+".key"))
	if err != nil {
		return fmt.Errorf("load certificate: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	return getWith(ctx, &http.Client{Transport: transport, Timeout: 3 * time.Second}, url)
}

func get(ctx context.Context, url string) error {
	return getWith(ctx, &http.Client{Timeout: 3 * time.Second}, url)
}

func getWith(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("check health: %q: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("check health: %q: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("check health: %q: %s", url, response.Status)
	}
	return nil
}

// tail is the end of a log file, on one line.
func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ") + " (" + path + ")"
}
