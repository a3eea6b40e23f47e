package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/update"
)

// event records an Event once: its name is derived from the activity that asks for it and from what it says, so that a
// second attempt finds the first, and another transition in the same words has another. Whether an Event can be recorded never decides about a site, so
// a refusal is logged and forgotten, and so is an API server that has not taken it for tellPatience attempts.
func (a *Activities) event(ctx context.Context, site *v1alpha1.DrupalSite, r update.Report) error {
	now := metav1.NewTime(a.clock.Now())
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: eventName(site.Name, reportStep(ctx, r), r)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: siteKind,
			Namespace: site.Namespace, Name: site.Name, UID: site.UID, ResourceVersion: site.ResourceVersion,
		},
		Type: corev1.EventTypeNormal, Reason: r.Event.Reason, Message: a.eventMessage(r),
		Source: corev1.EventSource{Component: v1alpha1.ManagerWorker}, ReportingController: v1alpha1.ManagerWorker,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if r.Event.Warning {
		e.Type = corev1.EventTypeWarning
	}
	err := a.client.Create(ctx, e)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil
	case failureType(err) != "", ctx.Err() == nil && activity.IsActivity(ctx) && activity.GetInfo(ctx).Attempt >= tellPatience:
		activity.GetLogger(ctx).Warn("event is not recorded", logging.KeyReason, r.Event.Reason, logging.KeyError, clean(err.Error()))
		return nil
	}
	return fmt.Errorf("record event %q of %q: %w", r.Event.Reason, r.Site, err)
}

// eventMessage ends with the run's page, where it is known: an Event is where people look who know nothing of Temporal.
func (a *Activities) eventMessage(r update.Report) string {
	link := a.runURL(r)
	if link == "" {
		return clean(r.Event.Message)
	}
	return cut(clean(r.Event.Message), maxMessage-len(link)-1) + " " + link
}

// activityID is the activity's own in its run, the same in every attempt; empty outside of an activity.
func activityID(ctx context.Context) string {
	if !activity.IsActivity(ctx) {
		return ""
	}
	return activity.GetInfo(ctx).ActivityID
}

// reportStep is the step that a report is made in. One that says nothing about the site's run is told apart by its own.
func reportStep(ctx context.Context, r update.Report) string {
	if r.RunID == "" {
		return stepOf(ctx, activityID(ctx))
	}
	return activityID(ctx)
}

func eventName(site, step string, r update.Report) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.Site.UID, r.RunID, step, r.Event.Reason, r.Event.Message}, "\x00")))
	return site + "." + hex.EncodeToString(sum[:8])
}
