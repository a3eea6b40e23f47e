package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// notifyLimit is for how long a webhook that does not take a notification is asked again.
const notifyLimit = 24 * time.Hour

// sending is for requests to the webhook, which may be away for hours.
func sending() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout:    30 * time.Second,
		ScheduleToCloseTimeout: notifyLimit,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Minute,
			MaximumAttempts: 500, // more than fit into the limit
		},
	}
}

// Notify delivers one notification. No update waits for it, and a webhook that does not take it for a day is a line in
// the log: nothing is failed by it.
func Notify(ctx workflow.Context, n update.Notification) error {
	_, err := call(ctx, sending(), "send "+string(n.Kind)+" to the webhook", update.SendNotification, n)
	if temporal.IsCanceledError(err) {
		return err
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("the notification is given up", "notification", string(n.Kind), "notification_id", n.ID, "error", explain(err))
	}
	return nil
}
