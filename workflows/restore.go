package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// RestoreSite puts a backup back that a person chose. Like BackupSite it has the id of the site's update.
func RestoreSite(ctx workflow.Context, req update.RestoreRequest) (update.Done, error) {
	r, err := newRun(ctx, update.Request{Site: req.Site})
	if err != nil {
		return update.Done{}, err
	}
	done, err := r.restoreChosen(req)
	if err != nil {
		done = r.restoreLost(err)
	}
	return r.handOn(done)
}

// chosen is the restore of a backup that a person chose.
type chosen struct {
	// operation names its Jobs, journal its notes and its safety backup.
	operation, journal string
	// backup is what is put back, of the release, where that is known.
	backup, release string
	noSafetyBackup  bool
	// held says that a failed operation left the site in maintenance mode.
	held bool
}

func (r *run) restoreChosen(req update.RestoreRequest) (update.Done, error) {
	gone, err := r.inspect()
	if err != nil {
		return update.Done{}, err
	}
	refused := func(why string) (update.Done, error) {
		return notDone(update.FailureRefused, fmt.Sprintf("The restore was refused: %s.", why)), nil
	}
	if gone {
		return refused("the site does not exist")
	}
	r.target = r.state.Workload.Release
	if why := r.cannotBackUp(false); why != "" {
		return refused(why)
	}
	found, err := call(r.steady, quick(), "look the backup up", update.FindBackup, update.BackupQuery{Site: r.site, Name: req.Backup})
	switch {
	case err != nil:
		return update.Done{}, err
	case found.Name == "":
		return refused(fmt.Sprintf("status.backups lists no backup %q", req.Backup))
	case found.Release != r.target && !req.OtherRelease:
		return refused(fmt.Sprintf("the backup %s is of %s and the site runs %s, so that the code may not fit the database; ask for it with otherRelease (--other-release)",
			found.Name, known(found.Release), r.target))
	}
	if err := r.gate(r.ctx); err != nil || r.control.aborted {
		return refused("it was given up before it began")
	}
	c := chosen{
		operation: r.id, journal: update.RequestedBackupName(r.site, r.target, r.id),
		backup: found.Name, release: found.Release, noSafetyBackup: req.NoSafetyBackup, held: r.held(),
	}
	if err := r.beginRestore(c); err != nil {
		return update.Done{}, err
	}
	return r.putBack(c, true)
}

// held tells whether a failed operation left the site in maintenance mode for a person.
func (r *run) held() bool {
	return r.state.DatabaseFailed == update.ReasonFrozen || r.state.DatabaseFailed == update.ReasonRestoreFailed
}

// beginRestore marks the site before its database is touched, so that a lost restore is gone on with.
func (r *run) beginRestore(c chosen) error {
	r.marked = true
	message := fmt.Sprintf("Putting the backup %s back, under maintenance mode.", c.backup)
	report := r.report(update.PhaseRewinding, message)
	report.Started, report.InProgress, report.Operation, report.Restoring, report.Journal = true, update.MarkSet, &c.operation, c.backup, c.journal
	report.Event = &update.Event{Reason: "RestoreStarted", Message: message}
	if err := r.write("mark the site as being restored", report); err != nil {
		return err
	}
	r.state.Operation, r.state.Restoring, r.state.Journal = c.operation, c.backup, c.journal
	return nil
}

// putBack runs the operation, proves that the code fits the database, and opens the site again. fresh is as for settleUpdate.
func (r *run) putBack(c chosen, fresh bool) (update.Done, error) {
	r.cronSuspended = true
	_, err := call(r.steady, watching(cronLimit), "suspend the site's CronJobs", update.SuspendCron, r.site)
	if siteGone(err) {
		return update.Done{}, err
	}
	if err != nil && (fresh || !r.since("look-at-the-lost-rewind")) {
		return r.notPutBack(c, explain(err), false)
	}
	return r.rewind(c)
}

