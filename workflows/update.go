package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// UpdateSite moves one site to its wanted release and ends. It is level-based: it looks at the world and does what is
// left, so starting it twice, or again after a lost run, is safe. A run that ends well completes; one that ends with a
// failed target fails with the phase as error type, after the site is in order again; one that was cancelled is cancelled.
func UpdateSite(ctx workflow.Context, req update.Request) (update.Summary, error) {
	r, err := newRun(ctx, req)
	if err != nil {
		return update.Summary{}, err
	}
	var last ending
	for {
		end, err := r.pass()
		if workflow.IsContinueAsNewError(err) {
			return update.Summary{}, err
		}
		switch {
		case behind(err):
			end = ending{again: true}
		case err != nil:
			end = r.lost(err)
		}
		if end.idle && last.phase != "" {
			end = last
			r.from, r.target = last.from, last.target
			r.progress.From, r.progress.Target = last.from, last.target
		}
		end.from, end.target = r.from, r.target
		last = end
		switch {
		case !r.goesOn(end):
			return r.summary(end)
		case r.grown():
			return update.Summary{}, r.anew()
		}
	}
}

// goesOn tells whether another pass follows; if not, the run is ready to end.
func (r *run) goesOn(end ending) bool {
	if end.again || r.wantedAgain(end) {
		return true
	}
	r.describe(end.phase, end.message)
	r.lastTask()
	return r.wantedAgain(end)
}

// lastTask makes the run end in a workflow task of its own. The SDK does not compare commands with the history in a task
// that completes a workflow: without this an older build, which a run of a newer one comes to during a rollout, could take the
// results of steps that it does not know for those of its own last ones, and end the run too early.
func (r *run) lastTask() {
	if !r.since("last-task") {
		return
	}
	timer := workflow.TimerOptions{Summary: "close the run in a step of its own"}
	_ = workflow.NewTimerWithOptions(r.steady, time.Millisecond, timer).Get(r.steady, nil) // the context outlives cancellation: it cannot fail
}

// pass is the story of one update, from a look at the world to the end of what was left to do.
func (r *run) pass() (ending, error) {
	if gone, err := r.inspect(); err != nil {
		return ending{}, err
	} else if gone {
		return r.gone(), nil
	}
	switch {
	case r.state.Operation != "" && r.state.Restoring != "":
		return r.resumeRestore()
	case r.state.Operation != "":
		return r.resumeOperation()
	case r.rollingBack() && r.state.Lift != "":
		return r.resumeUntouched()
	case r.rollingBack():
		return r.resumeRollback()
	case !r.workLeft():
		return r.tidy()
	}
	return r.steps(r.wait, r.mark, r.preflight, r.rollOut, r.rebuildCaches, r.updateDatabase, r.verify, r.finish)
}

// rollingBack tells whether a lost run was rolling a failed release back.
func (r *run) rollingBack() bool {
	return r.state.InProgress && r.state.LastPhase == update.PhaseRollingBack && r.state.Releases.Failed != ""
}

// steps runs one step after the other until one of them ends the pass.
func (r *run) steps(steps ...func() (ending, error)) (ending, error) {
	for _, step := range steps {
		if end, err := step(); err != nil || end.over() {
			return end, err
		}
	}
	return ending{}, nil
}

// ending says how a pass ended. The zero value means that it goes on.
type ending struct {
	phase   update.Phase
	message string
	// from and target are the releases that the pass was about.
	from, target string
	// again asks for another pass: the target changed, or the world did.
	again bool
	// idle says that the pass found nothing to do, and tells nothing about an earlier one.
	idle bool
}

func (e ending) over() bool { return e.again || e.phase != "" }

func superseded(message string) ending {
	return ending{phase: update.PhaseSuperseded, message: message}
}

// wantedAgain tells whether something came up during the pass that this run must still look at.
func (r *run) wantedAgain(end ending) bool {
	settle(r.steady)
	if end.phase == update.PhaseSuperseded || r.control.aborted || r.cancelled() {
		return false
	}
	return r.control.woken != r.seen
}

// grown tells whether the history of a run has become so long that its next pass belongs into another execution: whoever
// sends a new target every minute must not bring it to Temporal's limit. All that a pass has to know is on the resource.
func (r *run) grown() bool {
	if !workflow.GetInfo(r.ctx).GetContinueAsNewSuggested() || r.state.Operation != "" || !r.since("passes-in-many-executions") {
		return false
	}
	settle(r.steady)
	return !r.control.aborted && !r.cancelled()
}

// lost ends a run in which a step could not be carried out at all: the site is gone, or something permanent is wrong.
func (r *run) lost(err error) ending {
	if siteGone(err) {
		return r.gone()
	}
	message := sentence(explain(err))
	phase, conditions := update.PhaseCodeFailed, []update.Condition{codeFailed(failureType(err), message)}
	if r.state.Operation != "" {
		phase, conditions[0] = update.PhaseRestoreFailed, databaseFailed(update.ReasonRestoreFailed, message)
	}
	report := r.report(phase, message)
	report.Finished = true
	report.Event = &update.Event{Warning: true, Reason: string(phase), Message: message}
	if r.target == "" { // of a site that could not be looked at, nothing is known, nothing is overwritten and no mark is taken away
		report.Blind, report.Known, report.KnownRuns = true, nil, nil
	} else {
		releases := r.state.Releases
		releases.Target, releases.Failed = r.target, r.target
		if r.state.Operation != "" && r.state.Restoring == "" { // the old code must not meet this database any more
			releases.Serving, releases.Failsafe = cmp.Or(r.change.Release, r.target), ""
			conditions, report.Backup = append(conditions, r.outcomeUnknown()), r.backup
		}
		report.Releases, report.Operation, report.InProgress = &releases, new(string), update.MarkClear
	}
	report.Set = conditions
	if err := r.write(headline(phase, message), report); err != nil {
		workflow.GetLogger(r.steady).Warn("the end of the run could not be recorded", "error", err)
	}
	return ending{phase: phase, message: message}
}

// gone ends the run of a site that was deleted or replaced: what this run changed outside of it is put back.
func (r *run) gone() ending {
	if r.cronSuspended {
		if err := r.resumeCron(); err != nil {
			workflow.GetLogger(r.steady).Warn("the site is gone, and its CronJobs stay suspended", "error", err)
		}
	}
	return superseded("The site was deleted or replaced.")
}

// summary turns an ending into the workflow's result.
func (r *run) summary(end ending) (update.Summary, error) {
	summary := update.Summary{Phase: end.phase, From: end.from, Target: end.target, Message: end.message}
	if r.cancelled() && end.phase == update.PhaseAborted {
		return summary, temporal.NewCanceledError(summary)
	}
	switch end.phase {
	case update.PhaseSucceeded, update.PhaseRewound, update.PhaseSuspended, update.PhaseSuperseded, update.PhaseAborted:
		return summary, nil
	default:
		return summary, temporal.NewNonRetryableApplicationError(end.message, string(end.phase), nil, summary)
	}
}
