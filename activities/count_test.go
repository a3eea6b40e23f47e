package activities

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/internal/metrics"
	"github.com/drupdate/drupdate/internal/metrics/metricstest"
	"github.com/drupdate/drupdate/internal/update"
)

// counted makes the worker's own metrics part of a world.
func counted(t *testing.T, w *world) func() map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	w.metrics = metrics.NewWorker(registry)
	return func() map[string]float64 { return metricstest.Values(t, registry) }
}

// inPhase is a report of a step of the run that started began.
func inPhase(phase update.Phase, edit ...func(*update.Report)) update.Report {
	r := update.Report{Site: blog, WorkflowID: "site/sites/blog", RunID: "r1", Phase: phase, Message: "m"}
	for _, e := range edit {
		e(&r)
	}
	return r
}

// write makes a report twice, and lets a minute pass.
func write(w *world, r update.Report) {
	w.t.Helper()
	twice(w, update.WriteReport, r)
	w.clock.now = w.clock.now.Add(time.Minute)
}

func TestAnUpdateAndItsPhasesAreCountedOnceHoweverOftenTheyAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	values := counted(t, w)
	write(w, started())
	write(w, inPhase(update.PhaseRebuildingCaches))
	write(w, rolledBack())
	require.Equal(t, map[string]float64{
		`drupdate_updates_total{reason="CrashLoopBackOff",result="RolledBack"}`:            1,
		`drupdate_update_duration_seconds_count{phase="RollingOut",result="Succeeded"}`:    1,
		`drupdate_update_duration_seconds_sum{phase="RollingOut",result="Succeeded"}`:      60,
		`drupdate_update_duration_seconds_count{phase="RebuildingCaches",result="Failed"}`: 1,
		`drupdate_update_duration_seconds_sum{phase="RebuildingCaches",result="Failed"}`:   60,
		`drupdate_update_duration_seconds_count{phase="Run",result="Failed"}`:              1,
		`drupdate_update_duration_seconds_sum{phase="Run",result="Failed"}`:                120,
	}, values())
}

// A worker dies after its write and before Temporal knows: another one, with counters of its own, makes the report again.
func TestAnotherWorkerThatRepeatsAReportCountsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	first := counted(t, w)
	write(w, started())
	_, err := do(w, update.WriteReport, rolledBack())
	require.NoError(t, err)
	require.InDelta(t, 1, first()[`drupdate_updates_total{reason="CrashLoopBackOff",result="RolledBack"}`], 0)
	second := counted(t, w)
	_, err = do(w, update.WriteReport, rolledBack())
	require.NoError(t, err)
	require.Empty(t, second())
}

func TestAWriteThatTheAPIServerDidNotTakeIsNotCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	values := counted(t, w)
	write(w, started())
	w.funcs.SubResourceApply = func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
		return apierrors.NewServiceUnavailable("down")
	}
	_, err := do(w, update.WriteReport, rolledBack())
	require.Error(t, err)
	require.Empty(t, values())

	// The mark cannot be cleared after the status was written: the report is made again, the update is not counted again.
	w.funcs.SubResourceApply = nil
	w.funcs.Apply = func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return apierrors.NewServiceUnavailable("down")
	}
	_, err = do(w, update.WriteReport, rolledBack())
	require.Error(t, err)
	w.funcs.Apply = nil
	_, err = do(w, update.WriteReport, rolledBack())
	require.NoError(t, err)
	require.InDelta(t, 1, values()[`drupdate_updates_total{reason="CrashLoopBackOff",result="RolledBack"}`], 0)
}

func TestASecondTargetOfOneRunIsASecondUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	values := counted(t, w)
	write(w, started())
	write(w, rolledBack())
	again := started()
	again.Releases = &update.Releases{Serving: "1.0", Failsafe: "1.0", Target: "3.0"}
	again.Remove = []string{"CodeUpdateFailed"}
	write(w, again)
	write(w, inPhase(update.PhaseSucceeded, func(r *update.Report) { r.Finished, r.InProgress = true, update.MarkClear }))
	got := values()
	require.InDelta(t, 1, got[`drupdate_updates_total{reason="CrashLoopBackOff",result="RolledBack"}`], 0)
	require.InDelta(t, 1, got[`drupdate_updates_total{reason="None",result="Succeeded"}`], 0)
	require.InDelta(t, 60, got[`drupdate_update_duration_seconds_sum{phase="Run",result="Succeeded"}`], 0, "it began with its own mark")
}

func TestTheMarkOfALostRunIsNoUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	write(w, started())
	values := counted(t, w)
	write(w, update.Report{Site: blog, Finished: true, InProgress: update.MarkClear})
	require.Empty(t, values())
}

func TestMaintenanceIsTimedUntilItIsOver(t *testing.T) {
	t.Parallel()
	operation := func(r *update.Report) { r.Operation = new("r1") }
	settled := func(r *update.Report) {
		r.Finished, r.InProgress, r.Operation = true, update.MarkClear, new("")
		r.Set = []update.Condition{{Type: "DBUpdatesFailed", Status: "True", Reason: string(r.Phase), Message: "m"}}
	}
	for name, c := range map[string]struct {
		reports []update.Report
		want    float64
		since   bool
	}{
		"the update succeeds":    {[]update.Report{inPhase(update.PhaseVerifying)}, 60, false},
		"the backup is put back": {[]update.Report{inPhase(update.PhaseRestoring, operation), inPhase(update.PhaseRestored, settled)}, 120, false},
		"the script put the flag back": {[]update.Report{
			inPhase(update.PhaseRollingBack, func(r *update.Report) { r.Operation, r.Maintenance = new(""), "0" }), inPhase(update.PhaseRestored, settled),
		}, 60, false},
		"a person must lift it": {[]update.Report{inPhase(update.PhaseFrozen, settled)}, 0, true},
		"the restore fails":     {[]update.Report{inPhase(update.PhaseRestoring, operation), inPhase(update.PhaseRestoreFailed, settled)}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testSite())
			write(w, started())
			values := counted(t, w)
			write(w, inPhase(update.PhaseUpdatingDatabase, operation))
			begun := metav1.NewTime(noon.Add(time.Minute).Local())
			require.Equal(t, &begun, w.site().Status.Run.MaintenanceSince)
			for _, r := range c.reports {
				write(w, r)
			}
			require.InDelta(t, c.want, values()["drupdate_maintenance_seconds_sum"], 0)
			require.Equal(t, c.since, w.site().Status.Run.MaintenanceSince != nil)
		})
	}
}

func TestAFailedBackupIsCountedOnce(t *testing.T) {
	t.Parallel()
	untouched := func(step string) update.Report {
		return inPhase(update.PhaseRollingBack, func(r *update.Report) {
			r.Step, r.Operation = step, new("")
			r.Set = []update.Condition{{Type: "DBUpdatesFailed", Status: "True", Reason: update.ReasonUntouched, Message: "m"}}
		})
	}
	for step, want := range map[string]float64{update.StepBackup: 1, "preflight": 0} {
		w := newWorld(t, testSite())
		write(w, started())
		values := counted(t, w)
		write(w, untouched(step))
		require.InDelta(t, want, values()["drupdate_backup_failures_total"], 0, step)
	}
}

func TestEveryAnswerOfDrushIsTimed(t *testing.T) {
	t.Parallel()
	w := serving(t)
	values := counted(t, w)
	w.exec.answers["cache:rebuild"] = []any{errors.New("reset"), said(1, "", "it failed"), said(0, "", "[success] Cache rebuild complete.")}
	for range 3 {
		_, _ = do(w, update.RebuildCaches, ask2)
	}
	require.Equal(t, map[string]float64{
		`drupdate_drush_duration_seconds_count{command="cache:rebuild",result="Unknown"}`:   1,
		`drupdate_drush_duration_seconds_count{command="cache:rebuild",result="Failed"}`:    1,
		`drupdate_drush_duration_seconds_count{command="cache:rebuild",result="Succeeded"}`: 1,
	}, values())
}

// A reason that a rollout can fail for is a value of the label reason.
func TestEveryReasonOfAFailedRolloutIsCounted(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		reasonReplicaFailure, reasonProgressDeadline, reasonCrashLoop, reasonImagePullBackOff, reasonErrImagePull, reasonErrImageNever,
		reasonInvalidImageName, reasonConfigError, reasonContainerError, reasonReplicaSetMissing,
	} {
		require.Equal(t, reason, metrics.Reason(reason))
	}
}