// rewind runs the one operation, and goes by its verdict.
func (r *run) rewind(c chosen) (update.Done, error) {
	result, err := r.insistOn(update.Operation{
		Kind: update.OperationRewind, RunID: c.operation, BackupName: c.journal, Source: c.backup, NoSafetyBackup: c.noSafetyBackup, Held: c.held,
	})
	switch {
	case siteGone(err), behind(err):
		return update.Done{}, err
	case err != nil:
		return r.halfPutBack(c, explain(err))
	case result.Outcome == update.Failed && !result.Touched:
		return r.notPutBack(c, result.Message, result.Step != update.StepParameters || !r.since("refused-before-it-began"))
	case result.Outcome == update.Failed:
		return r.halfPutBack(c, result.Message)
	case result.Outcome != update.Succeeded:
		return r.halfPutBack(c, "its outcome is not known: "+result.Message)
	}
	return r.openOn(c)
}

// openOn opens the site on the database that was put back, once it is proven that the code fits it.
func (r *run) openOn(c chosen) (update.Done, error) {
	pending, found, err := r.fits()
	if err == nil && found == nil {
		found, err = r.liftRewind(c, true)
	}
	switch {
	case err != nil:
		return update.Done{}, err
	case found != nil:
		return r.halfPutBack(c, "the database was put back, but "+found.message)
	}
	return r.rewound(c, pending)
}

// liftRewind puts maintenance mode and CronJobs back as they were, from the journal of a rewind. began says that the database is
// known to have been replaced, and the flag to have been recorded.
func (r *run) liftRewind(c chosen, began bool) (*fault, error) {
	if c.operation != "" {
		result, err := r.insistOnLift(c)
		if err != nil {
			return r.orGone(err)
		}
		if found := notLifted(result, began); found != nil {
			return found, nil
		}
	}
	if err := r.resumeCron(); err != nil {
		return r.orGone(err)
	}
	return nil, nil
}

// insistOnLift lifts by the rewind's own journal. What that tells of the safety backup is known already, and from a better source.
func (r *run) insistOnLift(c chosen) (update.OperationResult, error) {
	taken := r.backup
	defer func() { r.backup = taken }()
	return r.insistOn(update.Operation{Kind: update.OperationLift, RunID: c.operation, BackupName: c.journal})
}

// fits asks whether the running code works on the database that was put back. Pending updates are no obstacle: an update
// applies them.
func (r *run) fits() (update.Pending, *fault, error) {
	found, err := r.rebuild(r.steady, r.target, true)
	if err != nil {
		found, err = r.orGone(err)
	}
	if found != nil || err != nil {
		return update.Pending{}, found, err
	}
	pending, err := r.askRestored(r.target)
	if err != nil {
		found, err = r.orGone(err)
		return pending, found, err
	}
	switch pending.State {
	case update.PendingAhead:
		return pending, &fault{update.ReasonDatabaseAhead, pending.Message}, nil
	case update.PendingUnknown:
		return pending, &fault{update.ReasonVerifyFailed, "Drush does not answer on it: " + pending.Message}, nil
	case update.PendingNone, update.PendingSome:
	}
	return pending, nil, nil
}

// rewound ends a restore that went well. A database that an earlier failure left behind is gone, and so is that condition.
func (r *run) rewound(c chosen, pending update.Pending) (update.Done, error) {
	message := fmt.Sprintf("The backup %s was put back, and the site serves %s on it.%s", c.backup, r.target, r.safety(c))
	report := r.report(update.PhaseRewound, message)
	if pending.State == update.PendingSome {
		text := r.stillPending(c, pending.Count)
		report.Set = []update.Condition{{Type: update.ConditionDBUpdatesPending, Status: update.True, Reason: update.ReasonUpdatesConfirmed, Message: text}}
		message = message + " " + text
	} else {
		report.Remove = []string{update.ConditionDBUpdatesPending}
	}
	if c.held {
		report.Remove = append(report.Remove, update.ConditionDBUpdatesFailed)
	}
	report.Event = &update.Event{Reason: "BackupRestored", Message: message}
	r.endRestore(&report)
	return update.Done{Outcome: update.Succeeded, Message: message, Backup: r.backup}, r.write("record that the backup was put back", report)
}

