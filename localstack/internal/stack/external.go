package stack

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The variables by which a user names what already runs.
const (
	kubeconfigVariable = "KUBECONFIG"
	temporalVariable   = "TEMPORAL_ADDRESS"
	assetsVariable     = "KUBEBUILDER_ASSETS"
)

// adopt uses the cluster and the Temporal that the environment names, if they
// answer and are not this stack's own.
func (s *Stack) adopt(ctx context.Context, out io.Writer) {
	if path := os.Getenv(kubeconfigVariable); path != "" && !s.ownKubeconfig(path) {
		if err := reachable(ctx, path); err != nil {
			fmt.Fprintf(out, "%s names a cluster that does not answer, so one is started here: %v\n", kubeconfigVariable, err)
		} else {
			s.config.Kubeconfig = path
			fmt.Fprintf(out, "using the cluster of %s=%s\n", kubeconfigVariable, path)
		}
	}
	if address := os.Getenv(temporalVariable); address != "" && address != s.TemporalAddress() {
		conn, err := net.DialTimeout("tcp", address, 3*time.Second)
		if err != nil {
			fmt.Fprintf(out, "%s names a server that does not answer, so one is started here: %v\n", temporalVariable, err)
			return
		}
		_ = conn.Close() // nothing was said on it.
		s.config.TemporalAddress = address
		fmt.Fprintf(out, "using the Temporal of %s=%s\n", temporalVariable, address)
	}
}

func (s *Stack) ownKubeconfig(path string) bool {
	abs, err := filepath.Abs(path)
	return err == nil && abs == s.path("kubeconfig")
}

func reachable(ctx context.Context, kubeconfig string) error {
	client, err := clientFor(kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}
