//go:build e2e && !fault

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// watcher and worker are drupdate's processes, and the flags that lead both to a collector of traces, and the worker to a webhook.
var (
	watcher, worker  *process
	tracesTo, hookTo []string
)

// The ports of health and metrics; each process has two in a row.
const (
	watcherPort = 18091
	workerPort  = 18093
)

// launch starts watcher and worker as deploy/ does: each on its own, with the rights of its own service account. It
// returns what stops them and looks back at what they did.
func launch() (func() error, error) {
	var err error
	if tracesTo, hookTo, err = outlets(); err != nil {
		return nil, err
	}
	if watcher, err = startWatcher(); err != nil {
		return nil, err
	}
	if worker, err = startWorker(); err != nil {
		return nil, err
	}
	return func() error {
		if err := errors.Join(watcher.stop(), worker.stop()); err != nil || !whole() {
			return err
		}
		return afterwards()
	}, nil
}

func startWatcher(env ...string) (*process, error) {
	args := append([]string{"watcher", "--leader-elect", "--leader-elect-namespace", systemNamespace}, tracesTo...)
	p := newProcess(watcherPort, kubeconfigOf(systemNamespace, "drupdate-watcher"), args...)
	p.command.Env = append(p.command.Env, env...)
	return p, p.run()
}

func startWorker() (*process, error) {
	args := append(append([]string{"worker", "--temporal-ui-url", os.Getenv("TEMPORAL_UI")}, tracesTo...), hookTo...)
	p := newProcess(workerPort, kubeconfigOf(systemNamespace, "drupdate-worker"), args...)
	return p, p.run()
}

// process is drupdate, started as its users start it.
type process struct {
	mu      sync.Mutex
	command *exec.Cmd
	exited  chan error
	// ending is set once a test has asked the process to end; one that ends without that is started again.
	ending bool
	// ready returns nil once the process does its work.
	ready func() error
	// log is the name of its file among the logs of the stack.
	log string
}

// newProcess is a drupdate that is not started yet, with the rights of a kubeconfig: tests may be cluster-admin, drupdate
// never is.
func newProcess(port int, kubeconfig string, args ...string) *process {
	health := fmt.Sprintf("127.0.0.1:%d", port)
	args = append(args, "--health-addr", health, "--metrics-addr", fmt.Sprintf("127.0.0.1:%d", port+1))
	command := exec.Command(filepath.Join(state, "bin", "drupdate"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return &process{
		command: command, exited: make(chan error, 1), log: fmt.Sprintf("e2e-drupdate-%d.log", port),
		ready: func() error { return healthy("http://" + health) },
	}
}

// run starts the process and waits until it is ready.
func (p *process) run() error {
	if err := p.start(); err != nil {
		return err
	}
	go p.supervise()
	return try(60*time.Second, p.ready)
}

func (p *process) start() error {
	output, err := os.OpenFile(filepath.Join(state, "logs", p.log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	p.command.Stdout, p.command.Stderr = output, output
	return p.command.Start()
}

// supervise starts the process again when it ends by itself, as Kubernetes does: a watcher that cannot renew its lease in
// time, on a machine that is too busy, ends.
func (p *process) supervise() {
	for {
		err := p.command.Wait()
		p.mu.Lock()
		if p.ending {
			p.mu.Unlock()
			p.exited <- err
			return
		}
		last := p.command
		p.command = exec.Command(last.Path, last.Args[1:]...)
		p.command.Env, p.command.SysProcAttr = last.Env, last.SysProcAttr
		err = p.start()
		p.mu.Unlock()
		if err != nil {
			p.exited <- err
			return
		}
	}
}

// end sends the process a signal that is to end it for good.
func (p *process) end(signal os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	return p.command.Process.Signal(signal)
}

// stop ends the process as Kubernetes does; it must go by itself, and cleanly.
func (p *process) stop() error {
	if err := p.end(syscall.SIGTERM); err != nil {
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
	if err := p.end(syscall.SIGKILL); err != nil {
		return err
	}
	if err := <-p.exited; err == nil {
		return errors.New("drupdate ended by itself")
	}
	return nil
}
