package workflows_test

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/workflows"
)

// endings are the cases that must be among the recorded histories, each under its name.
var endings = []string{"success", "database", "rollback", "database-failure", "cancel", "check"}

func recorded(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/histories/*.json.gz")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no history is recorded: run make histories")
	return files
}

func load(t *testing.T, file string) *history.History {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	raw, err := gzip.NewReader(f)
	require.NoError(t, err)
	h, err := client.HistoryFromJSON(raw, client.HistoryJSONOptions{})
	require.NoError(t, err)
	return h
}

func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	files := recorded(t)
	for _, ending := range endings {
		require.True(t, strings.Contains(strings.Join(files, " "), "_"+ending+".json.gz"), "no history of the ending %q is recorded", ending)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			workflows.Register(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistory(quiet(), load(t, file)))
		})
	}
}

// The negative control: a replay that cannot fail would prove nothing.
func TestAChangedWorkflowFailsTheReplay(t *testing.T) {
	t.Parallel()
	for _, file := range recorded(t) {
		if strings.Contains(file, "_check") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			replayer.RegisterWorkflowWithOptions(changed, workflow.RegisterOptions{Name: update.UpdateSiteWorkflow})
			require.ErrorContains(t, replayer.ReplayWorkflowHistory(quiet(), load(t, file)), "TMPRL1100")
		})
	}
}

// changed is UpdateSite as a careless change would leave it: a new first step, without a version.
func changed(ctx workflow.Context, req update.Request) (update.Summary, error) {
	if err := workflow.Sleep(ctx, 1); err != nil {
		return update.Summary{}, err
	}
	return workflows.UpdateSite(ctx, req)
}
