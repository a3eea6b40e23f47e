package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// stack is the running demo: the embedded Kubernetes and Temporal, and drupdate's two processes.
type stack struct {
	state string
	// env is what localstack says of its addresses.
	env  map[string]string
	kube client.Client
}

func startStack(ctx context.Context, state string) (*stack, error) {
	state, err := filepath.Abs(state)
	if err != nil {
		return nil, err
	}
	s := &stack{state: state}
	if err := s.localstack(ctx, "up"); err != nil {
		return nil, err
	}
	if err := s.readEnv(ctx); err != nil {
		return nil, err
	}
	if err := s.connect(); err != nil {
		return nil, err
	}
	if err := s.installCRD(ctx); err != nil {
		return nil, err
	}
	for _, role := range []string{"watcher", "worker"} {
		if err := s.startRole(role); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *stack) localstack(ctx context.Context, verb string) error {
	command := exec.CommandContext(ctx, filepath.Join(s.state, "bin", "localstack"), verb, "--state", s.state)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("localstack %s: %w", verb, err)
	}
	return nil
}

// readEnv reads the `export NAME=value` lines of localstack env.
func (s *stack) readEnv(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, filepath.Join(s.state, "bin", "localstack"), "env", "--state", s.state).Output()
	if err != nil {
		return fmt.Errorf("localstack env: %w", err)
	}
	s.env = map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok {
			s.env[name] = strings.Trim(value, `'"`)
		}
	}
	return nil
}

func (s *stack) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", s.env["KUBECONFIG"])
	if err != nil {
		return fmt.Errorf("read the kubeconfig %q: %w", s.env["KUBECONFIG"], err)
	}
	config.QPS, config.Burst = 50, 100
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	s.kube, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

func (s *stack) installCRD(ctx context.Context) error {
	raw, err := os.ReadFile("deploy/crd/drupdate.dev_drupalsites.yaml")
	if err != nil {
		return fmt.Errorf("run the demo from the project's root: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return err
	}
	raw, err = json.Marshal(crd)
	if err != nil {
		return err
	}
	patch := client.RawPatch("application/apply-patch+yaml", raw)
	if err := s.kube.Patch(ctx, crd, patch, client.FieldOwner("drupdate-install"), client.ForceOwnership); err != nil {
		return fmt.Errorf("install the CRD: %w", err)
	}
	return poll(ctx, 30*time.Second, func() error {
		return s.kube.List(ctx, &v1alpha1.DrupalSiteList{})
	})
}

// startRole starts the watcher or the worker, detached: they go on when the demo has ended.
func (s *stack) startRole(role string) error {
	if pid, ok := s.running(role); ok {
		fmt.Printf("The %s runs already (pid %d).\n", role, pid)
		return nil
	}
	path := filepath.Join(s.state, "logs", role+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	ports := map[string]int{"watcher": 18081, "worker": 18083}
	command := exec.Command(s.binary(), role, // not bound to the context: the process outlives the demo
		"--health-addr", fmt.Sprintf("127.0.0.1:%d", ports[role]), "--metrics-addr", fmt.Sprintf("127.0.0.1:%d", ports[role]+1))
	command.Env = os.Environ()
	for name, value := range s.env {
		command.Env = append(command.Env, name+"="+value)
	}
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the %s: %w", role, err)
	}
	fmt.Printf("Started the %s (log: %s).\n", role, path)
	if err := os.WriteFile(s.pidFile(role), strconv.AppendInt(nil, int64(command.Process.Pid), 10), 0o600); err != nil {
		return err
	}
	return command.Process.Release()
}

func (s *stack) binary() string             { return filepath.Join(s.state, "bin", "drupdate") }
func (s *stack) pidFile(role string) string { return filepath.Join(s.state, "run", role+".pid") }

// running finds the process that the pid file names, if it is still ours.
func (s *stack) running(role string) (int, bool) {
	raw, err := os.ReadFile(s.pidFile(role))
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, false
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return 0, false
	}
	args := sets.New(strings.Split(string(line), "\x00")...)
	return pid, args.HasAll(s.binary(), role)
}

// down stops what up started. Twice is once.
func down(ctx context.Context, state string) error {
	state, err := filepath.Abs(state)
	if err != nil {
		return err
	}
	s := &stack{state: state}
	for _, role := range []string{"watcher", "worker"} {
		if err := s.stopRole(ctx, role); err != nil {
			return err
		}
	}
	return s.localstack(ctx, "down")
}

func (s *stack) stopRole(ctx context.Context, role string) error {
	pid, ok := s.running(role)
	if !ok {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop the %s: %w", role, err)
	}
	err := poll(ctx, 40*time.Second, func() error {
		if _, ok := s.running(role); ok {
			return fmt.Errorf("the %s (pid %d) does not stop", role, pid)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("Stopped the %s.\n", role)
	return os.Remove(s.pidFile(role))
}

func (s *stack) whereIsWhat() string {
	kubectl := filepath.Join(s.state, "bin", "kubectl")
	return fmt.Sprintf(`
Every run, step by step:  %s/namespaces/default/workflows
The sites:                %s --kubeconfig %s -n %s get dsite -o wide
One site's conditions:    %s --kubeconfig %s -n %s describe dsite bad-hook
Logs:                     %s/logs
Stop all of it:           make demo-down
`, s.env["TEMPORAL_UI"], kubectl, s.env["KUBECONFIG"], namespace, kubectl, s.env["KUBECONFIG"], namespace, s.state)
}
