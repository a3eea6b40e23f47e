package workflows

import (
	"fmt"
	"slices"

	"github.com/drupdate/drupdate/internal/update"
)

// codeFailed rolls a failed target back. The database is as it was.
func (r *run) codeFailed(why fault) (ending, error) {
	failsafe := r.state.Releases.Failsafe
	message := fmt.Sprintf("The update to %s failed: %s", r.target, sentence(why.message))
	conditions := []update.Condition{codeFailed(why.reason, message)}
	if why.reason == update.ReasonDatabaseUnknown {
		conditions = append(conditions, pendingUnknown(why.message))
	}
	if failsafe != "" && failsafe != r.target {
		return r.goBack(update.PhaseRolledBack, conditions)
	}
	if failsafe == "" {
		conditions[0].Message += " There is no verified release to go back to."
	}
	return r.stay(update.PhaseCodeFailed, conditions)
}

// abort ends a run for a person: before anything is marked it only says so, afterwards it rolls back.
func (r *run) abort() (ending, error) {
	message := fmt.Sprintf("The update to %s was aborted.", r.target)
	failed := []update.Condition{codeFailed(update.ReasonAborted, message)}
	failsafe := r.state.Releases.Failsafe
	if !r.marked || r.unchanged || (r.closed && r.since("abort-after-an-end")) || failsafe == "" || failsafe == r.target {
		return r.stay(update.PhaseAborted, failed)
	}
	return r.goBack(update.PhaseAborted, failed)
}

// goBack rolls the code back to the failsafe release and records why: the first condition.
func (r *run) goBack(phase update.Phase, conditions []update.Condition) (ending, error) {
	condition := &conditions[0]
	failsafe := r.state.Releases.Failsafe
	releases := r.state.Releases
	releases.Target, releases.Failed = r.target, r.target
	err := r.enter(update.PhaseRollingBack, condition.Message, func(report *update.Report) {
		report.Releases = &releases
		report.Set = slices.Clone(conditions)
		report.Event = &update.Event{Warning: true, Reason: "RollingBack", Message: fmt.Sprintf("Rolling back to %s: %s", failsafe, condition.Message)}
	})
	if err != nil {
		return ending{}, err
	}
	r.state.Releases = releases
	found, err := r.restoreCode(failsafe, false)
	if err != nil {
		return ending{}, err
	}
	releases.Serving = failsafe
	switch {
	case found == nil:
		condition.Message = fmt.Sprintf("%s Rolled back to %s.", condition.Message, failsafe)
	case found.reason != update.ReasonSuspended || !r.since("suspended-rollback"):
		return r.rollbackFailed(*condition, *found)
	case condition.Reason == update.FailureNoAnswer: // for want of pods: that was no verdict either
		return r.leave(update.PhaseSuspended, sentence(found.message)+" The update starts again when the Deployment runs.")
	default:
		condition.Message = fmt.Sprintf("%s The image is set back to %s, which nobody could look at: %s", condition.Message, failsafe, sentence(found.message))
	}
	return r.conclude(phase, releases, conditions...)
}

// resumeRollback finishes a rollback that an earlier run began and did not end.
func (r *run) resumeRollback() (ending, error) {
	r.marked = true
	r.target = r.state.Releases.Failed
	if err := r.resumeCron(); err != nil {
		return ending{}, err
	}
	reason := r.state.CodeFailed
	if reason == "" {
		reason = update.ReasonStepFailed
	}
	message := r.state.LastMessage
	if message == "" {
		message = fmt.Sprintf("The update to %s failed.", r.target)
	}
	return r.goBack(update.PhaseRolledBack, []update.Condition{codeFailed(reason, message)})
}

// restoreCode brings a release back and makes it work. The fault is nil when it does. Where the Deployment is made anew
// meanwhile, or given another image, it begins again.
func (r *run) restoreCode(release string, inMaintenance bool) (*fault, error) {
	found, err := r.broughtBack(release, inMaintenance)
	for again := 0; overtaken(err) && again < mostReplacements && r.followsDeployment(); again++ {
		found, err = r.broughtBack(release, inMaintenance)
	}
	if err != nil {
		return r.orGone(err)
	}
	return found, nil
}

