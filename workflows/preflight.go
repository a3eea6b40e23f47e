package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// asksFirst tells whether the target is asked before the image changes. Where the Deployment has the target's image already
// there is nothing left to spare, and beside a Deployment without pods no Job can be placed.
func (r *run) asksFirst() bool {
	w := r.state.Workload
	return r.state.Settings.Preflight && w.Exists && w.Release != r.target && w.Suspended == ""
}

// preflight asks the target's Drush, in a Job beside the pods that serve, whether it bootstraps and which updates are
// pending. What fails here has changed nothing: there is nothing to roll back.
func (r *run) preflight() (ending, error) {
	if !r.asksFirst() || !r.since("2026-12-preflight") {
		return ending{}, nil
	}
	// An earlier target of this run may have been rolled out already.
	r.unchanged = r.state.Workload.Release == r.state.Releases.Serving || !r.since("preflight-of-a-changed-site")
	defer func() { r.unchanged = false }()
	ctx, done := r.control.interruptible(r.ctx)
	defer done()
	result, err := r.askTarget(ctx)
	switch {
	case cutShort(ctx, err):
		return r.interrupted()
	case siteGone(err):
		return ending{}, err
	case err != nil:
		return r.preflightFailed(explain(err))
	case result.Outcome == update.Unknown:
		return r.preflightFailed("its outcome is not known: " + result.Message)
	case result.Outcome != update.Succeeded:
		return r.preflightFailed(result.Message)
	}
	return ending{}, r.preflightPassed(result)
}

// askTarget runs the preflight, and again when its Job was lost. The Job is let go when the wait is interrupted: it only asks.
func (r *run) askTarget(ctx workflow.Context) (update.OperationResult, error) {
	r.preflights++
	id := update.OperationID(r.id, r.preflights)
	limit := r.state.Settings.RolloutTimeout
	return r.untilKnown(update.OperationPreflight, func(n int) (update.OperationResult, error) {
		if err := r.gate(ctx); err != nil {
			return update.OperationResult{}, temporal.NewCanceledError()
		}
		return r.operate(ctx, update.Operation{
			Site: r.site, Kind: update.OperationPreflight, RunID: id, Release: r.target, From: r.state.Releases.Failsafe,
			BackupName: update.BackupName(r.site, r.state.Releases.Failsafe, id), Timeout: limit, Attempt: n,
		}, limit)
	})
}

// preflightPassed says what Drush said, and goes on.
func (r *run) preflightPassed(result update.OperationResult) error {
	said := "no pending updates"
	if result.Pending > 0 {
		said = fmt.Sprintf("%s: %s", update.Count(result.Pending, "pending update"), result.Message)
	}
	said = sentence(fmt.Sprintf("Drush bootstraps with %s, and sees %s", r.target, said))
	return r.enter(update.PhaseRollingOut, fmt.Sprintf("Moving to %s. %s", r.target, said), func(report *update.Report) {
		report.Event = &update.Event{Reason: "PreflightPassed", Message: said}
	})
}

func (r *run) preflightFailed(why string) (ending, error) {
	if !r.unchanged {
		return r.codeFailed(fault{update.ReasonPreflightFailed, "the preflight failed: " + why})
	}
	message := fmt.Sprintf("The preflight of %s failed: %s The site was not changed and serves %s.", r.target, sentence(why), known(r.from))
	return r.stay(update.PhaseCodeFailed, []update.Condition{codeFailed(update.ReasonPreflightFailed, message)})
}
