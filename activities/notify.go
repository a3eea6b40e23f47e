package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/update"
)

// tellPatience is how many attempts of a report insist that its Event is recorded, and its notification started. After that
// the update goes on without them.
const tellPatience = 3

// errNoWebhook is transient: another worker of the same queue may have one.
var errNoWebhook = errors.New("this worker has no webhook")

// notify starts the notification of the transition that a report tells of. Its id is the activity's in its run, so each
// attempt of one report means the same notification, and the same words in another report another one.
func (a *Activities) notify(ctx context.Context, site *v1alpha1.DrupalSite, r update.Report) error {
	n, tells := update.NotificationOf(r)
	if a.notifier == nil || !tells || !activity.IsActivity(ctx) {
		return nil
	}
	info := activity.GetInfo(ctx)
	n.ID = info.WorkflowExecution.RunID + "-" + info.ActivityID
	n.Time = info.ScheduledTime.UTC()
	n.Site.UID = string(site.UID)
	n.Message = clean(n.Message)
	n.Release, n.From = site.Status.Release.Target, site.Status.Release.Failsafe
	if r.Releases != nil {
		n.Release, n.From = r.Releases.Target, r.Releases.Failsafe
	}
	for _, c := range r.Set {
		if c.Status == update.True && n.Kind != update.NotifyStarted {
			n.Reason = c.Reason
			break
		}
	}
	err := a.notifier.Notify(ctx, n)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if info.Attempt < tellPatience {
		return fmt.Errorf("start the notification of %q: %w", r.Site, err)
	}
	activity.GetLogger(ctx).Warn("the notification is not started, the update goes on", logging.KeyPhase, string(r.Phase), logging.KeyError, clean(err.Error()))
	return nil
}

// SendNotification sends one notification to the webhook, once. Every refusal is tried again until the workflow gives
// up: a receiver that is wrong today may be mended tomorrow.
func (a *Activities) SendNotification(ctx context.Context, n update.Notification) (update.None, error) {
	if a.webhook == nil {
		return update.None{}, errNoWebhook
	}
	err := a.webhook.Send(ctx, n)
	if ctx.Err() == nil {
		a.metrics.NotificationSent(err == nil)
	}
	return update.None{}, err
}
