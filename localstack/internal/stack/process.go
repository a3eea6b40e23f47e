package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/drupdate/drupdate/localstack/internal/proc"
)

// stopGrace is how long a part may take to end before it is killed. An API
// server would wait a minute for its watchers; nothing is lost by killing it.
const stopGrace = 4 * time.Second

// running is the recorded process of a part; it may have ended.
func (s *Stack) running(name string) (proc.ID, error) { return proc.Load(s.record(name)) }

func (s *Stack) record(name string) string { return s.path("run", name+".json") }
func (s *Stack) log(name string) string    { return s.path("logs", name+".log") }

// launch starts a part, detached, so that it outlives this command.
func (s *Stack) launch(part component) error {
	log, err := os.OpenFile(s.log(part.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", part.name, err)
	}
	cmd := exec.Command(s.path("bin", part.program), part.args...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return fmt.Errorf("start %s: %w", part.name, err)
	}
	go func() { _ = cmd.Wait() }() // how it ended is in its log; this only lets the kernel forget it.
	id, err := proc.Identify(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("start %s: %w: %s", part.name, err, tail(s.log(part.name)))
	}
	return id.Save(s.record(part.name))
}

// halt stops a part and forgets its record. One that does not run is fine.
func (s *Stack) halt(ctx context.Context, name string) error {
	id, err := s.running(name)
	if err != nil {
		return err
	}
	if err := id.Stop(ctx, stopGrace); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	if err := os.Remove(s.record(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return nil
}

// Start starts one part, unless it runs, and waits until it serves.
func (s *Stack) Start(ctx context.Context, name string) error {
	return s.change(name, func(part component) error {
		if id, err := s.running(name); err != nil || id.Alive() {
			return err
		}
		if err := checkPorts([]component{part}); err != nil {
			return err
		}
		if err := s.launch(part); err != nil {
			return err
		}
		return s.await(ctx, part)
	})
}

// Stop stops one part in an orderly way.
func (s *Stack) Stop(ctx context.Context, name string) error {
	return s.change(name, func(component) error { return s.halt(ctx, name) })
}

// Restart stops one part in an orderly way and starts it.
func (s *Stack) Restart(ctx context.Context, name string) error {
	if err := s.Stop(ctx, name); err != nil {
		return err
	}
	return s.Start(ctx, name)
}

// Kill ends one part with SIGKILL, as a crash would.
func (s *Stack) Kill(ctx context.Context, name string) error {
	return s.change(name, func(component) error {
		id, err := s.running(name)
		if err != nil {
			return err
		}
		return id.Kill(ctx)
	})
}

// Pause freezes one part with SIGSTOP until Resume.
func (s *Stack) Pause(name string) error { return s.signal(name, syscall.SIGSTOP) }

// Resume wakes a part that Pause froze.
func (s *Stack) Resume(name string) error { return s.signal(name, syscall.SIGCONT) }

func (s *Stack) signal(name string, sig syscall.Signal) error {
	return s.change(name, func(component) error {
		id, err := s.running(name)
		if err != nil {
			return err
		}
		if !id.Alive() {
			return fmt.Errorf("signal %s: it does not run", name)
		}
		return id.Signal(sig)
	})
}

// change runs an action on a part while nothing else changes the stack.
func (s *Stack) change(name string, action func(component) error) error {
	part, err := s.component(name)
	if err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return action(part)
}
