//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// What the tests share: the clients, and drupdate's process.
var (
	state    string
	cluster  kube.Client
	restConf *rest.Config
	temporal client.Client
	product  *process
	// productArgs are its flags, for a test that starts it again.
	productArgs []string
)

func TestMain(m *testing.M) {
	code, err := suite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func suite(m *testing.M) (int, error) {
	state = os.Getenv("LOCALSTACK_STATE")
	for _, name := range []string{"LOCALSTACK_STATE", "KUBECONFIG", "TEMPORAL_ADDRESS"} {
		if os.Getenv(name) == "" {
			return 1, fmt.Errorf("%s is not set: run these tests with make e2e, which starts the stack", name)
		}
	}
	if err := connect(); err != nil {
		return 1, err
	}
	defer temporal.Close()
	if err := installCRD(); err != nil {
		return 1, err
	}
	var err error
	if productArgs, err = outlets(); err != nil {
		return 1, err
	}
	if product, err = startProduct("all", productPort(), productArgs...); err != nil {
		return 1, err
	}
	code := m.Run()
	return code, product.stop()
}

// productPort is the first of the product's two ports, of health and of metrics: E2E_PORT, for suites side by side.
func productPort() int {
	if port, err := strconv.Atoi(os.Getenv("E2E_PORT")); err == nil {
		return port
	}
	return 18091
}

func connect() error {
	var err error
	if restConf, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")); err != nil {
		return err
	}
	restConf.QPS, restConf.Burst = 200, 400
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if cluster, err = kube.New(restConf, kube.Options{Scheme: scheme}); err != nil {
		return err
	}
	temporal, err = client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS"), Logger: silent{}})
	return err
}

func installCRD() error {
	raw, err := os.ReadFile("../deploy/crd/drupdate.dev_drupalsites.yaml")
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return err
	}
	if raw, err = json.Marshal(crd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) //nolint:forbidigo // TestMain has no test whose context could be used
	defer cancel()
	patch := kube.RawPatch("application/apply-patch+yaml", raw)
	if err := cluster.Patch(ctx, crd, patch, kube.FieldOwner("drupdate-install"), kube.ForceOwnership); err != nil {
		return err
	}
	return try(30*time.Second, func() error { return cluster.List(ctx, &v1alpha1.DrupalSiteList{}) })
}

// process is drupdate, started as its users start it.
type process struct {
	command *exec.Cmd
	exited  chan error
	health  string
}

func startProduct(role string, port int, args ...string) (*process, error) {
	path := filepath.Join(state, "logs", fmt.Sprintf("e2e-drupdate-%d.log", port))
	output, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	health := fmt.Sprintf("127.0.0.1:%d", port)
	args = append([]string{role, "--health-addr", health, "--metrics-addr", fmt.Sprintf("127.0.0.1:%d", port+1)}, args...)
	command := exec.Command(filepath.Join(state, "bin", "drupdate"), args...)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command: command, exited: make(chan error, 1), health: "http://" + health}
	go func() { p.exited <- command.Wait() }()
	return p, try(60*time.Second, p.ready)
}

func (p *process) ready() error {
	response, err := http.Get(p.health + "/readyz") //nolint:noctx // a loopback probe with the poll's own limit
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %d", response.StatusCode)
	}
	return nil
}

// stop ends the process as Kubernetes does; it must go by itself, and cleanly.
func (p *process) stop() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.exited:
		if err != nil {
			return fmt.Errorf("drupdate ended with %w on SIGTERM", err)
		}
		return nil
	case <-time.After(45 * time.Second):
		return errors.Join(errors.New("drupdate did not end on SIGTERM"), p.command.Process.Kill())
	}
}

// kill ends the process as a lost node does.
func (p *process) kill() error {
	if err := p.command.Process.Kill(); err != nil {
		return err
	}
	if err := <-p.exited; err == nil {
		return errors.New("drupdate ended by itself")
	}
	return nil
}

// try calls until there is no error, and returns the last one when the time is up.
func try(limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // the one place that waits for the world between looks
	}
}

// silent drops the SDK client's log lines.
type silent struct{}

var _ log.Logger = silent{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
