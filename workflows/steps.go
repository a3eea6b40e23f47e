package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// heartbeat bounds how late a lost worker, or a cancellation, is noticed: the SDK sends at 0.8 of it.
const heartbeat = 20 * time.Second

// quick is for reads and writes of single objects. A transient error never fails a site, so attempts are unlimited:
// while the API server is away the run waits.
func quick() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		},
	}
}

// asking is for questions to Drush. One attempt may take as long as the slowest cache rebuild on record times a hundred.
// The activity itself gives up on a site that cannot be asked for a quarter of an hour; time in which no worker polls, or
// in which the API server is away, must not count, so there is no limit here.
func asking() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: 6 * time.Minute,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second,
		},
	}
}

// watching is for activities that poll until the world decides. They carry their own deadline; limit only ends one that
// lost it, and a lost worker is noticed by the heartbeat.
func watching(limit time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: limit + 30*time.Minute,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second,
		},
	}
}

// call runs one activity. The summary says in the Web UI what it does.
func call[In, Out any](ctx workflow.Context, options workflow.ActivityOptions, summary string, op update.Op[In, Out], in In) (Out, error) {
	options.Summary = summary
	var out Out
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), string(op), in).Get(ctx, &out)
	return out, err
}

// siteGone tells whether an activity found no site: then there is nobody to report to, and nothing to put in order.
func siteGone(err error) bool { return failedAs(err, update.FailureSiteGone) }

// overtaken tells whether an activity found another release in the Deployment than the one that the run put there.
func overtaken(err error) bool { return failedAs(err, update.FailureReplaced) }

// behind tells whether an activity found a database operation that this run does not know of: it must look again.
func behind(err error) bool { return failedAs(err, update.FailureOperationOpen) }

// cutShort tells whether a step that may be interrupted was. An activity whose worker died before it heard of the
// cancellation times out: that says nothing of the release, and the wish to interrupt counts.
func cutShort(ctx workflow.Context, err error) bool {
	if err == nil || temporal.IsCanceledError(err) || siteGone(err) || behind(err) || ctx.Err() == nil {
		return temporal.IsCanceledError(err)
	}
	steady, _ := workflow.NewDisconnectedContext(ctx)
	return workflow.GetVersion(steady, "cut-short", workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

func failedAs(err error, kind string) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == kind
}

// failureType is the type of a permanent activity error, or the reason for a step that could not be carried out.
func failureType(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.NonRetryable() && app.Type() != "" {
		return app.Type()
	}
	return update.ReasonStepFailed
}

// explain is an activity error's own sentence, without the wrapping of Temporal: the same text for the same fault.
func explain(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		if cause := errors.Unwrap(timeout); cause != nil {
			return explain(cause)
		}
		return "no answer in time"
	}
	return err.Error()
}