// stillPending says what becomes of the updates that a backup of an older release lacks.
func (r *run) stillPending(c chosen, count int) string {
	text := fmt.Sprintf("The backup %s has %s", c.backup, update.Count(count, "pending database update"))
	if r.state.Releases.Failed != r.target {
		return text + ", which an update applies."
	}
	of := "the release that it is of"
	if c.release != "" {
		of = fmt.Sprintf("%s, which it is of", c.release)
	}
	return fmt.Sprintf("%s for %s. That release failed, so that no update follows: ask for %s.", text, r.target, of)
}

// notPutBack ends a restore that failed before it changed the database. recorded says that the script came so far that it
// may have recorded the maintenance flag.
func (r *run) notPutBack(c chosen, why string, recorded bool) (update.Done, error) {
	message := fmt.Sprintf("The backup %s was not put back, and the database is as it was: %s", c.backup, sentence(why))
	if !c.held { // what an earlier failure left on stays on
		journal := chosen{}
		if recorded {
			journal = c
		}
		found, err := r.liftRewind(journal, false)
		if err != nil {
			return update.Done{}, err
		}
		if found != nil {
			return r.halfPutBack(c, sentence(why)+" Maintenance mode could not be ended: "+found.message)
		}
	}
	report := r.report(update.PhaseNotRewound, message)
	report.Event = &update.Event{Warning: true, Reason: string(update.PhaseNotRewound), Message: message}
	r.endRestore(&report)
	return notDone(string(update.PhaseNotRewound), message), r.write("record that the backup was not put back", report)
}

// halfPutBack stops with maintenance mode on: a person is needed.
func (r *run) halfPutBack(c chosen, why string) (update.Done, error) {
	message := fmt.Sprintf("The restore of the backup %s failed: %s Maintenance mode and CronJobs are left as they are for a person.%s",
		c.backup, sentence(why), r.safety(c))
	report := r.report(update.PhaseRestoreFailed, message)
	report.Set = []update.Condition{databaseFailed(update.ReasonRestoreFailed, message), r.outcomeUnknown()}
	report.Event = &update.Event{Warning: true, Reason: string(update.PhaseRestoreFailed), Message: message}
	r.endRestore(&report)
	return notDone(string(update.PhaseRestoreFailed), message), r.write("record that the restore failed", report)
}

// endRestore takes the mark off the site.
func (r *run) endRestore(report *update.Report) {
	report.Finished, report.InProgress, report.Operation, report.Backup = true, update.MarkClear, new(string), r.backup
}

// safety tells where what was there before is, as a sentence that follows another.
func (r *run) safety(c chosen) string {
	switch {
	case r.backup != nil:
		return fmt.Sprintf(" What was there before is the backup %s.", r.backup.Name)
	case c.noSafetyBackup:
		return " No backup was taken of what was there before."
	}
	return ""
}

// restoreLost ends a restore in which a step could not be carried out at all. The condition says so where the database may
// have been touched; where nothing was marked there is nothing to put in order.
func (r *run) restoreLost(err error) update.Done {
	if siteGone(err) {
		r.gone()
		return notDone(update.FailureRefused, "The site was deleted or replaced.")
	}
	if r.state.Operation == "" {
		return notDone(update.FailureRefused, "The restore was not begun: "+sentence(explain(err)))
	}
	done, err := r.halfPutBack(chosen{operation: r.state.Operation, backup: r.state.Restoring}, explain(err))
	if err != nil {
		workflow.GetLogger(r.steady).Warn("the end of the restore could not be recorded", "error", err)
	}
	return done
}

// resumeRestore goes on with the restore of a run that was lost: its Job is found by its name, or begins again with the
// backup.
func (r *run) resumeRestore() (ending, error) {
	r.marked = true
	target := r.target
	if r.target = r.state.Workload.Release; r.target == "" {
		r.target = r.state.Releases.Serving
	}
	r.control.target = target
	c := chosen{operation: r.state.Operation, journal: r.state.Journal, backup: r.state.Restoring, held: r.held()}
	done, err := r.putBack(c, false)
	if err != nil {
		return ending{}, err
	}
	switch {
	case done.Outcome == update.Succeeded, done.Failure == string(update.PhaseNotRewound):
		return ending{again: true}, nil
	}
	return ending{phase: update.Phase(done.Failure), message: done.Message}, nil
}
