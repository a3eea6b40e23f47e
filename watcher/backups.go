package watcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/update"
)

// scheduling is what the process remembers of a site's schedule.
type scheduling struct {
	// made is what Temporal was told last, which the cache may not know yet; nil if nothing was.
	made *string
	// lookAt is when Temporal is told the schedule again.
	lookAt time.Time
	// unsure is set while nobody knows whether Temporal did what it was told last: it answered too late, or not at all.
	unsure bool
	// refused is the plan that Temporal refused, why, and until when it is not asked again.
	refused, why string
	until        time.Time
}

// planOf is the plan that the spec asks for; the zero plan for none.
func planOf(site *v1alpha1.DrupalSite) Plan {
	if !site.SchedulesBackups() {
		return Plan{}
	}
	b := site.Spec.Backups
	zone := b.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	return Plan{Cron: b.Schedule, Zone: zone}
}

// schedule has Temporal take the site's backups by the spec's schedule. The status remembers what Temporal was told, so that a
// restart tells it nothing. It is told again every hour or so: it may have lost the schedule, and what is encrypted of one is
// under the key of the day on which it was told.
func (r *Reconciler) schedule(ctx context.Context, v *view, done *outcome) error {
	m := &v.memo.schedule
	plan, told := planOf(v.site), v.site.Status.ObservedSchedule
	if m.made != nil {
		told = *m.made
	}
	done.scheduled = told
	var err error
	switch want := plan.String(); {
	case want == told && want != "" && !m.unsure:
		err = r.keepScheduled(ctx, v, plan, done)
	case want == told && !m.unsure:
		return nil
	case want == "":
		err = r.call(ctx, func(ctx context.Context) error { return r.starter.Unschedule(ctx, siteOf(v.site)) })
	case m.refused == want && r.now().Before(m.until):
		done.found.unscheduled, done.after = m.why, soonest(done.after, m.until.Sub(r.now()))
		return nil
	default:
		err = r.call(ctx, func(ctx context.Context) error { return r.starter.Schedule(ctx, siteOf(v.site), plan) })
	}
	return r.scheduled(ctx, v, plan, done, err)
}

// keepScheduled tells Temporal the schedule again from time to time.
func (r *Reconciler) keepScheduled(ctx context.Context, v *view, plan Plan, done *outcome) error {
	m := &v.memo.schedule
	if m.lookAt.IsZero() {
		m.lookAt = r.now().Add(r.jitter(scheduleLook))
	}
	if wait := m.lookAt.Sub(r.now()); wait > 0 {
		done.after = soonest(done.after, wait)
		return nil
	}
	site := siteOf(v.site)
	return r.call(ctx, func(ctx context.Context) error { return r.starter.Schedule(ctx, site, plan) })
}

// scheduled notes what a call about the schedule came to.
func (r *Reconciler) scheduled(ctx context.Context, v *view, plan Plan, done *outcome, err error) error {
	m, want := &v.memo.schedule, plan.String()
	switch {
	case errors.Is(err, ErrUnavailable):
		done.unreachable, m.unsure = true, true
		done.after = soonest(done.after, r.breaker.retryIn(r.now()))
		if c := apimeta.FindStatusCondition(v.site.Status.Conditions, v1alpha1.ConditionBackupsUnscheduled); c != nil {
			done.found.unscheduled = c.Message // nobody has answered: what was refused still is
		}
		return nil
	case ctx.Err() != nil:
		return err
	case err != nil:
		m.refused, m.until = want, r.now().Add(refusedRetry)
		m.why = fmt.Sprintf("Temporal refuses the schedule %q: %s", want, clip(err.Error()))
		done.found.unscheduled, done.after = m.why, soonest(done.after, refusedRetry)
		return nil
	}
	if done.scheduled != want {
		log.FromContext(ctx).Info("backups scheduled", logging.KeyWorkflowID, siteOf(v.site).ScheduledID(), logging.KeyCause, want)
	}
	if m.lookAt.Before(r.now()) {
		m.lookAt = r.now().Add(r.jitter(scheduleLook))
	}
	if want != "" {
		done.after = soonest(done.after, m.lookAt.Sub(r.now()))
	}
	m.made, m.refused, m.unsure, done.scheduled = &want, "", false, want
	return nil
}

// leave forgets a site that is gone, or going, and removes its schedule. No finalizer holds the deletion, so Temporal may be
// away: then it is tried again. What this process does not see go is removed by the schedule's own next run.
func (r *Reconciler) leave(ctx context.Context, key types.NamespacedName, v *view) (reconcile.Result, error) {
	site, scheduled := r.memory.scheduled(key)
	if v != nil {
		site, scheduled = siteOf(v.site), scheduled || v.site.Status.ObservedSchedule != ""
	}
	if scheduled {
		err := r.call(ctx, func(ctx context.Context) error { return r.starter.Unschedule(ctx, site) })
		if errors.Is(err, ErrUnavailable) {
			return reconcile.Result{RequeueAfter: r.jitter(r.breaker.retryIn(r.now()))}, nil
		}
		if err != nil {
			return reconcile.Result{}, err
		}
	}
	r.memory.forget(key)
	return reconcile.Result{}, nil
}

// scheduled is the site that a key was last seen to be, and whether it may have a schedule.
func (m *memory) scheduled(key types.NamespacedName) (update.Site, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo := m.sites[key]
	if memo == nil {
		return update.Site{}, false
	}
	return update.Site{Namespace: key.Namespace, Name: key.Name, UID: string(memo.uid)}, memo.hasSchedule
}
