package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"github.com/drupdate/drupdate/activities"
)

// scripted is a Temporal worker whose start gives the next error of a list.
type scripted struct {
	start   error
	started func()
	stopped chan<- struct{}
}

func (s scripted) Start() error {
	if s.start == nil && s.started != nil {
		s.started()
	}
	return s.start
}
func (s scripted) Stop() { s.stopped <- struct{}{} }

func testConfig(t *testing.T) Config {
	t.Helper()
	return Config{Client: mocks.NewClient(t), Activities: activities.New(activities.Deps{})}
}

func TestRunTriesUntilTheNamespaceIsThereAndDrainsAtTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := New(testConfig(t))
	require.NoError(t, err)
	var waits []time.Duration
	w.sleep = func(_ context.Context, d time.Duration) {
		require.ErrorIs(t, w.Ready(ctx), errNotStarted)
		waits = append(waits, d)
	}
	stopped := make(chan struct{}, 1)
	starts := 0
	w.build = func(func(error)) temporalWorker {
		starts++
		if starts <= 6 {
			return scripted{start: errors.New("namespace not found"), stopped: stopped}
		}
		return scripted{started: cancel, stopped: stopped}
	}
	require.NoError(t, w.Run(ctx))
	require.Len(t, stopped, 1)
	require.Equal(t, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9}, waits)
	require.ErrorIs(t, w.Ready(t.Context()), errNotStarted)
}

func TestAFatalErrorMakesANewWorker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := New(testConfig(t))
	require.NoError(t, err)
	w.sleep = func(context.Context, time.Duration) {}
	stopped := make(chan struct{}, 2)
	starts := 0
	w.build = func(onFatal func(error)) temporalWorker {
		starts++
		if starts == 1 {
			return scripted{started: func() { onFatal(errors.New("namespace deleted")) }, stopped: stopped}
		}
		return scripted{started: cancel, stopped: stopped}
	}
	require.NoError(t, w.Run(ctx))
	require.Equal(t, 2, starts)
	require.Len(t, stopped, 2)
}

func TestTheRealWorkerKnowsEveryName(t *testing.T) {
	t.Parallel()
	lazy, err := client.NewLazyClient(client.Options{})
	require.NoError(t, err)
	defer lazy.Close()
	cfg := testConfig(t)
	cfg.Client, cfg.BuildID = lazy, "abc"
	w, err := New(cfg)
	require.NoError(t, err)
	require.NotPanics(t, func() { w.build(func(error) {}) })
}

func TestValidateListsEveryProblem(t *testing.T) {
	t.Parallel()
	err := Config{MaxConcurrentActivities: -1}.Validate()
	require.EqualError(t, err, "worker: a Temporal client is required\nworker: the activities are required\n"+
		"worker: concurrent activities: -1: must be 1 to 10000")
}
