//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// product is drupdate's process.
var product *process

func init() { launches = append(launches, launchProduct) }

// launchProduct starts drupdate in one process.
func launchProduct() (func() error, error) {
	var err error
	product, err = startProduct("all", 18091)
	return func() error { return product.stop() }, err
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
