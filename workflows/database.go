package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// Pauses between questions about pending updates: an answer that is no proof is asked for again before it counts.
var askAgain = [...]time.Duration{5 * time.Second, 15 * time.Second}

// updateDatabase asks whether updates are pending and, if so, runs the one operation that applies them.
func (r *run) updateDatabase() (ending, error) {
	pending, end, err := r.askPending()
	if err != nil || end.over() {
		return end, err
	}
	switch pending.State {
	case update.PendingNone:
		return ending{}, nil
	case update.PendingSome:
		return r.applyUpdates(pending)
	case update.PendingAhead:
		return r.codeFailed(fault{update.ReasonDatabaseAhead, pending.Message})
	default:
		return r.codeFailed(fault{update.ReasonDatabaseUnknown, "drush updatedb:status gave no proof: " + pending.Message})
	}
}

func (r *run) askPending() (update.Pending, ending, error) {
	ctx, done := r.control.interruptible(r.ctx)
	defer done()
	if err := r.enter(update.PhaseCheckingDatabase, "Asking Drush for pending database updates.", nil); err != nil {
		return update.Pending{}, ending{}, err
	}
	pending, err := r.ask(ctx)
	if err == nil {
		err = r.gate(ctx)
	}
	switch {
	case err == nil:
		return pending, ending{}, nil
	case cutShort(ctx, err):
		end, err := r.interrupted()
		return pending, end, err
	case siteGone(err):
		return pending, ending{}, err
	case overtaken(err):
		end, err := r.replaced()
		return pending, end, err
	default:
		return update.Pending{Message: explain(err)}, ending{}, nil
	}
}

func (r *run) ask(ctx workflow.Context) (update.Pending, error) {
	question := update.Question{Site: r.site, Release: r.target}
	again := func() bool { return true }
	return untilProof(ctx, again, func() (update.Pending, error) {
		if err := r.gate(ctx); err != nil {
			return update.Pending{}, temporal.NewCanceledError()
		}
		return call(ctx, asking(), "drush updatedb:status", update.PendingUpdates, question)
	})
}

// askRestored asks whether a database that was put back fits a release. Nothing interrupts it, and a pause does not hold it.
func (r *run) askRestored(release string) (update.Pending, error) {
	question := update.Question{Site: r.site, Release: release, AllowNotReady: true}
	again := func() bool { return r.since("ask-restored-again") }
	return untilProof(r.steady, again, func() (update.Pending, error) {
		return call(r.steady, asking(), "drush updatedb:status on the restored database", update.PendingUpdates, question)
	})
}

// untilProof asks until the answer is a proof, and after the pauses of askAgain takes what it got. again tells whether to ask again.
func untilProof(ctx workflow.Context, again func() bool, ask func() (update.Pending, error)) (update.Pending, error) {
	for attempt := 0; ; attempt++ {
		pending, err := ask()
		if err != nil || pending.State != update.PendingUnknown || attempt == len(askAgain) || !again() {
			return pending, err
		}
		timer := workflow.TimerOptions{Summary: "ask Drush again: its answer was no proof"}
		if err := workflow.NewTimerWithOptions(ctx, askAgain[attempt], timer).Get(ctx, nil); err != nil {
			return pending, err
		}
	}
}

// applyUpdates is the point of no return: from here on the operation is let finish, whatever is asked of the run.
func (r *run) applyUpdates(pending update.Pending) (ending, error) {
	message := fmt.Sprintf("%s brings %s: %s.", r.target, update.Count(pending.Count, "database update"), strings.Join(pending.Updates, ", "))
	condition := update.Condition{
		Type: update.ConditionDBUpdatesPending, Status: update.True, Reason: update.ReasonUpdatesPending, Message: sentence(message),
	}
	r.operations++
	operation := update.OperationID(r.id, r.operations)
	err := r.enter(update.PhaseUpdatingDatabase, "Updating the database under maintenance mode.", func(report *update.Report) {
		report.Set = []update.Condition{condition}
		report.Operation, report.Unsecured = &operation, !r.state.Settings.Backup
		report.Event = &update.Event{Reason: "DatabaseUpdateStarted", Message: condition.Message}
	})
	if err != nil {
		return ending{}, err
	}
	r.state.Operation = operation
	return r.settleUpdate(operation, false, true)
}

