package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/update"
)

// count tells the metrics what a write changed. It is called after a write that the API server took, with the state that
// the write was guarded by: a report that is repeated, by the SDK or by another worker, writes nothing, or finds the
// change made, and counts nothing. What is lost when the worker dies between the write and this call stays uncounted.
func (a *Activities) count(before, after ownedStatus, r update.Report) {
	if backupFailed(before, after, r) {
		a.metrics.BackupFailed()
	}
	if after.Run == nil {
		return
	}
	was, is := before.Run, after.Run
	if was == nil {
		was = &v1alpha1.RunStatus{}
	}
	reason := ""
	if c := failure(after, update.Phase(is.Phase)); c != nil {
		reason = c.Reason
	}
	if phaseEnded(was, is) {
		a.metrics.PhaseEnded(update.Phase(was.Phase), update.Phase(is.Phase), reason, is.PhaseStartedAt.Sub(was.PhaseStartedAt.Time))
	}
	if was.MaintenanceSince != nil && is.MaintenanceSince == nil {
		a.metrics.MaintenanceEnded(a.clock.Now().Sub(was.MaintenanceSince.Time))
	}
	if updateEnded(was, is) {
		var took time.Duration
		if is.StartedAt != nil {
			took = is.FinishedAt.Sub(is.StartedAt.Time)
		}
		a.metrics.UpdateEnded(update.Phase(is.Phase), reason, took)
	}
}

// backupFailed tells whether a backup failed: the one before a database update, or one that a person or a schedule asked for.
func backupFailed(before, after ownedStatus, r update.Report) bool {
	failed := func(kind string) bool { return isSet(after, kind) && !isSet(before, kind) }
	return failed(v1alpha1.ConditionBackupFailed) || (r.Step == update.StepBackup && failed(v1alpha1.ConditionDBUpdatesFailed))
}

// phaseEnded tells whether a run came to another phase. How long the phase of a lost run was, nobody knows.
func phaseEnded(was, is *v1alpha1.RunStatus) bool {
	return was.RunID == is.RunID && was.FinishedAt == nil && was.Phase != is.Phase && was.PhaseStartedAt != nil
}

// updateEnded tells whether an update came to an end. The mark of a lost run is cleared under its old phase: that is none.
// A run that put a chosen backup back was no update.
func updateEnded(was, is *v1alpha1.RunStatus) bool {
	if update.Phase(was.Phase) == update.PhaseRewinding {
		return false
	}
	again := was.RunID == is.RunID && was.FinishedAt != nil
	return is.FinishedAt != nil && !again && update.Phase(is.Phase).Ended()
}

// failure is the condition that says why a run that is being undone, or that ended, failed. Nil while it does not fail, and
// where nothing was judged.
func failure(s ownedStatus, phase update.Phase) *metav1.Condition {
	if phase == update.PhaseSucceeded || phase == update.PhaseSuspended || phase == update.PhaseSuperseded {
		return nil
	}
	for _, kind := range []string{v1alpha1.ConditionDBUpdatesFailed, v1alpha1.ConditionCodeUpdateFailed} {
		if c := apimeta.FindStatusCondition(s.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	return nil
}

func isSet(s ownedStatus, kind string) bool {
	return apimeta.IsStatusConditionTrue(s.Conditions, kind)
}

// told logs a phase that a write began, once for the same reason as count.
func told(ctx context.Context, before, after ownedStatus) {
	is := after.Run
	if !activity.IsActivity(ctx) || is == nil || (before.Run != nil && *before.Run == *is) {
		return
	}
	if before.Run != nil && before.Run.RunID == is.RunID && before.Run.Phase == is.Phase {
		return
	}
	release := ""
	if after.Release != nil {
		release = after.Release.Target
	}
	fields := []any{logging.KeyRelease, release, logging.KeyPhase, is.Phase}
	if c := failure(after, update.Phase(is.Phase)); c != nil {
		fields = append(fields, logging.KeyReason, c.Reason, logging.KeyCause, c.Message)
	}
	activity.GetLogger(ctx).Info("phase begins", fields...)
}
