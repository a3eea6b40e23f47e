package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/drupdate/drupdate/localstack/internal/proc"
)

// everything is every part a stack can have run, in the order of starting.
var everything = []string{Etcd, APIServer, ControllerManager, Scheduler, Node, Temporal}

// Down stops every part and every container, and returns when they are gone.
// Purge also deletes the data, but not the programs. Calling it again is safe.
func (s *Stack) Down(ctx context.Context, purge bool) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var failures []error
	for _, name := range slices.Backward(everything) {
		failures = append(failures, s.halt(ctx, name))
	}
	failures = append(failures, KillContainers(ctx, s.path("pods")))
	if err := errors.Join(failures...); err != nil || !purge {
		return err
	}
	for _, name := range []string{"pki", "kubeconfig", "logs", "etcd", "temporal.db", "temporal.db-shm", "temporal.db-wal", "temporal.db-journal", "volumes", "pods", "databases", "run"} {
		if err := os.RemoveAll(s.path(name)); err != nil {
			return fmt.Errorf("delete state: %w", err)
		}
	}
	return nil
}

// ContainerRecord is the name of the file in a container's folder that says
// which process is the container.
const ContainerRecord = "process.json"

// KillContainers ends every container that is recorded below a folder of pods
// and still runs, as those of a node that crashed may.
func KillContainers(ctx context.Context, pods string) error {
	records, err := filepath.Glob(filepath.Join(pods, "*", "*", ContainerRecord))
	if err != nil {
		return fmt.Errorf("find containers: %q: %w", pods, err)
	}
	for _, record := range records {
		id, err := proc.Load(record)
		if err != nil {
			return err
		}
		if err := id.Kill(ctx); err != nil {
			return fmt.Errorf("end container: %q: %w", record, err)
		}
	}
	return nil
}
