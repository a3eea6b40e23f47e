package sitejob

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readOnly are the Drush commands that a preflight may use: none of them changes a site.
var readOnly = []string{"status ", "updatedb:status ", "core:requirements "}

func (w *world) requireOnlyQuestions() {
	w.t.Helper()
	for line := range strings.Lines(w.get("calls") + "\n") {
		if _, command, found := strings.Cut(strings.TrimSpace(line), "shop.example "); found {
			require.True(w.t, startsWithAny(command, readOnly), command)
		}
	}
}

func startsWithAny(text string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}

func TestPreflightSaysWhatIsPendingAndChangesNothing(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		got := w.run(Preflight)
		require.Equal(t, Result{
			Version: 1, Operation: Preflight, OK: true, Step: StepDone, Maintenance: FlagUnknown, PendingAfter: 1, UpdatedbExit: -1,
			Backup: Backup{Name: backupName}, Note: "node_update_9",
		}, got)
		require.NoError(t, os.Remove(filepath.Join(w.scene, "pending")))
		got = w.run(Preflight)
		require.True(t, got.OK)
		require.Zero(t, got.PendingAfter)
		require.Empty(t, got.Note)
		require.Equal(t, "0", w.get("flag"))
		w.requireOnlyQuestions()
		left, err := os.ReadDir(w.dir)
		require.NoError(t, err)
		require.Len(t, left, 1, "nothing but the lock")
	})
}

func TestPreflightFailures(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ name, on, text, step, error, limit string }{
		{"the site does not bootstrap", "status", `echo '[]'; exit 0`, StepPreflight, "Drupal does not bootstrap", "60"},
		{"Drush is not there", "status", `exit 127`, StepPreflight, "Drupal does not bootstrap", "60"},
		{"an enabled module has no code", "core:requirements", `printf '{\n    "invalid_module": {\n        "title": "x"\n    }\n}\n'; exit 0`, StepPreflight, "an enabled module or theme has no code in this image", "60"},
		{"nothing can be said of updates", "updatedb:status", `echo; exit 0`, StepPending, "it cannot be said which updates are pending", "60"},
		{"half a list", "updatedb:status", `printf '{"n":{"module":"node","update_id":"","type":"entity-update"},"no'; exit 0`, StepPending, "it cannot be said which updates are pending", "60"},
		{"the status hangs", "status", `sleep 60`, StepPreflight, "Drupal does not bootstrap: no end within the time limit", "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inTurn(t, i, func(t *testing.T, w *world) {
				w.on(c.on, c.text)
				got := w.run(Preflight, "DRUPDATE_QUESTION_TIMEOUT="+c.limit)
				require.False(t, got.OK)
				require.False(t, got.Touched)
				require.Equal(t, c.step, got.Step)
				require.True(t, strings.HasPrefix(got.Error, c.error), got.Error)
				w.requireOnlyQuestions()
			})
		})
	}
}
