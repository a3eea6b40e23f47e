package activities

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/siteimage"
	"github.com/drupdate/drupdate/internal/update"
)

// Inspect reads the resource and its Deployment, live. A site that is gone is an answer, not an error.
func (a *Activities) Inspect(ctx context.Context, s update.Site) (update.State, error) {
	site, err := a.lookup(ctx, s)
	if err != nil {
		return update.State{}, err
	}
	if site == nil {
		return update.State{Gone: true, Site: s}, nil
	}
	state := stateOf(site)
	state.OpensIn, err = opensIn(site.Spec.Update.Window, a.clock.Now())
	if err != nil && !state.InProgress { // a site that is half way is finished, whatever the window
		return update.State{}, err
	}
	state.Workload, err = a.workload(ctx, site)
	return state, err
}

func (a *Activities) workload(ctx context.Context, site *v1alpha1.DrupalSite) (update.Workload, error) {
	d, err := a.deployment(ctx, site)
	if err != nil || d == nil {
		return update.Workload{}, err
	}
	w := update.Workload{Exists: true, UID: string(d.UID), Suspended: suspended(d), Available: available(d)}
	if release := d.Spec.Template.Annotations[v1alpha1.AnnotationRelease]; siteimage.Carries(site, &d.Spec.Template, release) {
		w.Release = release
	}
	return w, nil
}

func stateOf(site *v1alpha1.DrupalSite) update.State {
	s := update.State{
		Site:          update.Site{Namespace: site.Namespace, Name: site.Name, UID: string(site.UID)},
		Release:       site.Spec.Release,
		Generation:    site.Generation,
		Retry:         site.Annotations[v1alpha1.AnnotationRetry],
		ObservedRetry: site.Status.ObservedRetry,
		Paused:        site.Spec.Update.Paused,
		Settings:      settingsOf(site),
		Releases:      update.Releases(site.Status.Release),
		InProgress:    site.InProgress(),
		Unscheduled:   !site.SchedulesBackups(),

		CodeFailed:     reasonOf(site, v1alpha1.ConditionCodeUpdateFailed),
		DatabaseFailed: reasonOf(site, v1alpha1.ConditionDBUpdatesFailed),
		Pending:        reasonOf(site, v1alpha1.ConditionDBUpdatesPending),
	}
	if c := conditionOf(site, v1alpha1.ConditionInitialized); c != nil {
		s.Initialized = c.Status == metav1.ConditionTrue
	}
	if run := site.Status.Run; run != nil {
		s.LastPhase, s.LastRunID, s.LastMessage = update.Phase(run.Phase), run.RunID, run.Message
		s.Operation, s.Unsecured, s.Restoring, s.Journal = run.Operation, run.Unsecured, run.Restoring, run.Journal
		s.Lift = run.Lift
	}
	if site.Spec.Install != nil {
		s.InstallProfile = site.Spec.Install.Profile
	}
	return s
}

// settingsOf fills in what the CRD's defaults leave out for a resource that was written before they existed.
func settingsOf(site *v1alpha1.DrupalSite) update.Settings {
	u := site.Spec.Update
	s := update.Settings{
		RolloutTimeout:       u.RolloutTimeout.Duration,
		DatabaseTimeout:      u.DatabaseTimeout.Duration,
		CacheRebuildAttempts: int(u.CacheRebuildAttempts),
		Preflight:            u.Preflight,
		Backup:               u.Backup.Policy != v1alpha1.BackupNever,
		BackupVolume:         site.KeepsBackups(),
		Restore:              u.OnDatabaseFailure != v1alpha1.FreezeSite,
	}
	if s.RolloutTimeout <= 0 {
		s.RolloutTimeout = 10 * time.Minute
	}
	if s.DatabaseTimeout <= 0 {
		s.DatabaseTimeout = time.Hour
	}
	if s.CacheRebuildAttempts <= 0 {
		s.CacheRebuildAttempts = 2
	}
	return s
}

// opensIn is how long the window stays closed at now; zero means open. It is open from each time of the schedule, that
// time included, until its duration has passed, that moment not included. A schedule that cannot be read, or never
// comes, is FailureInvalid: nobody may guess when a site may be changed.
func opensIn(w *v1alpha1.WindowSpec, now time.Time) (time.Duration, error) {
	if w == nil {
		return 0, nil
	}
	zone := w.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return 0, permanent(update.FailureInvalid, "read update window: time zone %q is not known", w.TimeZone)
	}
	schedule, err := cron.ParseStandard(w.Schedule)
	if err != nil {
		return 0, permanent(update.FailureInvalid, "read update window: schedule %q: %w", w.Schedule, err)
	}
	now = now.In(location)
	next := schedule.Next(now.Add(-w.Duration.Duration))
	switch {
	case next.IsZero():
		return 0, permanent(update.FailureInvalid, "read update window: schedule %q never comes", w.Schedule)
	case next.After(now):
		return next.Sub(now), nil
	}
	return 0, nil
}

func conditionOf(site *v1alpha1.DrupalSite, kind string) *metav1.Condition {
	for i := range site.Status.Conditions {
		if site.Status.Conditions[i].Type == kind {
			return &site.Status.Conditions[i]
		}
	}
	return nil
}

// reasonOf is the reason of a condition; empty when the condition is absent or False.
func reasonOf(site *v1alpha1.DrupalSite, kind string) string {
	c := conditionOf(site, kind)
	if c == nil || c.Status == metav1.ConditionFalse {
		return ""
	}
	return c.Reason
}
