package workflows

import (
	"cmp"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// fault is why a target cannot stay: a condition reason, and what was seen.
type fault struct{ reason, message string }

// rollOut sets the target's image and waits until only its pods are left.
func (r *run) rollOut() (ending, error) {
	ctx, done := r.control.interruptible(r.ctx)
	defer done()
	if err := r.gate(ctx); err != nil {
		return r.interrupted()
	}
	change, err := r.set(r.target, r.change.UID)
	if err != nil {
		return r.stepFailed(err)
	}
	if change.Replaced {
		return r.replaced()
	}
	rollout, err := r.waitFor(ctx, change, false)
	if cutShort(ctx, err) {
		return r.interrupted()
	}
	if err != nil {
		return r.stepFailed(err)
	}
	switch rollout.State {
	case update.RolloutComplete:
		return ending{}, nil
	case update.RolloutReplaced:
		return r.replaced()
	case update.RolloutSuspended:
		return r.suspended(rollout.Message)
	case update.RolloutOverruled:
		return r.keepCode(fault{update.ReasonOverruled, rollout.Message})
	default:
		return r.codeFailed(fault{rollout.Reason, rollout.Message})
	}
}

func (r *run) set(release, uid string) (update.Change, error) {
	change := update.Change{Site: r.site, Release: release, UID: uid, Known: r.known(), KnownRuns: r.knownRuns()}
	result, err := call(r.steady, quick(), fmt.Sprintf("set the Deployment's image to %s", release), update.SetRelease, change)
	if err == nil && !result.Replaced {
		r.change = result
	}
	return result, err
}

func (r *run) waitFor(ctx workflow.Context, change update.Change, allowNotReady bool) (update.Rollout, error) {
	limit := r.state.Settings.RolloutTimeout
	wait := update.RolloutWait{Change: change, Deadline: workflow.Now(r.steady).Add(limit), AllowNotReady: allowNotReady}
	return call(ctx, watching(limit), fmt.Sprintf("wait for the pods of %s, at most %s", change.Release, limit), update.WaitRollout, wait)
}

// rebuildCaches runs drush cache:rebuild as often as the spec allows.
func (r *run) rebuildCaches() (ending, error) {
	ctx, done := r.control.interruptible(r.ctx)
	defer done()
	if err := r.enter(update.PhaseRebuildingCaches, fmt.Sprintf("Rebuilding the caches of %s.", r.target), nil); err != nil {
		return ending{}, err
	}
	found, err := r.rebuild(ctx, r.target, false)
	switch {
	case cutShort(ctx, err):
		return r.interrupted()
	case err != nil:
		return r.stepFailed(err)
	case found != nil:
		return r.codeFailed(*found)
	}
	return ending{}, nil
}

// rebuild is cache:rebuild with its attempts; the fault is nil when one of them succeeded.
func (r *run) rebuild(ctx workflow.Context, release string, notReady bool) (*fault, error) {
	attempts := max(r.state.Settings.CacheRebuildAttempts, 1)
	question := update.Question{Site: r.site, Release: release, AllowNotReady: notReady}
	var last update.Answer
	for attempt := 1; attempt <= attempts; attempt++ {
		if err := r.gate(ctx); err != nil {
			return nil, temporal.NewCanceledError()
		}
		r.progress.Attempt = attempt
		answer, err := call(ctx, asking(), fmt.Sprintf("drush cache:rebuild, attempt %d of %d", attempt, attempts), update.RebuildCaches, question)
		if err != nil {
			return nil, err
		}
		if release == r.target { // that a rollback went well is not what its reader looks for
			r.progress.LastOutput = answer.Output
		}
		if answer.Outcome == update.Succeeded {
			r.progress.Attempt = 0
			return nil, nil
		}
		last = answer
		if answer.Reason == update.FailureDrushMissing {
			return &fault{answer.Reason, answer.Message}, nil // no attempt will find it
		}
	}
	r.progress.Attempt = 0
	return &fault{update.ReasonCacheRebuildFailed, "drush cache:rebuild failed: " + last.Message}, nil
}

// verify asks the site itself whether it works at the target.
func (r *run) verify() (ending, error) {
	if err := r.enter(update.PhaseVerifying, fmt.Sprintf("Verifying %s.", r.target), nil); err != nil {
		return ending{}, err
	}
	found, err := r.verified(r.target)
	switch {
	case overtaken(err) && r.updated == nil:
		return r.replaced()
	case overtaken(err):
		found, err = r.followDatabase()
	}
	if err != nil {
		found, err = r.orGone(err)
	}
	switch {
	case err != nil || found == nil:
		return ending{}, err
	case r.updated != nil:
		return r.keepUpdated(*found)
	default:
		return r.codeFailed(*found)
	}
}

// followDatabase puts the target's code back onto a database that was updated to it, where the Deployment was made anew or
// given another image meanwhile, and asks the site once more.
func (r *run) followDatabase() (*fault, error) {
	if found, err := r.bringUp(r.target, false); found != nil || err != nil {
		return found, err
	}
	return r.verified(r.target)
}

// mostReplacements is how often a release follows a Deployment that is deleted, made anew or given another image: what
// happens more often than that is done by somebody on purpose.
const mostReplacements = 5

// followsDeployment tells whether this run follows a Deployment that was replaced while a release was brought up.
func (r *run) followsDeployment() bool { return r.since("follow-deployment") }

// bringUp puts a release into whatever Deployment there is, and waits for its pods. Nothing interrupts it. A Deployment
// that is deleted meanwhile is made anew by the watcher, and gets the release as well.
func (r *run) bringUp(release string, allowNotReady bool) (*fault, error) {
	for again := 0; ; again++ {
		change, err := r.set(release, "")
		if err != nil {
			return nil, err
		}
		rollout, err := r.waitFor(r.steady, change, allowNotReady)
		switch {
		case err != nil:
			return nil, err
		case rollout.State == update.RolloutComplete:
			return nil, nil
		case rollout.State == update.RolloutSuspended:
			return &fault{update.ReasonSuspended, rollout.Message}, nil
		case rollout.State == update.RolloutReplaced && again < mostReplacements && r.followsDeployment():
			continue
		}
		return &fault{cmp.Or(rollout.Reason, update.ReasonStepFailed), rollout.Message}, nil
	}
}

// keepUpdated ends with a target that does not work although its database update went well. The site was out of
// maintenance mode since, so the backup is older than what its users wrote; the old code does not fit the database.
// Both stay, and there is no release to go back to any more.
func (r *run) keepUpdated(why fault) (ending, error) {
	releases := update.Releases{Serving: r.target, Target: r.target, Failed: r.target}
	message := fmt.Sprintf("The database is updated to %s, but the site does not work: %s Code and database are kept.", r.target, sentence(why.message))
	return r.conclude(update.PhaseCodeFailed, releases, codeFailed(why.reason, message))
}

func (r *run) verified(release string) (*fault, error) {
	answer, err := call(r.steady, asking(), fmt.Sprintf("verify the site at %s", release), update.VerifySite, update.Question{Site: r.site, Release: release})
	if err != nil {
		return nil, err
	}
	if answer.Outcome != update.Succeeded {
		return &fault{update.ReasonVerifyFailed, answer.Message}, nil
	}
	return nil, nil
}

// finish records the verified target: it serves, and it is what later failures go back to.
func (r *run) finish() (ending, error) {
	if frozen(r.state) && !r.since(cronFirst) {
		if err := r.resumeCron(); err != nil {
			return ending{}, err
		}
	}
	message := fmt.Sprintf("The site runs %s.", r.target)
	report := r.report(update.PhaseSucceeded, message)
	report.Finished, report.InProgress = true, update.MarkClear
	report.Releases = &update.Releases{Serving: r.target, Failsafe: r.target, Target: r.target}
	report.Remove = []string{update.ConditionCodeUpdateFailed, update.ConditionDBUpdatesPending, update.ConditionDBUpdatesFailed}
	report.Operation = new(string)
	report.Event = &update.Event{Reason: "UpdateSucceeded", Message: fmt.Sprintf("Updated from %s to %s.", known(r.from), r.target)}
	if err := r.write(headline(update.PhaseSucceeded, message), report); err != nil {
		return ending{}, err
	}
	r.control.target, r.closed = r.target, true
	return ending{phase: update.PhaseSucceeded, message: message}, nil
}

// interrupted decides what follows when a step before the database was cut short.
func (r *run) interrupted() (ending, error) {
	if r.cancelled() || r.control.aborted {
		return r.abort()
	}
	return ending{again: true}, nil
}

// stepFailed turns an activity that failed for good before the database step into a failed target.
func (r *run) stepFailed(err error) (ending, error) {
	if siteGone(err) || behind(err) {
		return ending{}, err
	}
	if overtaken(err) {
		return r.replaced()
	}
	return r.codeFailed(fault{failureType(err), explain(err)})
}
