package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.uber.org/zap"

	"github.com/drupdate/drupdate/activities"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/workflows"
)

// Back-off of starts, and the limit of one health check.
const (
	firstRetry    = time.Second
	mostRetry     = 30 * time.Second
	healthTimeout = 2 * time.Second
)

// errNotStarted is what Ready says before the first poll.
var errNotStarted = errors.New("the worker has not started: Temporal, or its namespace, cannot be reached yet")

// temporalWorker is what Worker calls of worker.Worker.
type temporalWorker interface {
	Start() error
	Stop()
}

// Worker is one Temporal worker that keeps trying until it runs.
type Worker struct {
	cfg   Config
	log   *zap.Logger
	ready atomic.Bool
	// build makes a worker that is not started yet: one that failed to start cannot be started again.
	build func(onFatal func(error)) temporalWorker
	sleep func(ctx context.Context, d time.Duration)
}

// New makes a worker. It connects to nothing yet.
func New(cfg Config) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &Worker{cfg: cfg, log: cfg.Log, sleep: sleep}
	if w.log == nil {
		w.log = zap.NewNop()
	}
	w.build = w.register
	return w, nil
}

// register builds a Temporal worker that knows every workflow and activity.
func (w *Worker) register(onFatal func(error)) temporalWorker {
	options := w.cfg.options()
	options.OnFatalError = onFatal
	t := sdkworker.New(w.cfg.Client, w.cfg.taskQueue(), options)
	workflows.Register(t)
	activities.Register(t, w.cfg.Activities)
	return t
}

// Run polls until ctx ends, and then lets what is under way finish for 30 seconds. While Temporal or its namespace
// cannot be reached, or after the server sent the worker away, it tries again with back-off; it never returns early.
func (w *Worker) Run(ctx context.Context) error {
	defer w.ready.Store(false)
	for wait := firstRetry; ctx.Err() == nil; wait = min(wait*2, mostRetry) {
		began := time.Now()
		err := w.poll(ctx)
		if err == nil {
			return nil
		}
		if time.Since(began) > mostRetry {
			wait = firstRetry
		}
		w.log.Warn("the worker does not run, it tries again", zap.Duration("in", wait), zap.String(logging.KeyError, err.Error()))
		w.sleep(ctx, wait)
	}
	return nil
}

// poll runs one Temporal worker until ctx ends (nil) or the worker fails.
func (w *Worker) poll(ctx context.Context) error {
	fatal := make(chan error, 1)
	t := w.build(func(err error) {
		select {
		case fatal <- err:
		default: // The first cause is enough.
		}
	})
	if err := t.Start(); err != nil {
		return err
	}
	defer t.Stop()
	defer w.ready.Store(false)
	w.ready.Store(true)
	w.log.Info("the worker polls", zap.String(logging.KeyTaskQueue, w.cfg.taskQueue()))
	select {
	case <-ctx.Done():
		w.log.Info("the worker stops: what is under way may finish", zap.Duration("within", stopTimeout))
		return nil
	case err := <-fatal:
		return err
	}
}

// Ready returns nil while the worker polls and Temporal answers.
func (w *Worker) Ready(ctx context.Context) error {
	if !w.ready.Load() {
		return errNotStarted
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	_, err := w.cfg.Client.CheckHealth(ctx, &client.CheckHealthRequest{})
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
