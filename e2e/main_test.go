//go:build e2e || fault

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// The images, the release that sites have before a test, and the secret that must show up nowhere.
const (
	repository = "registry.example/drupal"
	baseline   = "10.3.1"
	password   = "s3cret-of-the-database"
)

// What the tests share: the folder of the stack, and the clients.
var (
	state    string
	cluster  kube.Client
	restConf *rest.Config
	temporal client.Client
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
	if err := install(); err != nil {
		return 1, err
	}
	stop, err := launch()
	if err != nil {
		return 1, err
	}
	code := m.Run()
	return code, stop()
}

func connect() error {
	var err error
	if restConf, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")); err != nil {
		return err
	}
	restConf.QPS, restConf.Burst = 200, 400
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if cluster, err = kube.New(restConf, kube.Options{Scheme: scheme}); err != nil {
		return err
	}
	temporal, err = client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS"), Logger: silent{}})
	return err
}

// try calls until there is no error, and returns the last one when the time is up.
func try(limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // the one place that waits for the world between looks
	}
}

// healthy asks a drupdate whether it does its work.
func healthy(address string) error {
	response, err := http.Get(address + "/readyz") //nolint:noctx // a loopback probe with the poll's own limit
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %d", response.StatusCode)
	}
	return nil
}

// silent drops the SDK client's log lines.
type silent struct{}

var _ log.Logger = silent{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// getPage asks a pod for a page; code 0 means that nobody answered, and the body says why.
func getPage(ctx context.Context, client *http.Client, pod *corev1.Pod, path string) (code int, body string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pod.Status.PodIP+":8080"+path, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, 1024))
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, strings.TrimSpace(string(raw))
}