// settleUpdate waits for the verdict of the update operation of a run, this one or a lost one. fresh says that this run has
// just thought of it: then nothing can have begun where the CronJobs could not be suspended. A lost run's Job may be at work.
func (r *run) settleUpdate(operation string, mustExist, fresh bool) (ending, error) {
	r.cronSuspended = true
	_, err := call(r.steady, watching(cronLimit), "suspend the site's CronJobs", update.SuspendCron, r.site)
	if siteGone(err) {
		return ending{}, err
	}
	if err != nil && !mustExist && (fresh || !r.since("look-at-the-lost-job")) { // there is no backup to restore, and no maintenance mode to lift
		return r.untouched("", update.OperationResult{Maintenance: "0", Message: explain(err)})
	}
	result, err := r.attempt(update.Operation{Kind: update.OperationUpdate, RunID: operation, Release: r.target, MustExist: mustExist})
	switch {
	case siteGone(err), behind(err):
		return ending{}, err
	case overtaken(err):
		return r.notBegun()
	case err != nil:
		return r.undoDatabase(operation, explain(err), false, 0)
	}
	return r.settled(operation, result)
}

// settled is what follows from the verdict on an update operation.
func (r *run) settled(operation string, result update.OperationResult) (ending, error) {
	switch {
	case result.Outcome == update.Succeeded:
		return r.databaseUpdated(result)
	case result.Outcome == update.Failed && !result.Touched:
		return r.untouched(operation, result)
	case result.Outcome == update.Failed:
		// One that was killed after it had opened the site says no more than that it was started.
		began := result.Step != update.StepAlreadyStarted || !r.since("started-and-maybe-ended")
		return r.undoDatabase(operation, result.Message, began, result.Pending)
	default:
		return r.undoDatabase(operation, "the outcome of the database update is not known: "+result.Message, false, 0)
	}
}

// notBegun ends a run whose Deployment was made anew just before the operation: nothing was begun, and the next run looks again.
func (r *run) notBegun() (ending, error) {
	if err := r.resumeCron(); err != nil {
		return ending{}, err
	}
	return r.replaced()
}

func (r *run) databaseUpdated(result update.OperationResult) (ending, error) {
	r.updated = &result
	if err := r.resumeCron(); err != nil {
		return ending{}, err
	}
	report := r.report(update.PhaseVerifying, "The database is updated.")
	report.Backup = r.backup
	report.Remove = []string{update.ConditionDBUpdatesFailed} // of a restore that came too late
	return ending{}, r.write("record the database update", report)
}

// cronLimit ends a suspension of CronJobs that has lost its own, shorter deadline.
const cronLimit = 10 * time.Minute

// untouched ends a database step that failed before it changed anything: the code goes back, the database stays.
func (r *run) untouched(operation string, result update.OperationResult) (ending, error) {
	message := fmt.Sprintf("The database update to %s failed before it changed anything: %s", r.target, sentence(result.Message))
	if result.Step == update.StepParameters && r.since("refused-before-it-began") { // there is no record that a Job could put back
		operation = ""
	}
	return r.undoUntouched(operation, message, result)
}

// undoUntouched puts maintenance mode and code back after such an operation. The operation is settled: a run that takes over never
// begins updatedb. Where it has a journal, status.run.lift names it until maintenance mode is as it was.
func (r *run) undoUntouched(operation, message string, result update.OperationResult) (ending, error) {
	if !r.state.Settings.Backup {
		operation = ""
	}
	releases := r.state.Releases
	releases.Target, releases.Failed = r.target, r.target
	err := r.enter(update.PhaseRollingBack, message, func(report *update.Report) {
		report.Releases, report.Operation, report.Lift = &releases, new(string), operation
		report.Set = []update.Condition{databaseFailed(update.ReasonUntouched, message)}
		report.Step, report.Maintenance = result.Step, result.Maintenance
	})
	if err != nil {
		return ending{}, err
	}
	r.state.Releases, r.state.Operation = releases, ""
	if !r.state.Settings.Backup && r.leftClosed(result) {
		return r.restoreFailed(message, "maintenance mode could not be put back.", true)
	}
	return r.backOnDatabase(operation, update.ReasonUntouched, message, false)
}

// leftClosed tells whether an operation that is the only one to know how the site was has left it in maintenance mode.
func (r *run) leftClosed(result update.OperationResult) bool {
	if !r.since("recorded-flag") {
		return result.Maintenance == ""
	}
	return result.Recorded != "" && result.Maintenance != result.Recorded
}

