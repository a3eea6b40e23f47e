package logging_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"

	"github.com/drupdate/drupdate/internal/logging"
)

func TestEveryLibraryWritesThroughTheOneLoggerWithTheSameKeys(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l, err := logging.New(&out, "info", logging.JSON)
	require.NoError(t, err)

	logging.Controller(l).WithValues("controllerKind", "DrupalSite", "DrupalSite", map[string]string{"name": "blog"}, "namespace", "sites", "name", "blog").
		Info("from the watcher", "reconcileID", "r")
	logging.Kubernetes(l).Info("from kubernetes", "err", "reset", "name", "lease")
	run := log.With(logging.Temporal(l), "WorkflowID", "site/sites/blog", "RunID", "r1", "Namespace", "default", "ActivityType", "Inspect")
	run.Error("from temporal", "Error", "gone", "cachedPreviousStartedEventID", 3)
	logging.Temporal(l).Info("of no run", "WorkflowID", "something else")
	logging.Temporal(l).Debug("too fine")
	l.Debug("too fine")

	var entries []map[string]any
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var entry map[string]any
		require.NoError(t, decoder.Decode(&entry))
		delete(entry, "ts")
		entries = append(entries, entry)
	}
	require.Equal(t, []map[string]any{
		{"level": "info", "msg": "from the watcher", "namespace": "sites", "site": "blog", "controller_kind": "DrupalSite", "reconcile_id": "r"},
		{"level": "info", "logger": "kubernetes", "msg": "from kubernetes", "error": "reset", "name": "lease"},
		{
			"level": "error", "logger": "temporal", "msg": "from temporal", "namespace": "sites", "site": "blog", "workflow_id": "site/sites/blog",
			"run_id": "r1", "temporal_namespace": "default", "activity": "Inspect", "error": "gone", "cached_previous_started_event_id": 3.0,
		},
		{"level": "info", "logger": "temporal", "msg": "of no run", "workflow_id": "something else"},
	}, entries)
}

func TestConsoleIsNotJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l, err := logging.New(&out, "debug", logging.Console)
	require.NoError(t, err)
	l.Debug("hello")
	require.Contains(t, out.String(), "\tdebug\thello\n")
}

func TestWhatNewRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ level, format string }{
		"a level that nobody knows":  {"loud", logging.JSON},
		"a format that nobody knows": {"info", "xml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := logging.New(&bytes.Buffer{}, c.level, c.format)
			require.Error(t, err)
		})
	}
}
