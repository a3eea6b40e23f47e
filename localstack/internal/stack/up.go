package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// UpOptions are what the caller of Up asks for. The zero value asks for the
// recorded configuration, or the default one.
type UpOptions struct {
	Ports    *Ports // nil keeps the ports as they are.
	AuditLog bool
	// AdvertisedNode is the port under which the API server looks for the node's API: that of a proxy in front of it. Zero means the node's own.
	AdvertisedNode int
	Simsite        string // empty keeps the path as it is.
	IgnoreEnv      bool   // do not use a cluster or a Temporal named by the environment.
	Out            io.Writer
}

// Up builds what is missing and starts what does not run. Calling it again is
// safe, and does nothing when everything runs.
func (s *Stack) Up(ctx context.Context, o UpOptions) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.configure(ctx, o); err != nil {
		return err
	}
	var missing []component
	for _, part := range s.components() {
		id, err := s.running(part.name)
		if err != nil {
			return err
		}
		if !id.Alive() {
			missing = append(missing, part)
		}
	}
	if len(missing) == 0 {
		fmt.Fprintln(o.Out, "localstack already runs")
		return nil
	}
	if err := checkPorts(missing); err != nil {
		return err
	}
	if err := s.programs(ctx, o.Out, missing); err != nil {
		return err
	}
	begun := time.Now()
	if err := s.files(); err != nil {
		return err
	}
	if err := s.startAll(ctx, missing); err != nil {
		return s.giveUp(ctx, missing, err)
	}
	fmt.Fprintf(o.Out, "localstack is up after %s\n", time.Since(begun).Round(100*time.Millisecond))
	return nil
}

// giveUp stops what Up has started, since nobody knows of half a stack.
func (s *Stack) giveUp(ctx context.Context, parts []component, why error) error {
	if ctx.Err() != nil {
		why = errors.New("interrupted: what had been started is stopped again")
	}
	failures := []error{why}
	for _, part := range slices.Backward(parts) {
		failures = append(failures, s.halt(context.WithoutCancel(ctx), part.name))
	}
	return errors.Join(failures...)
}

// configure merges the options into the recorded configuration. What runs
// cannot change its ports.
func (s *Stack) configure(ctx context.Context, o UpOptions) error {
	alive, err := s.anyAlive()
	if err != nil {
		return err
	}
	if o.Ports != nil && alive && *o.Ports != s.config.Ports {
		return errors.New("change ports: the stack runs on other ones: run down first")
	}
	if o.Ports != nil {
		s.config.Ports = *o.Ports
	}
	if o.Simsite != "" {
		s.config.Simsite = o.Simsite
	}
	s.config.AuditLog = s.config.AuditLog || o.AuditLog
	if !alive {
		s.config.AuditLog, s.config.AdvertisedNode = o.AuditLog, o.AdvertisedNode
		s.config.Kubeconfig, s.config.TemporalAddress = "", ""
		if !o.IgnoreEnv {
			s.adopt(ctx, o.Out)
		}
	}
	if err := s.makeFolders(); err != nil {
		return err
	}
	return s.save()
}

// anyAlive reports whether any part has a process.
func (s *Stack) anyAlive() (bool, error) {
	statuses, err := s.Status()
	if err != nil {
		return false, err
	}
	for _, status := range statuses {
		if status.State == Running || status.State == Paused {
			return true, nil
		}
	}
	return false, nil
}

// makeFolders makes the folders of the state. The database folder is open to the users of all containers.
func (s *Stack) makeFolders() error {
	for _, dir := range []string{"bin", "run", "logs", "volumes", "pods", "databases"} {
		if err := os.MkdirAll(s.path(dir), 0o755); err != nil {
			return fmt.Errorf("make state folder: %w", err)
		}
	}
	if err := os.Chmod(s.path("databases"), 0o1777); err != nil {
		return fmt.Errorf("make state folder: %w", err)
	}
	return nil
}

// startAll starts the missing parts side by side, as far as they do not need
// each other: the API server needs etcd, its clients need the API server.
func (s *Stack) startAll(ctx context.Context, missing []component) error {
	group, ctx := errgroup.WithContext(ctx)
	var control []component
	for _, part := range missing {
		if part.name != Temporal {
			control = append(control, part)
			continue
		}
		group.Go(func() error { return s.startAndWait(ctx, part) })
	}
	group.Go(func() error { return s.startControlPlane(ctx, control) })
	return group.Wait()
}

func (s *Stack) startControlPlane(ctx context.Context, parts []component) error {
	clients, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		if part.name == Etcd || part.name == APIServer {
			if err := s.startAndWait(ctx, part); err != nil {
				return err
			}
			continue
		}
		clients.Go(func() error { return s.startAndWait(ctx, part) })
	}
	if err := clients.Wait(); err != nil || len(parts) == 0 {
		return err
	}
	manager := s.controllerManager()
	manager.ready = s.accountsReady
	return s.await(context.WithoutCancel(ctx), manager)
}

func (s *Stack) startAndWait(ctx context.Context, part component) error {
	if err := s.launch(part); err != nil {
		return err
	}
	return s.await(ctx, part)
}
