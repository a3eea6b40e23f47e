//go:build e2e

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

const (
	// root is the repository, where the documents' commands are run.
	root   = "../.."
	system = "drupdate-system"
)

// scheme knows what the documents show, and cluster is the stack's.
var (
	scheme  = runtime.NewScheme()
	cluster kube.Client
)

// The suite has the stack for itself: what an earlier one has installed is taken away before and between the tests.
func TestMain(m *testing.M) {
	code, err := suite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		code = 1
	}
	os.Exit(code)
}

func suite(m *testing.M) (int, error) {
	for _, name := range []string{"LOCALSTACK_STATE", "KUBECONFIG", "TEMPORAL_ADDRESS"} {
		if os.Getenv(name) == "" {
			return 1, fmt.Errorf("%s is not set: run these tests with make e2e, which starts the stack", name)
		}
	}
	programs, err := os.MkdirTemp("", "drupdate-install-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(programs) }() // It is in the system's folder for what is temporary.
	if err := environment(programs); err != nil {
		return 1, err
	}
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return 1, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return 1, err
	}
	if cluster, err = kube.New(config, kube.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// environment is what a person has who has followed docs/install.md: the programs under all their names, and nothing of an
// earlier use of Helm.
func environment(programs string) error {
	drupdate, err := exec.LookPath("drupdate")
	if err != nil {
		return err
	}
	return errors.Join(
		os.Symlink(drupdate, filepath.Join(programs, "kubectl-drupdate")),
		os.Setenv("PATH", programs+":"+os.Getenv("PATH")),
		os.Setenv("HELM_CACHE_HOME", filepath.Join(programs, "cache")),
		os.Setenv("HELM_CONFIG_HOME", filepath.Join(programs, "config")),
		os.Setenv("HELM_DATA_HOME", filepath.Join(programs, "data")),
	)
}

// empty takes everything of drupdate out of the cluster, however it got there.
func empty(t *testing.T) {
	t.Helper()
	for _, args := range []string{
		"delete crd drupalsites.drupdate.dev --ignore-not-found",
		"delete clusterrole,clusterrolebinding -l app.kubernetes.io/part-of=drupdate",
		"delete namespace drupdate-system drupal-sites blogs --ignore-not-found --timeout=2m",
	} {
		run(t, "kubectl", strings.Fields(args)...)
	}
}

// run is a command in the repository, which has to succeed. It returns what it printed. It may clean up: then the test's own
// context has ended.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := command(context.WithoutCancel(t.Context()), program, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", program, strings.Join(args, " "), out)
	return string(out)
}

func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = root
	c.WaitDelay = 5 * time.Second
	return c
}