// undoDatabase follows a failed database update, by the site's policy. A second updatedb never runs on a half-updated
// database. began says that updatedb is known to have begun, left how many updates it is known to have left.
func (r *run) undoDatabase(operation, why string, began bool, left int) (ending, error) {
	message := fmt.Sprintf("The database update to %s failed: %s", r.target, sentence(why))
	releases := r.state.Releases
	releases.Target, releases.Failed = r.target, r.target
	settings := r.state.Settings
	if !settings.Restore && settings.Backup && !began {
		if end, settled, err := r.unlessBegun(operation, why); settled || err != nil {
			return end, err
		}
	}
	if !settings.Restore || !settings.Backup {
		releases.Serving, releases.Failsafe = r.target, "" // the old code must not meet this database any more
		message += " Code, database, maintenance mode and CronJobs are left as they are for a person." + r.whereBackup()
		conditions := []update.Condition{databaseFailed(update.ReasonFrozen, message)}
		if left == 0 {
			conditions = append(conditions, r.outcomeUnknown())
		}
		return r.conclude(update.PhaseFrozen, releases, conditions...)
	}
	err := r.enter(update.PhaseRestoring, message, func(report *update.Report) {
		report.Releases = &releases
		report.Operation = &operation
		report.Set = []update.Condition{databaseFailed(update.ReasonRestoring, message)}
		report.Backup = r.backup
		report.Event = &update.Event{Warning: true, Reason: "RestoringDatabase", Message: message}
	})
	if err != nil {
		return ending{}, err
	}
	r.state.Releases, r.state.Operation = releases, operation
	return r.restore(operation, message, began)
}

// unlessBegun looks, before a site whose Job was lost is frozen for a person, whether there is anything to freeze for: the
// backup volume's notes tell whether updatedb began, and the flag is put back where it did not, or where all was done.
func (r *run) unlessBegun(operation, why string) (end ending, settled bool, err error) {
	result, err := r.insist(update.OperationLift, operation, r.target)
	switch {
	case siteGone(err):
		return ending{}, false, err
	case err != nil || result.Outcome != update.Succeeded:
		return ending{}, false, nil //nolint:nilerr // what cannot be looked at is frozen
	case result.Touched:
		end, err = r.databaseUpdated(update.OperationResult{Outcome: update.Succeeded, Touched: true})
		return end, true, err
	}
	end, err = r.untouched("", update.OperationResult{Maintenance: "0", Message: why})
	return end, true, err
}

// restore puts the backup back with the image that made it, then the code.
func (r *run) restore(operation, message string, began bool) (ending, error) {
	result, err := r.insist(update.OperationRestore, operation, r.target)
	switch {
	case siteGone(err), behind(err):
		return ending{}, err
	case err != nil:
		return r.restoreFailed(message, "the restore failed as well: "+sentence(explain(err)), false)
	case result.Step == update.StepTooLate:
		return r.finishUpdate(operation)
	case result.Outcome != update.Succeeded:
		return r.restoreFailed(message, "the restore failed as well: "+sentence(result.Message), false)
	case result.Step == update.StepNothingToRestore && began:
		return r.restoreFailed(message, "the backup volume does not hold the backup any more.", false)
	}
	return r.backOnDatabase(operation, update.ReasonRestored, message, result.Step != update.StepNothingToRestore)
}

// finishUpdate takes an update whose verdict was lost, and of which the backup volume tells that it was finished.
func (r *run) finishUpdate(operation string) (ending, error) {
	if found, err := r.lift(operation, r.target, true); err != nil {
		return ending{}, err
	} else if found != nil {
		return r.restoreFailed("The database update finished, and its verdict was lost.", sentence(found.message), false)
	}
	r.state.Releases.Failed = ""
	return r.databaseUpdated(update.OperationResult{Outcome: update.Succeeded, Touched: true})
}

// backOnDatabase rolls the code back onto a database that is as it was before, then lifts maintenance mode.
func (r *run) backOnDatabase(operation, reason, message string, began bool) (ending, error) {
	releases := r.state.Releases
	releases.Target, releases.Failed = r.target, r.target
	if releases.Failsafe == "" || releases.Failsafe == r.target {
		releases.Serving = r.target
	} else {
		found, err := r.restoreCode(releases.Failsafe, true)
		if err != nil {
			return ending{}, err
		}
		if found != nil {
			return r.restoreFailed(message, fmt.Sprintf("the rollback to %s failed as well: %s", releases.Failsafe, sentence(found.message)), true)
		}
		releases.Serving = releases.Failsafe
	}
	if found, err := r.lift(operation, releases.Serving, began); err != nil {
		return ending{}, err
	} else if found != nil {
		return r.restoreFailed(message, sentence(found.message), true)
	}
	message = fmt.Sprintf("%s The site serves %s on the database as it was before.", message, releases.Serving)
	return r.conclude(update.PhaseRestored, releases, databaseFailed(reason, message))
}

