package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
	// ports is the first of the ports of a stack that starts; 0 means the usual ones.
	ports int
	// env is what localstack says of its addresses; nil until the stack is up.
	env  map[string]string
	kube client.Client
}

// foreign are the variables that would lead the stack, or a process of drupdate, elsewhere.
var foreign = regexp.MustCompile(`^(KUBECONFIG|TEMPORAL_|DRUPDATE_)`)

// environment is that of every process of the demo: ours, but for what names another cluster, and what localstack says.
func (s *stack) environment() []string {
	var all []string
	for _, pair := range os.Environ() {
		if !foreign.MatchString(pair) {
			all = append(all, pair)
		}
	}
	all = append(all, "TEMPORAL_CONFIG_FILE="+os.DevNull) // a profile could lead elsewhere as well
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		all = append(all, name+"="+s.env[name])
	}
	return all
}

// lock keeps two demos from making each other's sites anew. It ends with the process.
func (s *stack) lock() (func(), error) {
	path := filepath.Join(s.state, "demo.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("run the demo from the project's root, by make demo: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another demo runs in %s: wait for its end, or interrupt it", s.state)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func (s *stack) start(ctx context.Context) error {
	if err := s.startCluster(ctx); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.installCRD(ctx); err != nil {
		return err
	}
	for _, role := range roles() {
		if err := s.startRole(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

// startCluster starts the embedded stack, or takes the one that runs, and reads where it is.
func (s *stack) startCluster(ctx context.Context) error {
	for _, name := range []string{"KUBECONFIG", "TEMPORAL_ADDRESS"} {
		if value := os.Getenv(name); value != "" {
			fmt.Printf("%s=%s is left alone: the demo needs a cluster of its own, whose node knows the sites' images.\n", name, value)
		}
	}
	up := []string{"up", "--ignore-env"}
	if s.ports != 0 {
		up = append(up, "--ports", strconv.Itoa(s.ports))
	}
	if err := s.localstack(ctx, up...); err != nil {
		return err
	}
	if err := s.readEnv(ctx); err != nil {
		return err
	}
	if own := filepath.Join(s.state, "kubeconfig"); s.env["KUBECONFIG"] != own || s.env["TEMPORAL_UI"] == "" {
		return fmt.Errorf("the stack in %s uses a cluster or a Temporal of somebody else: make down, and then make demo, which starts its own", s.state)
	}
	return nil
}

// localstack runs a verb of localstack, which an interrupt lets clean up.
func (s *stack) localstack(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, filepath.Join(s.state, "bin", "localstack"), append(args, "--state", s.state)...)
	command.Env = s.environment()
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	if err := command.Run(); err != nil {
		return fmt.Errorf("localstack %s: %w", args[0], err)
	}
	return nil
}

// readEnv reads the `export NAME=value` lines of localstack env.
func (s *stack) readEnv(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, filepath.Join(s.state, "bin", "localstack"), "env", "--state", s.state).Output()
	if err != nil {
		return fmt.Errorf("localstack env: %w", err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok {
			env[name] = strings.Trim(value, `'"`)
		}
	}
	s.env = env
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

// role is one process of drupdate.
type role struct {
	name string
	// port is that of its health page, where the stack has the usual ports; the next one is that of its metrics.
	port int
	// offset is the same, counted from the first port of a stack with others.
	offset int
}

func roles() []role { return []role{{"watcher", 18081, 8}, {"worker", 18083, 10}} }

// startRole starts the watcher or the worker, detached: they go on when the demo has ended. It returns when the process
// is ready, or has ended, with the end of its log.
func (s *stack) startRole(ctx context.Context, r role) error {
	if pid, ok := s.running(r.name); ok {
		fmt.Printf("The %s runs already (pid %d).\n", r.name, pid)
		return nil
	}
	log, err := os.OpenFile(s.log(r.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	port := r.port
	if s.ports != 0 {
		port = s.ports + r.offset
	}
	health := fmt.Sprintf("127.0.0.1:%d", port)
	args := []string{r.name, "--health-addr", health, "--metrics-addr", fmt.Sprintf("127.0.0.1:%d", port+1)}
	if r.name == "worker" {
		args = append(args, "--temporal-ui-url", s.env["TEMPORAL_UI"])
	}
	command := exec.Command(s.binary(), args...) // not bound to the context: the process outlives the demo
	command.Env = s.environment()
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the %s: %w", r.name, err)
	}
	if err := os.WriteFile(s.pidFile(r.name), strconv.AppendInt(nil, int64(command.Process.Pid), 10), 0o600); err != nil {
		return err
	}
	if err := command.Process.Release(); err != nil {
		return err
	}
	if err := s.ready(ctx, r.name, health); err != nil {
		return err
	}
	fmt.Printf("Started the %s (log: %s).\n", r.name, s.log(r.name))
	return nil
}

// ready waits until a process says that it is ready.
func (s *stack) ready(ctx context.Context, role, health string) error {
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	err := poll(waiting, time.Minute, func() error {
		if dead := s.alive(role); dead != nil {
			end(dead)
			return dead
		}
		code, said, err := get(waiting, "http://"+health+"/readyz")
		if err == nil && code != http.StatusOK {
			err = errors.New(said)
		}
		return err
	})
	switch dead := context.Cause(waiting); {
	case ctx.Err() == nil && dead != nil:
		return dead
	case err != nil:
		return fmt.Errorf("the %s is not ready: %w (log: %s)", role, err, s.log(role))
	}
	return nil
}

// alive is an error with a process's last words once it has ended.
func (s *stack) alive(role string) error {
	if _, ok := s.running(role); ok {
		return nil
	}
	raw, err := os.ReadFile(s.log(role))
	if err != nil {
		return fmt.Errorf("the %s has ended: %w", role, err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return fmt.Errorf("the %s has ended (log: %s): %s", role, s.log(role), lines[len(lines)-1])
}

func (s *stack) log(role string) string     { return filepath.Join(s.state, "logs", role+".log") }
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
func (s *stack) down(ctx context.Context) error {
	for _, r := range roles() {
		if err := s.stopRole(ctx, r.name); err != nil {
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
	return fmt.Sprintf(`
Every run, step by step:  %s/namespaces/default/workflows
A shell for all of it:    export KUBECONFIG=%s TEMPORAL_ADDRESS=%s PATH=%s:$PATH
The sites:                kubectl -n %[5]s get dsite -o wide
One site's conditions:    kubectl -n %[5]s describe dsite bad-hook
One site, and what next:  drupdate -n %[5]s status bad-hook
Send one elsewhere:       kubectl -n %[5]s patch dsite good --type merge -p '{"spec":{"release":"10.3.6"}}'
Releases to try:          README.md, "Try it yourself"
Logs:                     %[6]s/logs
Stop all of it:           make demo-down
`, s.env["TEMPORAL_UI"], s.env["KUBECONFIG"], s.env["TEMPORAL_ADDRESS"], filepath.Join(s.state, "bin"), namespace, s.state)
}
