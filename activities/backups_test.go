package activities

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/sitejob"
	"github.com/drupdate/drupdate/internal/update"
)

// fakeSchedules remembers what was removed.
type fakeSchedules struct {
	removed []string
	err     error
}

func (f *fakeSchedules) Remove(_ context.Context, id string) error {
	if f.err != nil {
		return f.err
	}
	f.removed = append(f.removed, id)
	return nil
}

func TestABackupIsFoundAmongThoseThatTheResourceLists(t *testing.T) {
	t.Parallel()
	site := testSite()
	taken := metav1.NewTime(noon)
	site.Status.Backups = []v1alpha1.BackupStatus{{Name: "a", Release: "1.0", Origin: v1alpha1.BackupOfSchedule, TakenAt: taken, Bytes: 7, SHA256: "aa"}}
	w := newWorld(t, site)
	require.Equal(t, update.Backup{Name: "a", Release: "1.0", Origin: "Schedule", TakenAt: noon.UTC(), Bytes: 7, SHA256: "aa"},
		twice(w, update.FindBackup, update.BackupQuery{Site: blog, Name: "a"}))
	require.Equal(t, update.Backup{}, twice(w, update.FindBackup, update.BackupQuery{Site: blog, Name: "b"}))
	_, err := do(newWorld(t), update.FindBackup, update.BackupQuery{Site: blog, Name: "a"})
	requireFailure(t, err, update.FailureSiteGone)
}

func TestOnlyAScheduleThatNobodyWantsIsRemoved(t *testing.T) {
	t.Parallel()
	schedules := &fakeSchedules{}
	gone := New(Deps{Client: newWorld(t).client, Schedules: schedules})
	wants := testSite()
	wants.Spec.Backups = &v1alpha1.BackupsSpec{Schedule: "@daily", Keep: 2}
	there := New(Deps{Client: newWorld(t, wants).client, Schedules: schedules})
	unwanted := New(Deps{Client: newWorld(t, testSite()).client, Schedules: schedules})
	_, err := there.RemoveSchedule(t.Context(), blog)
	require.NoError(t, err)
	require.Empty(t, schedules.removed)
	anew := blog
	anew.UID = "another"
	for _, of := range []struct {
		a    *Activities
		site update.Site
	}{{gone, blog}, {there, anew}, {unwanted, blog}, {gone, update.Site{Namespace: "sites", Name: "blog"}}, {New(Deps{Client: newWorld(t).client}), blog}} {
		_, err := of.a.RemoveSchedule(t.Context(), of.site)
		require.NoError(t, err)
	}
	require.Equal(t, []string{blog.ScheduleID(), anew.ScheduleID(), blog.ScheduleID()}, schedules.removed)
	schedules.err = errors.New("temporal is away")
	_, err = gone.RemoveSchedule(t.Context(), blog)
	require.Error(t, err)
}

func TestScheduledBackupsAreListedApart(t *testing.T) {
	t.Parallel()
	site := testSite()
	site.Spec.Update.Backup.Keep, site.Spec.Backups = 1, &v1alpha1.BackupsSpec{Schedule: "@daily", Keep: 2}
	w := newWorld(t, site)
	taken := noon
	names := func() []string {
		var names []string
		for _, b := range w.site().Status.Backups {
			names = append(names, b.Name)
		}
		return names
	}
	list := func(name, origin string) {
		taken = taken.Add(time.Hour)
		twice(w, update.WriteReport, update.Report{Site: blog, Backup: &update.Backup{Name: name, Origin: origin, Release: "1.0", TakenAt: taken, Bytes: 1, SHA256: "a"}})
	}
	list("asked", "Request")
	for _, name := range []string{"night-1", "night-2", "night-3"} {
		list(name, "Schedule")
	}
	require.Equal(t, []string{"night-3", "night-2", "asked"}, names())
	list("before", "Update")
	require.Equal(t, []string{"before", "night-3", "night-2"}, names())

	// What a failed restore refers to stays, whatever its kind.
	twice(w, update.WriteReport, update.Report{Site: blog, Set: []update.Condition{{
		Type: update.ConditionDBUpdatesFailed, Status: update.True, Reason: update.ReasonRestoreFailed, Message: "The restore of the backup night-2 failed.",
	}}})
	list("night-4", "Schedule")
	list("night-5", "Schedule")
	require.Equal(t, []string{"night-5", "night-4", "before", "night-2"}, names())
}

func TestTheOperationThatPutsABackupBackIsRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	operation, none := "r1", ""
	twice(w, update.WriteReport, update.Report{
		Site: blog, RunID: "r1", Phase: update.PhaseRewinding, Message: "Putting it back.", Started: true, InProgress: update.MarkSet,
		Operation: &operation, Restoring: "old", Journal: "notes",
	})
	run := w.site().Status.Run
	require.Equal(t, []string{"r1", "old", "notes"}, []string{run.Operation, run.Restoring, run.Journal})
	require.NotNil(t, run.MaintenanceSince)
	twice(w, update.WriteReport, update.Report{Site: blog, RunID: "r2", Phase: update.PhaseRewinding, Message: "Going on."})
	run = w.site().Status.Run
	require.Equal(t, []string{"r2", "r1", "old", "notes"}, []string{run.RunID, run.Operation, run.Restoring, run.Journal}, "a recovery run goes on with it")
	twice(w, update.WriteReport, update.Report{Site: blog, RunID: "r2", Phase: update.PhaseRewound, Message: "Done.", Finished: true, InProgress: update.MarkClear, Operation: &none})
	run = w.site().Status.Run
	require.Empty(t, run.Operation+run.Restoring+run.Journal)
	require.Nil(t, run.MaintenanceSince)
	require.False(t, w.site().InProgress())
}

func TestABackupThatFailsLeavesTheRecordOfTheRunAlone(t *testing.T) {
	t.Parallel()
	site := testSite()
	site.Status.Run = &v1alpha1.RunStatus{RunID: "r0", Phase: string(update.PhaseRolledBack), Message: "It failed."}
	w := newWorld(t, site)
	before := w.site().Status.Run
	twice(w, update.WriteReport, update.Report{
		Site: blog, Set: []update.Condition{{Type: update.ConditionBackupFailed, Status: update.True, Reason: update.ReasonBackupFailed, Message: "No space."}},
		Event: &update.Event{Warning: true, Reason: update.ReasonBackupFailed, Message: "No space."},
	})
	require.Equal(t, before, w.site().Status.Run)
	require.Nil(t, conditionOf(w.site(), v1alpha1.ConditionUpdating))
	require.Equal(t, update.ReasonBackupFailed, reasonOf(w.site(), v1alpha1.ConditionBackupFailed))
}

func TestTheJobOfARewindIsToldWhatAndHow(t *testing.T) {
	t.Parallel()
	site := testSite()
	site.Spec.Backups = &v1alpha1.BackupsSpec{Schedule: "@daily", Keep: 9}
	for _, c := range []struct {
		name      string
		operation update.Operation
		env       map[string]string
	}{
		{"a rewind", update.Operation{Kind: update.OperationRewind, Source: "old", Held: true}, map[string]string{
			"DRUPDATE_SOURCE": "old", "DRUPDATE_HELD": "1", "DRUPDATE_BACKUP_POLICY": "BeforeDatabaseUpdates",
		}},
		{"without a safety backup", update.Operation{Kind: update.OperationRewind, Source: "old", NoSafetyBackup: true}, map[string]string{
			"DRUPDATE_HELD": "0", "DRUPDATE_BACKUP_POLICY": "Never",
		}},
		{"a scheduled backup", update.Operation{Kind: update.OperationBackup, Scheduled: true}, map[string]string{
			"DRUPDATE_CLASS": "scheduled", "DRUPDATE_KEEP": "9",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, site.DeepCopy(), testDeployment("1.0"))
			o := c.operation
			o.Site, o.RunID, o.Release, o.From, o.BackupName, o.Timeout = blog, testRun, "1.0", "1.0", "blog-1.0-x", time.Hour
			name := sitejob.Name("blog", testRun, string(o.Kind))
			w.clock.onWait = func(n int) {
				if n == 1 {
					w.endsJob(name, batchv1.JobFailed, 1, "")
				}
			}
			got, err := do(w, update.RunOperation, o)
			require.NoError(t, err)
			require.Equal(t, update.Unknown, got.Outcome, "a Job without a word is nobody's success")
			job := &batchv1.Job{}
			require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "sites", Name: name}, job))
			env := map[string]string{}
			for _, e := range job.Spec.Template.Spec.Containers[0].Env {
				env[e.Name] = e.Value
			}
			for key, value := range c.env {
				require.Equal(t, value, env[key], key)
			}
			require.True(t, mountsClaim(job.Spec.Template.Spec.Volumes, "blog-backups"))
		})
	}
}

func mountsClaim(volumes []corev1.Volume, claim string) bool {
	for _, v := range volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}

func TestEachBackupSaysWhatItWasTakenFor(t *testing.T) {
	t.Parallel()
	for want, o := range map[v1alpha1.BackupOrigin]update.Operation{
		v1alpha1.BackupOfUpdate: {Kind: update.OperationUpdate}, v1alpha1.BackupOfRestore: {Kind: update.OperationRewind},
		v1alpha1.BackupOfRequest: {Kind: update.OperationBackup}, v1alpha1.BackupOfSchedule: {Kind: update.OperationBackup, Scheduled: true},
	} {
		require.Equal(t, want, originOf(o))
	}
}
