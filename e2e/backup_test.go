//go:build e2e && !fault

package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	batchv1 "k8s.io/api/batch/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/sitejob"
	"github.com/drupdate/drupdate/internal/update"
)

func asksFirst(s *v1alpha1.DrupalSiteSpec) { s.Update.Preflight = true }

// jobs are the Jobs of one kind of operation.
func (w *world) jobs(kind update.OperationKind) []batchv1.Job {
	w.Helper()
	list := &batchv1.JobList{}
	require.NoError(w, cluster.List(w.Context(), list, kube.InNamespace(w.ns), kube.MatchingLabels{sitejob.LabelOperation: string(kind)}))
	return list.Items
}

func TestAPreflightThatFailsCostsTheSiteNothing(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"10.4.0-db-down", "10.4.0-no-drush", "10.4.0-missing"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			w := newSite(t, withSpec(asksFirst))
			before, err := w.deployment()
			require.NoError(t, err)
			first := len(w.journal("cr")) // the baseline's own
			w.want(target)
			s := w.ends(target, update.PhaseCodeFailed)
			require.Equal(t, update.ReasonPreflightFailed, w.reason(v1alpha1.ConditionCodeUpdateFailed), "%+v", s.Status.Conditions)
			require.Equal(t, v1alpha1.ReleaseStatus{Serving: baseline, Failsafe: baseline, Target: target, Failed: target}, s.Status.Release)
			after, err := w.deployment()
			require.NoError(t, err)
			require.Equal(t, before.Generation, after.Generation, "the Deployment was never written to")
			require.Len(t, w.journal("cr", "maint-on", "dump", "updatedb-start"), first)
			w.serves(baseline)
			runs := w.runs()
			w.stays("the failed target is not tried again", func() bool { return w.runs() == runs })
		})
	}
}

func TestAGoodPreflightGoesOnToTheUpdate(t *testing.T) {
	t.Parallel()
	w := newSite(t, withSpec(asksFirst))
	w.want("10.3.6")
	w.ends("10.3.6", update.PhaseSucceeded)
	asked := w.jobs(update.OperationPreflight)
	require.Len(t, asked, 1)
	require.Equal(t, repository+":10.3.6", asked[0].Spec.Template.Spec.Containers[0].Image)
	for _, v := range asked[0].Spec.Template.Spec.Volumes {
		require.Nil(t, v.PersistentVolumeClaim)
	}
	require.Len(t, w.journal("updatedb-start"), 1)
	require.Contains(t, w.does("logs", "blog", "--operation", "preflight"), "drupdate: pending")
	w.serves("10.3.6")
}

// backup is the newest backup of an origin.
func (w *world) backup(origin v1alpha1.BackupOrigin) v1alpha1.BackupStatus {
	w.Helper()
	for _, b := range w.site().Status.Backups {
		if b.Origin == origin {
			return b
		}
	}
	require.Fail(w, "no such backup", "%s: %+v", origin, w.site().Status.Backups)
	return v1alpha1.BackupStatus{}
}

func TestABackupIsTakenOnDemandAndPutBack(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	require.Contains(t, w.does("backup", "create", "blog", "--wait"), "was taken")
	taken := w.backup(v1alpha1.BackupOfRequest)
	require.Equal(t, baseline, taken.Release)
	require.Empty(t, w.journal("maint-on"), "the site serves meanwhile")
	w.idle()

	w.simsite("db", "set", w.database, "owner", "overwritten")
	before := w.site().Status.Release
	require.Contains(t, w.does("backup", "restore", "blog", taken.Name, "--wait"), "was put back")
	w.idle()
	s := w.site()
	require.Equal(t, string(update.PhaseRewound), s.Status.Run.Phase)
	require.Equal(t, before, s.Status.Release)
	require.NotContains(t, s.Annotations, v1alpha1.AnnotationUpdateInProgress)
	require.Empty(t, s.Status.Run.Operation)
	require.Nil(t, w.condition(v1alpha1.ConditionDBUpdatesFailed))
	require.Equal(t, "0", w.maintenance())
	w.serves(baseline)

	// What was there before is a backup too, and plain temporal commands put it back.
	safety := w.backup(v1alpha1.BackupOfRestore)
	w.cli("workflow", "execute", "--workflow-id", "site/"+w.ns+"/blog", "--type", update.RestoreSiteWorkflow, "--task-queue", update.TaskQueue,
		"--input", fmt.Sprintf(`{"site":{"namespace":%q,"name":"blog"},"backup":%q}`, w.ns, safety.Name))
	require.Equal(t, "overwritten", w.simsite("db", "get", w.database, "owner"))
	require.Equal(t, "0", w.maintenance())
}

