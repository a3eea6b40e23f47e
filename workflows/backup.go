package workflows

import (
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// BackupSite takes one backup beside the running site. It has the id of the site's update, so that an update can neither
// begin beside it nor be begun by it; a wish for one that comes meanwhile is carried out by going on as UpdateSite.
func BackupSite(ctx workflow.Context, req update.BackupRequest) (update.Done, error) {
	r, err := newRun(ctx, update.Request{Site: req.Site})
	if err != nil {
		return update.Done{}, err
	}
	done, err := r.backUp(req)
	if err != nil {
		done = notDone(update.FailureBackup, "The backup failed: "+sentence(explain(err)))
	}
	return r.handOn(done)
}

func (r *run) backUp(req update.BackupRequest) (update.Done, error) {
	gone, err := r.inspect()
	if err != nil {
		return update.Done{}, err
	}
	if gone {
		return notDone(update.FailureRefused, "The backup was refused: the site does not exist."), nil
	}
	r.target = r.state.Workload.Release
	why := r.cannotBackUp(req.Scheduled)
	if why == "" {
		r.describe(update.PhaseBackingUp, "Backing the database up; the site serves meanwhile.")
		if err := r.gate(r.ctx); err != nil || r.control.aborted {
			why = "it was given up before it began"
		}
	}
	if why != "" {
		return r.skipped(req.Scheduled, fmt.Sprintf("The backup was refused: %s.", why))
	}
	result, err := r.insistOn(update.Operation{Kind: update.OperationBackup, RunID: r.id, Scheduled: req.Scheduled})
	if siteGone(err) {
		return update.Done{}, err
	}
	if err != nil {
		result = update.OperationResult{Outcome: update.Failed, Message: explain(err)}
	}
	return r.backedUp(result)
}

// cannotBackUp is why no backup can be taken now, as the end of a sentence; empty if one can.
func (r *run) cannotBackUp(scheduled bool) string {
	s := r.state
	switch {
	case !s.Initialized:
		return "Drupal is not installed, as far as drupdate knows"
	case !s.Settings.BackupVolume:
		return "the site has no backup volume, since spec.update.backup.policy is Never and spec.backups is not set"
	case s.InProgress, s.Operation != "":
		return "a run that changed the site was lost, and is not recovered yet"
	case scheduled && frozen(s):
		return "the site waits for a person, and its database may be half updated"
	}
	return r.noPlaceForJobs()
}

// noPlaceForJobs is why no Job can be made from the site's Deployment.
func (r *run) noPlaceForJobs() string {
	w := r.state.Workload
	switch {
	case !w.Exists:
		return "the site has no Deployment"
	case w.Suspended != "" && !w.Available:
		return w.Suspended
	case w.Release == "":
		return "the Deployment runs an image that drupdate did not set"
	}
	return ""
}

// backedUp records what a backup came to. It leaves status.run alone: that tells of what changed the site.
func (r *run) backedUp(result update.OperationResult) (update.Done, error) {
	report := update.Report{Site: r.site}
	var done update.Done
	switch {
	case result.Outcome == update.Succeeded && result.Backup != nil:
		done = update.Done{Outcome: update.Succeeded, Message: fmt.Sprintf("The backup %s was taken.", result.Backup.Name), Backup: result.Backup}
		report.Backup, report.Remove = result.Backup, []string{update.ConditionBackupFailed}
		report.Event = &update.Event{Reason: "BackupTaken", Message: done.Message}
	case result.Outcome == update.Failed:
		done = notDone(update.FailureBackup, "The backup failed: "+sentence(result.Message))
	default:
		done = notDone(update.FailureBackup, "It is not known whether the backup was taken: "+sentence(result.Message))
	}
	if done.Outcome != update.Succeeded {
		report.Set = []update.Condition{{Type: update.ConditionBackupFailed, Status: update.True, Reason: update.ReasonBackupFailed, Message: done.Message}}
		report.Event = &update.Event{Warning: true, Reason: update.ReasonBackupFailed, Message: done.Message}
	}
	return done, r.write("record what the backup came to", report)
}

// skipped ends a backup that may not be taken. One that a schedule asked for is no failure, and its Event says why.
func (r *run) skipped(scheduled bool, message string) (update.Done, error) {
	done := notDone(update.FailureRefused, message)
	if !scheduled {
		return done, nil
	}
	done.Failure = ""
	report := update.Report{Site: r.site, Event: &update.Event{Reason: "BackupSkipped", Message: message}}
	return done, r.write("say that the backup is skipped", report)
}

func notDone(failure, message string) update.Done {
	return update.Done{Outcome: update.Failed, Failure: failure, Message: message}
}

// handOn ends a run that held the site's id. An update that is wanted by then goes on as the same workflow: a signal that
// asked for it went to this run, and would be lost with it.
func (r *run) handOn(done update.Done) (update.Done, error) {
	wanted := r.updateWanted()
	r.describe(r.phase, done.Message)
	if wanted {
		request := update.Request{Site: r.site, Paused: r.control.paused, After: &done}
		return done, workflow.NewContinueAsNewError(r.ctx, update.UpdateSiteWorkflow, request)
	}
	r.lastTask()
	switch {
	case done.Failure == "":
		return done, nil
	case r.cancelled() && done.Failure == update.FailureRefused:
		return done, temporal.NewCanceledError(done)
	}
	return done, temporal.NewNonRetryableApplicationError(done.Message, done.Failure, nil, done)
}

// updateWanted looks at the site once more, and as often as a signal comes while it looks.
func (r *run) updateWanted() bool {
	for {
		settle(r.steady)
		if r.cancelled() || r.control.aborted {
			return false
		}
		if gone, err := r.inspect(); err != nil || gone {
			return false
		}
		settle(r.steady)
		if r.control.woken == r.seen {
			return !r.state.Paused && r.workLeft()
		}
	}
}

// How often a scheduled backup asks for the site's id, and how long it waits in between: less than half an hour in all.
const turns = 20

// ScheduledBackup begins a BackupSite once no other run of the site is open. A run that only waits is asked to make room;
// one that does not end in time has the backup skipped. A schedule that nobody wants is removed: of a site that is gone, or one
// that was made by a watcher that ended before it heard that it was.
func ScheduledBackup(ctx workflow.Context, req update.BackupRequest) error {
	req.Scheduled = true
	state, err := call(ctx, quick(), "look at the site", update.Inspect, req.Site)
	if err != nil {
		return err
	}
	if state.Gone || (state.Unscheduled && workflow.GetVersion(ctx, "unwanted-schedule", workflow.DefaultVersion, 1) == 1) {
		_, err := call(ctx, quick(), "remove a schedule that nobody wants", update.RemoveSchedule, req.Site)
		return err
	}
	pause := 5 * time.Second
	for range turns {
		err := begin(ctx, req)
		if err == nil || !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return err
		}
		// It may have ended by now, or be of a build that does not know the signal: both are seen in the next turn.
		_ = workflow.SignalExternalWorkflow(ctx, req.Site.UpdateID(), "", update.SignalYield, nil).Get(ctx, nil)
		if err := workflow.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(pause*2, 90*time.Second)
	}
	report := update.Report{Site: req.Site, Event: &update.Event{
		Reason: "BackupSkipped", Message: "The scheduled backup was skipped: another run of the site was open all the time.",
	}}
	_, err = call(ctx, quick(), "say that the backup is skipped", update.WriteReport, report)
	return err
}

// A child that has begun is nobody's child: it has the site's id, and goes on as an update where one is wanted.
const (
	abandon = enumspb.PARENT_CLOSE_POLICY_ABANDON
	reuse   = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
)

// begin starts a BackupSite that outlives its parent.
func begin(ctx workflow.Context, req update.BackupRequest) error {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: req.Site.UpdateID(), ParentClosePolicy: abandon, WorkflowIDReusePolicy: reuse, StaticSummary: fmt.Sprintf("scheduled backup of %s", req.Site),
		TypedSearchAttributes: workflow.GetTypedSearchAttributes(ctx),
	})
	return workflow.ExecuteChildWorkflow(ctx, update.BackupSiteWorkflow, req).GetChildWorkflowExecution().Get(ctx, nil)
}
