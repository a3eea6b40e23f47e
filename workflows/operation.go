package workflows

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// mostAttempts is how often an operation that may be repeated is tried.
const mostAttempts = 3

// operate runs one Job of an operation, and keeps of its verdict what people look for. limit is that of the wait.
func (r *run) operate(ctx workflow.Context, o update.Operation, limit time.Duration) (update.OperationResult, error) {
	result, err := call(ctx, watching(limit), fmt.Sprintf("%s, at most %s", plainly(o), o.Timeout), update.RunOperation, o)
	if result.Message != "" {
		r.progress.LastOutput = result.Message
	}
	if result.Backup != nil {
		r.backup = result.Backup
	}
	r.job = result.Job
	return result, err
}

// untilKnown runs the attempts of an operation that may be repeated, until one has an outcome: a Job may be lost.
func (r *run) untilKnown(kind update.OperationKind, attempt func(n int) (update.OperationResult, error)) (update.OperationResult, error) {
	for n := 1; ; n++ {
		result, err := attempt(n)
		if err != nil || n == mostAttempts {
			return result, err
		}
		if result.Outcome != update.Unknown && !r.triesAgain(kind, result, n) {
			return result, nil
		}
	}
}

// putRight is how long a step that puts a site in order waits after it failed: a database server that was started anew, or
// failed over, is back within that time, and the alternative is a site that stays closed until a person comes.
var putRight = []time.Duration{20 * time.Second, 100 * time.Second}

// triesAgain tells whether an operation that failed is to be repeated, and waits until then. Putting a backup back, and
// maintenance mode, is the same however often it is begun; what cannot change in a while is not tried again.
func (r *run) triesAgain(kind update.OperationKind, result update.OperationResult, n int) bool {
	switch {
	case result.Outcome != update.Failed, kind == update.OperationRewind && !result.Touched:
		return false
	case kind != update.OperationRestore && kind != update.OperationRewind && kind != update.OperationLift:
		return false
	}
	switch result.Step {
	case update.StepPreflight, update.StepMaintenance, update.StepRestore, update.StepVerify, update.StepLift:
	default:
		return false
	}
	if !r.since("2026-12-put-right") {
		return false
	}
	options := workflow.TimerOptions{Summary: fmt.Sprintf("%s failed: try again in %s", kind, putRight[n-1])}
	return workflow.NewTimerWithOptions(r.steady, putRight[n-1], options).Get(r.steady, nil) == nil
}

// attempt runs one Job of an operation on a database that an update began to change, named after the run that asked for it first.
func (r *run) attempt(o update.Operation) (update.OperationResult, error) {
	settings := r.state.Settings
	o.Site, o.From, o.Timeout, o.Unsecured = r.site, r.state.Releases.Failsafe, settings.DatabaseTimeout, !settings.Backup
	o.BackupName = update.BackupName(r.site, r.state.Releases.Failsafe, o.RunID)
	return r.operate(r.steady, o, 2*o.Timeout)
}

// insist repeats such an operation when its Job was lost, or when it failed to put the site in order. A restore begins from the verified backup each time and waits for
// whoever still holds the site's lock; lifting sets a flag.
func (r *run) insist(kind update.OperationKind, operation, release string) (update.OperationResult, error) {
	return r.untilKnown(kind, func(n int) (update.OperationResult, error) {
		return r.attempt(update.Operation{Kind: kind, RunID: operation, Release: release, Attempt: n})
	})
}

// insistOn runs an operation that a person or a schedule asked for with the image that runs, and again when its Job was lost:
// a backup that is there already is used, and a restore begins again with its backup.
func (r *run) insistOn(o update.Operation) (update.OperationResult, error) {
	o.Site, o.Release, o.From, o.Timeout = r.site, r.target, r.target, r.state.Settings.DatabaseTimeout
	o.BackupName = cmp.Or(o.BackupName, update.RequestedBackupName(r.site, r.target, o.RunID))
	return r.untilKnown(o.Kind, func(n int) (update.OperationResult, error) {
		o.Attempt = n
		return r.operate(r.steady, o, 2*o.Timeout)
	})
}

// plainly says what an operation does, for a page that people read who have never seen the code.
func plainly(o update.Operation) string {
	switch o.Kind {
	case update.OperationUpdate:
		if o.Unsecured {
			return fmt.Sprintf("drush updatedb of %s under maintenance mode, without a backup", o.Release)
		}
		return fmt.Sprintf("back up, then drush updatedb of %s, under maintenance mode", o.Release)
	case update.OperationRestore:
		return fmt.Sprintf("restore the backup %s", o.BackupName)
	case update.OperationLift:
		return "put maintenance mode back as it was"
	case update.OperationBackup:
		return "back the database up; the site serves meanwhile"
	case update.OperationRewind:
		return fmt.Sprintf("put the backup %s back, under maintenance mode", o.Source)
	case update.OperationPreflight:
		return fmt.Sprintf("ask the Drush of %s, beside the running site", o.Release)
	default:
		return string(o.Kind)
	}
}

// resumeCron puts the site's CronJobs back as they were.
func (r *run) resumeCron() error {
	_, err := call(r.steady, quick(), "put the site's CronJobs back", update.ResumeCron, r.site)
	return err
}