func TestABackupOfAnOlderReleaseIsUpdatedAfterItsRestore(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.want("10.3.6")
	w.ends("10.3.6", update.PhaseSucceeded)
	older := w.backup(v1alpha1.BackupOfUpdate)
	refused := w.drupdate("backup", "restore", "blog", older.Name)
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.errs, "--other-release")
	require.Contains(t, w.does("backup", "restore", "blog", older.Name, "--other-release", "--wait"), "pending database updates")
	w.eventually("an update applies what is pending", func() error {
		if n := len(w.journal("updatedb-start")); n != 2 {
			return fmt.Errorf("updatedb ran %d times", n)
		}
		return nil
	})
	w.ends("10.3.6", update.PhaseSucceeded)
	require.Nil(t, w.condition(v1alpha1.ConditionDBUpdatesPending))
	require.Equal(t, "0", w.maintenance())
	w.serves("10.3.6")
}

func TestBackupAndRestoreAreRefusedDuringAnUpdate(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.does("backup", "create", "blog", "--wait")
	w.idle()
	taken := w.backup(v1alpha1.BackupOfRequest)
	w.want("10.4.0-hangs")
	w.reaches(update.PhaseRollingOut)
	for _, args := range [][]string{{"backup", "create", "blog"}, {"backup", "restore", "blog", taken.Name}} {
		refused := w.drupdate(args...)
		require.Equal(t, 1, refused.code, refused.out)
		require.Contains(t, refused.errs, "another run of "+w.ns+"/blog is open")
	}
	command := exec.CommandContext(t.Context(), filepath.Join(state, "bin", "temporal"), "workflow", "start", "--workflow-id", "site/"+w.ns+"/blog",
		"--type", update.RestoreSiteWorkflow, "--task-queue", update.TaskQueue, "--fail-existing", "--input", fmt.Sprintf(`{"site":{"namespace":%q,"name":"blog"},"backup":%q}`, w.ns, taken.Name))
	out, err := command.CombinedOutput()
	require.Error(t, err, "%s", out)
	w.does("abort", "blog")
	w.ends("10.4.0-hangs", update.PhaseAborted)
	require.Empty(t, w.jobs(update.OperationRewind))
	w.serves(baseline)
}

// closesWindow leaves the site's window closed for half a day.
func (w *world) closesWindow() {
	w.Helper()
	opens := time.Now().Add(12 * time.Hour).UTC()
	w.patch(w.object(), fmt.Sprintf(`{"spec":{"update":{"window":{"schedule":"%d %d * * *","duration":"1m"}}}}`, opens.Minute(), opens.Hour()))
}

// waits returns when the site's run waits to begin with a target.
func (w *world) waits(target string) {
	w.Helper()
	w.eventually("the run waits", func() error {
		value, err := temporal.QueryWorkflow(w.Context(), update.Site{Namespace: w.ns, Name: w.name}.UpdateID(), "", update.QueryState)
		if err != nil {
			return err
		}
		var progress update.Progress
		if err := value.Get(&progress); err != nil {
			return err
		}
		if progress.Phase != update.PhaseWaiting || progress.Target != target {
			return fmt.Errorf("it is %+v", progress)
		}
		return nil
	})
}

// A run that waits for its window has the site's id; it makes room, and the update is not forgotten.
func TestABackupIsTakenWhileAnUpdateWaitsForItsWindow(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.closesWindow()
	w.want("10.3.2")
	w.waits("10.3.2")
	w.does("backup", "create", "blog", "--wait")
	require.Equal(t, baseline, w.backup(v1alpha1.BackupOfRequest).Release)
	w.waits("10.3.2")
	w.patch(w.object(), `{"spec":{"update":{"window":null}}}`)
	w.ends("10.3.2", update.PhaseSucceeded)
}

func TestBackupsAreTakenByASchedule(t *testing.T) {
	t.Parallel()
	w := newSite(t, withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Backups = &v1alpha1.BackupsSpec{Schedule: "* * * * *", Keep: 2} }))
	w.eventually("a scheduled backup is listed", func() error {
		for _, b := range w.site().Status.Backups {
			if b.Origin == v1alpha1.BackupOfSchedule {
				return nil
			}
		}
		return fmt.Errorf("there are %+v", w.site().Status.Backups)
	})
	s := w.site()
	require.Equal(t, "UTC * * * * *", s.Status.ObservedSchedule)
	id := update.Site{Namespace: w.ns, Name: "blog", UID: string(s.UID)}.ScheduleID()
	_, err := temporal.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
	require.NoError(t, err)
	require.NoError(t, cluster.Delete(t.Context(), w.object()))
	w.eventually("the schedule goes with its site", func() error {
		_, err := temporal.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
		var missing *serviceerror.NotFound
		if errors.As(err, &missing) {
			return nil
		}
		return errors.Join(err, errors.New("it is not gone"))
	})
}

func TestAScheduleThatTemporalCannotReadIsACondition(t *testing.T) {
	t.Parallel()
	w := newSite(t, withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Backups = &v1alpha1.BackupsSpec{Schedule: "99 99 * * *"} }))
	w.eventually("the condition says so", func() error {
		if r := w.reason(v1alpha1.ConditionBackupsUnscheduled); r != v1alpha1.ReasonScheduleRefused {
			return fmt.Errorf("its reason is %q", r)
		}
		return nil
	})
}
