package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/drupdate/drupdate/localstack/internal/proc"
)

// Runtime starts containers. All of them end when the process that holds the
// Runtime ends, however it ends.
type Runtime struct {
	program string
	forks   chan func()
}

// New returns a Runtime that starts program, which calls Init and does nothing
// else, as the first process of every container.
func New(program string) *Runtime {
	r := &Runtime{program: program, forks: make(chan func())}
	go r.fork()
	return r
}

// fork starts every child from one thread that lives as long as the process:
// the kernel kills a child when the thread that started it ends.
func (r *Runtime) fork() {
	runtime.LockOSThread()
	for f := range r.forks {
		f()
	}
}

// Streams are the standard streams of a command. They are handed over as they
// are, so the caller closes its ends; nil is the null device.
type Streams struct {
	Stdin, Stdout, Stderr *os.File
	TTY                   bool // the streams are a terminal, which becomes the controlling one.
}

// StartError is the reason why a command never ran, in the words of a
// container runtime.
type StartError struct {
	Message string
	Code    int // what a shell would exit with: 126, 127 or 128.
}

// Error is the reason.
func (e *StartError) Error() string { return e.Message }

// Process is a command that was started.
type Process struct {
	ID   proc.ID
	cmd  *exec.Cmd
	done chan struct{}
	code int
}

// Start runs the command and returns when it runs. A command that cannot be
// run is a *StartError.
func (r *Runtime) Start(spec Spec, streams Streams) (*Process, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("start container: %w", err)
	}
	reports, report, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start container: %w", err)
	}
	defer func() { _ = reports.Close() }() // only read.
	specs, specWriter, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start container: %w", err), report.Close())
	}
	p := &Process{cmd: r.command(spec, streams), done: make(chan struct{})}
	p.cmd.ExtraFiles = []*os.File{report, specs}
	err = r.start(p)
	if err := errors.Join(err, report.Close(), specs.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start container: %w", err), specWriter.Close())
	}
	// A first process that died already cannot read its spec; its report says why.
	_, _ = specWriter.Write(raw)
	_ = specWriter.Close()
	go p.wait()
	return p, p.started(reports)
}

func (r *Runtime) start(p *Process) error {
	result := make(chan error)
	r.forks <- func() { result <- p.cmd.Start() }
	if err := <-result; err != nil {
		return err
	}
	id, err := proc.Identify(p.cmd.Process.Pid)
	if err != nil {
		return errors.Join(err, p.cmd.Process.Kill())
	}
	p.ID = id
	return nil
}

func (r *Runtime) command(spec Spec, streams Streams) *exec.Cmd {
	cmd := exec.Command(r.program)
	cmd.Env = []string{}
	if streams.Stdin != nil {
		cmd.Stdin = streams.Stdin
	}
	if streams.Stdout != nil {
		cmd.Stdout = streams.Stdout
	}
	if streams.Stderr != nil {
		cmd.Stderr = streams.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: streams.TTY, Pdeathsig: syscall.SIGKILL}
	if spec.Inside != 0 {
		return cmd
	}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	return cmd
}

// started waits until the first process became the command, or said why not.
func (p *Process) started(reports io.Reader) error {
	text, err := io.ReadAll(reports)
	if err != nil {
		return fmt.Errorf("start container: %w", err)
	}
	if len(text) == 0 {
		return nil
	}
	<-p.done
	return &StartError{Message: strings.TrimSpace(string(text)), Code: p.code}
}

func (p *Process) wait() {
	err := p.cmd.Wait()
	p.code = status(p.cmd.ProcessState, err)
	close(p.done)
}

// Done is closed when the process has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// Code is the exit code, 128 and the signal number for a killed process. It is
// valid once Done is closed.
func (p *Process) Code() int { return p.code }

// Signal sends a signal to the process; one that is gone is left alone.
func (p *Process) Signal(sig syscall.Signal) error { return p.ID.Signal(sig) }

// Kill ends the process at once; one that is gone is left alone.
func (p *Process) Kill() error { return p.ID.Signal(syscall.SIGKILL) }
