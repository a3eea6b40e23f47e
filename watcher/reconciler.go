package watcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// Reconciler reconciles DrupalSites. Setup makes one and puts it to work.
type Reconciler struct {
	// client reads from caches, live from the API server.
	client   client.Client
	live     client.Reader
	starter  Starter
	recorder events.EventRecorder
	now      func() time.Time
	jitter   func(time.Duration) time.Duration
	memory   memory
	breaker  breaker
}

// view is a site as a reconcile sees it.
type view struct {
	key  types.NamespacedName
	site *v1alpha1.DrupalSite
	// deployment is nil if there is none.
	deployment *appsv1.Deployment
	workload   workload
	memo       *memo
}

// outcome is what acting came to.
type outcome struct {
	found       findings
	unreachable bool
	// scheduled is the schedule that Temporal has, as the status tells it.
	scheduled string
	// aborted is the value of the annotation drupdate.dev/abort that was acted on, now or earlier.
	aborted string
	// after is when the site has to be looked at again; zero leaves it to events.
	after time.Duration
}

// Reconcile implements reconcile.Reconciler: read, decide, act, set conditions, write status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	v, err := r.read(ctx, r.client, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if v == nil || v.site.DeletionTimestamp != nil {
		// No finalizer holds a deletion, and owner references remove the children.
		return r.leave(ctx, req.NamespacedName, v)
	}
	done, err := r.act(ctx, v, decide(v.site, v.workload))
	want := conditions(v.site, v.workload, done.found, done.unreachable)
	if err := errors.Join(err, r.writeStatus(ctx, v.site, want, done)); err != nil {
		return reconcile.Result{}, err
	}
	r.announce(v.site, want)
	return reconcile.Result{RequeueAfter: r.jitter(done.after)}, nil
}

// read reads a site and its Deployment; the view is nil if the site does not exist. The other sites that name the same
// Deployment always come from the cache, which has the index.
func (r *Reconciler) read(ctx context.Context, reader client.Reader, key types.NamespacedName) (*view, error) {
	site := &v1alpha1.DrupalSite{}
	if err := reader.Get(ctx, key, site); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // absence is an answer
		}
		return nil, fmt.Errorf("read site: %q: %w", key, err)
	}
	dep := &appsv1.Deployment{}
	switch err := reader.Get(ctx, types.NamespacedName{Namespace: site.Namespace, Name: site.WorkloadName()}, dep); {
	case apierrors.IsNotFound(err):
		dep = nil
	case err != nil:
		return nil, fmt.Errorf("read Deployment: %q: %w", site.WorkloadName(), err)
	}
	var rivals v1alpha1.DrupalSiteList
	if err := r.client.List(ctx, &rivals, client.InNamespace(site.Namespace), client.MatchingFields{workloadField: site.WorkloadName()}); err != nil {
		return nil, fmt.Errorf("list sites of Deployment: %q: %w", site.WorkloadName(), err)
	}
	return &view{
		key: key, site: site, deployment: dep,
		workload: observe(site, dep, rivals.Items),
		memo:     r.memory.of(key, site.UID),
	}, nil
}

// confirm reads the site again, live, before something is done that a stale cache must not cause. The view is nil if
// the site is gone, or its Deployment is.
func (r *Reconciler) confirm(ctx context.Context, v *view) (*view, error) {
	fresh, err := r.read(ctx, r.live, v.key)
	if err != nil || fresh == nil || fresh.site.UID != v.site.UID {
		return nil, err
	}
	return fresh, nil
}

// act does what was decided, and what needs no decision. A step that fails does not keep the next ones from being made.
func (r *Reconciler) act(ctx context.Context, v *view, d decision) (outcome, error) {
	if d.cause == causeConflict {
		return r.actInConflict(ctx, v, d)
	}
	var done outcome
	var errs [7]error
	done.found, errs[0] = r.ensureChildren(ctx, v)
	errs[1] = r.adopt(ctx, v)
	done.after, errs[2] = r.ensureImage(ctx, v, d)
	done.found.secret, errs[3] = r.missingSecret(ctx, v)
	// Before a new target is signalled: the run that it gives up must not take that one instead.
	errs[4] = r.abort(ctx, v, &done)
	errs[6] = r.schedule(ctx, v, &done)
	v.memo.hasSchedule = v.memo.hasSchedule || done.scheduled != "" || v.site.Spec.Backups != nil
	unreachable, err := r.orchestrate(ctx, v, d, &done.after)
	done.unreachable, errs[5] = done.unreachable || unreachable, err
	if done.found.secret != "" {
		done.after = soonest(done.after, secretPoll)
	}
	if done.found.stale {
		done.after = soonest(done.after, staleRetry)
	}
	if done.found.terminating || done.found.rejected != "" {
		done.after = soonest(done.after, refusedRetry)
	}
	return done, errors.Join(errs[:]...)
}

// actInConflict leaves a Deployment alone that is another's. A run of ours that is open, or was lost, is looked after all the same.
func (r *Reconciler) actInConflict(ctx context.Context, v *view, d decision) (outcome, error) {
	done := outcome{after: conflictPoll, scheduled: v.site.Status.ObservedSchedule}
	if v.site.InProgress() {
		d = decideOpen(v.site)
	}
	failed := r.abort(ctx, v, &done)
	unreachable, err := r.orchestrate(ctx, v, d, &done.after)
	done.unreachable = done.unreachable || unreachable
	return done, errors.Join(failed, err)
}

// announce records an Event for each condition that has just become a problem.
func (r *Reconciler) announce(site *v1alpha1.DrupalSite, now []metav1.Condition) {
	for _, c := range now {
		before := apimeta.FindStatusCondition(site.Status.Conditions, c.Type)
		if before != nil && before.Reason == c.Reason {
			continue
		}
		switch c.Reason {
		case v1alpha1.ReasonWorkloadConflict, v1alpha1.ReasonContainerMissing, v1alpha1.ReasonSecretMissing,
			v1alpha1.ReasonChildRejected, v1alpha1.ReasonTemporalUnreachable, v1alpha1.ReasonScheduleRefused:
			r.event(site, corev1.EventTypeWarning, c.Reason, "Reconcile", "%s", c.Message)
		}
	}
}

func (r *Reconciler) event(site *v1alpha1.DrupalSite, kind, reason, action, note string, args ...any) {
	r.recorder.Eventf(site, nil, kind, reason, action, note, args...)
}

func wasUnreachable(site *v1alpha1.DrupalSite) bool {
	return isTrue(site, v1alpha1.ConditionOrchestratorUnavailable)
}

// soonest is the smaller of two waits, where zero means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