// lift puts maintenance mode and CronJobs back as they were. Without an operation, or without a backup volume that holds
// the recorded flag, there is nothing to put back: an untouched database's script has done it. began says that updatedb is
// known to have begun, and the flag to have been recorded.
func (r *run) lift(operation, release string, began bool) (*fault, error) {
	if operation != "" && r.state.Settings.Backup {
		result, err := r.insist(update.OperationLift, operation, release)
		if err != nil {
			return r.orGone(err)
		}
		if found := notLifted(result, began); found != nil {
			return found, nil
		}
	}
	return nil, r.resumeCron()
}

// notLifted is why maintenance mode is not as it was before; nil when it is.
func notLifted(result update.OperationResult, began bool) *fault {
	switch {
	case result.Outcome != update.Succeeded:
		return &fault{update.ReasonStepFailed, "maintenance mode could not be put back: " + result.Message}
	case began && result.Step == update.StepNothingRecorded:
		return &fault{update.ReasonStepFailed, "maintenance mode could not be put back: the backup volume does not hold its notes any more."}
	}
	return nil
}

// restoreFailed stops with maintenance mode on: a person is needed. restored says that the database is the old code's;
// if it is not, the old code must not meet it any more, and there is no release to go back to.
func (r *run) restoreFailed(message, what string, restored bool) (ending, error) {
	releases := r.state.Releases
	releases.Target, releases.Failed, releases.Serving = r.target, r.target, r.target
	if r.change.Release != "" {
		releases.Serving = r.change.Release
	}
	message = fmt.Sprintf("%s %s Maintenance mode and CronJobs are left as they are for a person.%s", message, capital(what), r.whereBackup())
	conditions := []update.Condition{databaseFailed(update.ReasonRestoreFailed, message)}
	if !restored {
		releases.Failsafe = ""
		conditions = append(conditions, r.outcomeUnknown())
	}
	return r.conclude(update.PhaseRestoreFailed, releases, conditions...)
}

// outcomeUnknown is what can be said about pending updates of a database that was left as a failure left it.
func (r *run) outcomeUnknown() update.Condition {
	return update.Condition{
		Type: update.ConditionDBUpdatesPending, Status: update.Maybe, Reason: update.ReasonOutcomeUnknown,
		Message: fmt.Sprintf("What is applied of the database updates of %s is not known.", r.target),
	}
}

// whereBackup tells a person where the backup is, as a sentence that follows another.
func (r *run) whereBackup() string {
	if r.backup == nil {
		return ""
	}
	return fmt.Sprintf(" The backup is %s, on the volume %s-backups.", r.backup.Name, r.site.Name)
}

// resumeOperation settles the database operation of a run that was lost, from what it finds.
func (r *run) resumeOperation() (ending, error) {
	r.marked = true
	operation := r.state.Operation
	// The spec may have changed since: what counts is whether this operation has a backup.
	r.state.Settings.Backup = !r.state.Unsecured
	if target := r.state.Releases.Target; target != "" {
		r.target, r.control.target = target, target
	}
	if r.state.LastPhase == update.PhaseRestoring || r.state.DatabaseFailed != "" {
		return r.undoDatabase(operation, "the run was lost while the database was being restored", true, 0)
	}
	// Without a backup volume there is no journal that keeps updatedb from running twice, and under another release's code
	// it must not begin at all: then the Job must still be there.
	mustExist := !r.state.Settings.Backup || r.state.Workload.Release != r.target
	end, err := r.settleUpdate(operation, mustExist, false)
	if err != nil || end.over() {
		return end, err
	}
	if end, err = r.verify(); err != nil || end.over() {
		return end, err
	}
	if end, err = r.finish(); err == nil && r.state.Release != r.target {
		return ending{again: true}, nil
	}
	return end, err
}

// resumeUntouched goes on with what a lost run did after its operation had ended before updatedb.
func (r *run) resumeUntouched() (ending, error) {
	r.marked, r.cronSuspended = true, true
	r.target = r.state.Releases.Failed
	r.state.Settings.Backup = true // there is a journal, whatever the spec says by now
	return r.undoUntouched(r.state.Lift, r.state.LastMessage, update.OperationResult{})
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
