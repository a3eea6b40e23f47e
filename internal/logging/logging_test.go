package logging_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/logging"
)

func TestEveryLibraryWritesThroughTheOneLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l, err := logging.New(&out, "info", logging.JSON)
	require.NoError(t, err)

	logging.Kubernetes(l).Info("from kubernetes", logging.KeySite, "blog")
	logging.Temporal(l).Error("from temporal", logging.KeySite, "shop")
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
		{"level": "info", "msg": "from kubernetes", "site": "blog"},
		{"level": "error", "logger": "temporal", "msg": "from temporal", "site": "shop"},
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
