package watcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/update"
)

// request is what asking Temporal came to.
type request struct {
	// called: Temporal answered.
	called bool
	// after is when to ask again.
	after time.Duration
}

// orchestrate makes the request that was decided on, and tells whether Temporal cannot be reached. Without a request
// nobody knows; then the condition that is there is proven or disproven by one cheap call, and an absent one is
// believed. An outage is not an error: the site is looked at again when the breaker lets the next call through.
func (r *Reconciler) orchestrate(ctx context.Context, v *view, d decision, after *time.Duration) (bool, error) {
	made, err := r.request(ctx, v, d)
	if err == nil && !made.called && wasUnreachable(v.site) {
		err = r.call(ctx, r.starter.Healthy)
	}
	*after = soonest(*after, made.after)
	if errors.Is(err, ErrUnavailable) {
		*after = soonest(*after, r.breaker.retryIn(r.now()))
		log.FromContext(ctx).V(1).Info("temporal cannot be reached", logging.KeyError, err.Error())
		return true, nil
	}
	return err != nil && wasUnreachable(v.site), err
}

func (r *Reconciler) request(ctx context.Context, v *view, d decision) (request, error) {
	switch d.verb {
	case start:
		return r.requestRun(ctx, v, d)
	case check:
		return r.requestCheck(ctx, v, d)
	case running:
		return r.superviseRun(ctx, v, d)
	case notYet:
		if d.cause == causeWorkload {
			// When the Deployment can roll out again, the request is made at once, even if it is the one that was made last.
			v.memo.update = pacer{}
		}
	case inSync, blocked:
		v.memo.announced = ""
	}
	return request{}, nil
}

// requestRun asks for a run, once for each state of the site. While drift persists it looks again at a growing
// interval, and signals again only if no run is open: a run that waits for its window is not buried in signals.
func (r *Reconciler) requestRun(ctx context.Context, v *view, d decision) (request, error) {
	key := updateKey(v.site, d)
	if wait := v.memo.update.wait(key, r.now()); wait > 0 {
		return request{after: wait}, nil
	}
	repeated := v.memo.update.repeats(key)
	if repeated {
		open, err := r.open(ctx, siteOf(v.site).UpdateID())
		if err != nil {
			return request{}, err
		}
		if open {
			v.memo.update.done(key, r.now())
			return request{called: true, after: v.memo.update.step}, nil
		}
	}
	if r.breaker.closedTo(r.now()) {
		return request{}, ErrUnavailable
	}
	fresh, err := r.confirm(ctx, v)
	if err != nil {
		return request{called: repeated}, err
	}
	if fresh == nil || decide(fresh.site, fresh.workload) != d {
		return request{called: repeated, after: staleRetry}, nil
	}
	if err := r.retarget(ctx, fresh.site, d.cause); err != nil {
		return request{}, err
	}
	v.memo.update.done(key, r.now())
	r.tellRequested(v, fresh.site)
	return request{called: true, after: v.memo.update.step}, nil
}

// tellRequested tells the owner that an update is asked for: once for each wish, however many signals it takes.
func (r *Reconciler) tellRequested(v *view, wanted *v1alpha1.DrupalSite) {
	wish := fmt.Sprintf("%q %q", wanted.Spec.Release, wanted.Annotations[v1alpha1.AnnotationRetry])
	if v.memo.announced == wish {
		return
	}
	v.memo.announced = wish
	r.event(v.site, corev1.EventTypeNormal, "UpdateRequested", "Update", "Update to %s requested", wanted.Spec.Release)
}

// requestCheck asks for a check, at a growing interval while the answer stays the same.
func (r *Reconciler) requestCheck(ctx context.Context, v *view, d decision) (request, error) {
	key := checkKey(v.site, d)
	if wait := v.memo.check.wait(key, r.now()); wait > 0 {
		return request{after: wait}, nil
	}
	site := siteOf(v.site)
	err := r.call(ctx, func(ctx context.Context) error { return r.starter.Check(ctx, site) })
	if err != nil {
		return request{}, err
	}
	v.memo.check.done(key, r.now())
	log.FromContext(ctx).Info("check requested", logging.KeyWorkflowID, site.CheckID(), logging.KeyCause, d.cause)
	return request{called: true, after: v.memo.check.step}, nil
}

