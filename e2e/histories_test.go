//go:build e2e && !fault

package e2e

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// TestRecordHistories records one history of every ending for the replay tests. `make histories` sets RECORD to the
// prefix of the files, a release; without it the test only checks that these runs can be read back.
func TestRecordHistories(t *testing.T) {
	t.Parallel()
	for ending, tc := range map[string]struct {
		target  string
		phase   update.Phase
		options []option
		meddle  func(*world)
	}{
		"success":           {"10.3.2", update.PhaseSucceeded, nil, nil},
		"database":          {"10.3.6", update.PhaseSucceeded, nil, nil},
		"rollback":          {"10.4.0-cr-broken", update.PhaseRolledBack, nil, nil},
		"database-failure":  {"10.4.0-hook-exception", update.PhaseRestored, nil, nil},
		"preflight-failure": {"10.4.0-db-down", update.PhaseCodeFailed, []option{withSpec(asksFirst)}, nil},
		"cancel": {"10.4.0-hangs", update.PhaseAborted, nil, func(w *world) {
			w.reaches(update.PhaseRollingOut)
			w.cli("workflow", "cancel", "--workflow-id", "site/"+w.ns+"/"+w.name)
		}},
		"recovered": {"10.4.0-slow-update", update.PhaseSucceeded, nil, func(w *world) {
			w.reaches(update.PhaseUpdatingDatabase)
			w.cli("workflow", "terminate", "--workflow-id", "site/"+w.ns+"/"+w.name)
		}},
	} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			w := newSite(t, tc.options...)
			w.want(tc.target)
			if tc.meddle != nil {
				tc.meddle(w)
			}
			run := w.ends(tc.target, tc.phase).Status.Run
			record(t, ending, run.WorkflowID, run.RunID)
			if ending == "success" {
				record(t, "check", update.Site{Namespace: w.ns, Name: w.name}.CheckID(), "")
			}
		})
	}
	t.Run("backups", func(t *testing.T) {
		t.Parallel()
		w := newSite(t, withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Backups = &v1alpha1.BackupsSpec{Schedule: "0 0 1 1 *", Keep: 1} }))
		id := update.Site{Namespace: w.ns, Name: w.name}.UpdateID()
		site := fmt.Sprintf(`"site":{"namespace":%q,"name":%q}`, w.ns, w.name)
		w.cli("workflow", "execute", "--workflow-id", id, "--type", update.BackupSiteWorkflow, "--task-queue", update.TaskQueue, "--input", "{"+site+"}")
		record(t, "backup", id, "")
		name := w.backup(v1alpha1.BackupOfRequest).Name
		w.cli("workflow", "execute", "--workflow-id", id, "--type", update.RestoreSiteWorkflow, "--task-queue", update.TaskQueue,
			"--input", fmt.Sprintf(`{%s,"backup":%q}`, site, name))
		record(t, "restore", id, "")
		w.cli("workflow", "execute", "--workflow-id", id+"/scheduled", "--type", update.ScheduledBackupWorkflow, "--task-queue", update.TaskQueue, "--input", "{"+site+"}")
		record(t, "scheduled-backup", id+"/scheduled", "")
		w.idle()
	})
}

func record(t *testing.T, ending, workflowID, runID string) {
	t.Helper()
	h := &history.History{}
	events := temporal.GetWorkflowHistory(t.Context(), workflowID, runID, true, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, event)
	}
	raw, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(h)
	require.NoError(t, err)
	require.NotContains(t, string(raw), password)
	prefix := os.Getenv("RECORD")
	if prefix == "" {
		return
	}
	path := filepath.Join("..", "workflows", "testdata", "histories", fmt.Sprintf("%s_%s.json.gz", prefix, ending))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	require.NoError(t, err, "a recorded history is never edited: choose another prefix")
	zip := gzip.NewWriter(f)
	_, err = zip.Write(raw)
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	require.NoError(t, f.Close())
}