func (r *run) broughtBack(release string, inMaintenance bool) (*fault, error) {
	if found, err := r.bringUp(release, inMaintenance); found != nil || err != nil {
		return found, err
	}
	found, err := r.rebuild(r.steady, release, inMaintenance)
	if found != nil || err != nil || !inMaintenance {
		return found, err
	}
	// A database that was restored must answer to the code it belongs to before anybody is let in.
	pending, err := r.askRestored(release)
	if err != nil {
		return nil, err
	}
	switch pending.State {
	case update.PendingAhead:
		return &fault{update.ReasonDatabaseAhead, pending.Message}, nil
	case update.PendingUnknown:
		return &fault{update.ReasonVerifyFailed, "Drush does not answer on the restored database: " + pending.Message}, nil
	case update.PendingNone, update.PendingSome:
	}
	return nil, nil
}

// orGone keeps the error of a site that is gone, or of a run that is behind its site, and makes a fault of any other.
func (r *run) orGone(err error) (*fault, error) {
	if siteGone(err) || behind(err) {
		return nil, err
	}
	return &fault{failureType(err), explain(err)}, nil
}

// rollbackFailed stops: two releases failed, and trying a third time would only play ping-pong.
func (r *run) rollbackFailed(condition update.Condition, found fault) (ending, error) {
	condition.Reason = update.ReasonRollbackFailed
	condition.Message = fmt.Sprintf("%s The rollback to %s failed as well: %s", condition.Message, r.state.Releases.Failsafe, sentence(found.message))
	releases := r.state.Releases
	releases.Serving = releases.Failsafe
	return r.conclude(update.PhaseRollbackFailed, releases, condition)
}

// stay ends with a failed target and leaves the code where it is.
func (r *run) stay(phase update.Phase, conditions []update.Condition) (ending, error) {
	releases := r.state.Releases
	releases.Target, releases.Failed = r.target, r.target
	return r.conclude(phase, releases, conditions...)
}

// keepCode ends with a failed target without fighting over the image.
func (r *run) keepCode(why fault) (ending, error) {
	message := fmt.Sprintf("The update to %s was given up: %s", r.target, sentence(why.message))
	return r.stay(update.PhaseCodeFailed, []update.Condition{codeFailed(why.reason, message)})
}

// conclude records a failed target and takes the mark off the site.
func (r *run) conclude(phase update.Phase, releases update.Releases, conditions ...update.Condition) (ending, error) {
	message := conditions[0].Message
	report := r.report(phase, message)
	report.Finished, report.InProgress = true, update.MarkClear
	report.Releases, report.Set, report.Backup = &releases, conditions, r.backup
	report.ObservedRetry = &r.state.Retry
	report.Operation = new(string)
	if conditions[0].Type == update.ConditionCodeUpdateFailed && conditions[0].Reason != update.ReasonDatabaseUnknown {
		report.Remove = []string{update.ConditionDBUpdatesPending}
	}
	report.Event = &update.Event{Warning: true, Reason: string(phase), Message: message}
	if err := r.write(headline(phase, message), report); err != nil {
		return ending{}, err
	}
	r.closed = true
	return ending{phase: phase, message: message}, nil
}

// replaced ends the run of a Deployment that is not the one it began with. The watcher keeps the new one at the serving release.
func (r *run) replaced() (ending, error) {
	return r.leave(update.PhaseSuperseded, "The Deployment was deleted, made anew, or given another image during the update.")
}

// suspended ends the run of a Deployment that cannot roll out. The old image is put back without waiting for pods that do not come.
func (r *run) suspended(why string) (ending, error) {
	if failsafe := r.state.Releases.Failsafe; failsafe != "" {
		if _, err := r.set(failsafe, ""); err != nil {
			return ending{}, err
		}
	}
	return r.leave(update.PhaseSuspended, sentence(why)+" The update starts again when the Deployment runs.")
}

// leave ends a run that judged nothing.
func (r *run) leave(phase update.Phase, message string) (ending, error) {
	report := r.report(phase, message)
	report.Finished, report.InProgress, report.Operation = true, update.MarkClear, new(string)
	report.Unjudged = r.target
	report.Event = &update.Event{Reason: string(phase), Message: message}
	if err := r.write(headline(phase, message), report); err != nil {
		return ending{}, err
	}
	r.closed = true
	return ending{phase: phase, message: message}, nil
}

func codeFailed(reason, message string) update.Condition {
	return update.Condition{Type: update.ConditionCodeUpdateFailed, Status: update.True, Reason: reason, Message: message}
}

func databaseFailed(reason, message string) update.Condition {
	return update.Condition{Type: update.ConditionDBUpdatesFailed, Status: update.True, Reason: reason, Message: message}
}

func pendingUnknown(message string) update.Condition {
	return update.Condition{Type: update.ConditionDBUpdatesPending, Status: update.Maybe, Reason: update.ReasonProbeFailed, Message: sentence(message)}
}