// superviseRun tells an open run of a new target or retry, once, and asks at intervals whether the run is open at all:
// one that was terminated, or that timed out, leaves its mark on the site, and a new run recovers it.
func (r *Reconciler) superviseRun(ctx context.Context, v *view, d decision) (request, error) {
	now := r.now()
	key := updateKey(v.site, d)
	if d.cause == causeRetarget && !v.memo.update.repeats(key) {
		if err := r.retarget(ctx, v.site, d.cause); err != nil {
			return request{}, err
		}
		v.memo.update.done(key, now)
		v.memo.askAt = now.Add(askRunEvery)
		r.tellRequested(v, v.site)
		return request{called: true, after: askRunEvery}, nil
	}
	if now.Before(v.memo.askAt) {
		return request{after: v.memo.askAt.Sub(now)}, nil
	}
	open, err := r.open(ctx, siteOf(v.site).UpdateID())
	if err != nil {
		return request{}, err
	}
	v.memo.askAt = now.Add(askRunEvery)
	if open {
		v.memo.recovery = pacer{}
		return request{called: true, after: askRunEvery}, nil
	}
	return r.recover(ctx, v, d)
}

// recover asks for a run of a site that is marked as being changed while no run is open. The site is read live: its run
// may just have ended in good order.
func (r *Reconciler) recover(ctx context.Context, v *view, d decision) (request, error) {
	fresh, err := r.confirm(ctx, v)
	if err != nil {
		return request{called: true}, err
	}
	if fresh == nil || fresh.site.DeletionTimestamp != nil || !fresh.site.InProgress() {
		return request{called: true, after: staleRetry}, nil
	}
	key := updateKey(fresh.site, d)
	if wait := v.memo.recovery.wait(key, r.now()); wait > 0 {
		return request{called: true, after: wait}, nil
	}
	if err := r.retarget(ctx, fresh.site, "recover"); err != nil {
		return request{}, err
	}
	if !v.memo.recovery.repeats(key) {
		r.event(v.site, corev1.EventTypeWarning, "RunLost", "Update", "The run that changed this site is not open any more; its recovery is requested")
	}
	v.memo.recovery.done(key, r.now())
	return request{called: true, after: askRunEvery}, nil
}

func (r *Reconciler) retarget(ctx context.Context, site *v1alpha1.DrupalSite, cause string) error {
	target := update.Retarget{
		Release:    site.Spec.Release,
		Generation: site.Generation,
		Retry:      site.Annotations[v1alpha1.AnnotationRetry],
	}
	err := r.call(ctx, func(ctx context.Context) error { return r.starter.Retarget(ctx, siteOf(site), target) })
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("update requested", logging.KeyWorkflowID, siteOf(site).UpdateID(),
		logging.KeyRelease, target.Release, logging.KeyCause, cause)
	return nil
}

func (r *Reconciler) open(ctx context.Context, workflowID string) (bool, error) {
	var open bool
	err := r.call(ctx, func(ctx context.Context) error {
		var err error
		open, err = r.starter.Open(ctx, workflowID)
		return err
	})
	return open, err
}

// call makes one call to Temporal, unless the breaker knows that it is down.
func (r *Reconciler) call(ctx context.Context, fn func(context.Context) error) error {
	if !r.breaker.allow(r.now()) {
		return ErrUnavailable
	}
	err := fn(ctx)
	if ctx.Err() != nil {
		// We are shutting down: this says nothing about Temporal.
		return ctx.Err()
	}
	r.breaker.report(!errors.Is(err, ErrUnavailable), r.now())
	return err
}

func siteOf(site *v1alpha1.DrupalSite) update.Site {
	return update.Site{Namespace: site.Namespace, Name: site.Name, UID: string(site.UID)}
}

// updateKey tells two requests for an update apart: another state of the site is another request.
func updateKey(site *v1alpha1.DrupalSite, d decision) string {
	r := site.Status.Release
	return fmt.Sprintf("%s %d %q %q %q %q", d.cause, site.Generation, site.Annotations[v1alpha1.AnnotationRetry], r.Serving, r.Target, r.Failed)
}

// checkKey tells two requests for a check apart.
func checkKey(site *v1alpha1.DrupalSite, d decision) string {
	var initialized string
	if c := apimeta.FindStatusCondition(site.Status.Conditions, v1alpha1.ConditionInitialized); c != nil {
		initialized = c.Reason
	}
	return fmt.Sprintf("%s %d %s %s", d.cause, site.Generation, initialized, reasonOf(site, v1alpha1.ConditionDBUpdatesPending))
}
