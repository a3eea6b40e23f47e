package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func TestOpensIn(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return when
	}
	night := &v1alpha1.WindowSpec{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: 3 * time.Hour}, TimeZone: "Europe/Zurich"}
	for _, c := range []struct {
		name   string
		window *v1alpha1.WindowSpec
		now    time.Time
		want   time.Duration
	}{
		{"no window is always open", nil, noon, 0},
		{"before it opens", night, at("2026-05-04T23:00:00Z"), time.Hour},
		{"the moment it opens", night, at("2026-05-05T00:00:00Z"), 0},
		{"within it", night, at("2026-05-05T02:59:59Z"), 0},
		{"the moment it closes", night, at("2026-05-05T03:00:00Z"), 21 * time.Hour},
		{"in winter an hour later by UTC", night, at("2026-01-05T00:00:00Z"), time.Hour},
		{"over the hour that the clock repeats in autumn", night, at("2026-10-25T00:30:00Z"), 0},
		{"a window longer than its period never closes", &v1alpha1.WindowSpec{Schedule: "@hourly", Duration: metav1.Duration{Duration: 2 * time.Hour}}, noon, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := opensIn(c.window, c.now)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestAWindowThatCannotBeKeptIsInvalid(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]v1alpha1.WindowSpec{
		"a time zone that nobody knows": {Schedule: "@daily", TimeZone: "Mars/Olympus"},
		"a schedule that is none":       {Schedule: "61 * * * *"},
		"a day that never comes":        {Schedule: "0 0 30 2 *"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testSite(func(s *v1alpha1.DrupalSite) { s.Spec.Update.Window = &window }))
			_, err := do(w, update.Inspect, blog)
			requireFailure(t, err, update.FailureInvalid)

			w = newWorld(t, testSite(func(s *v1alpha1.DrupalSite) {
				s.Spec.Update.Window = &window
				s.Annotations = map[string]string{v1alpha1.AnnotationUpdateInProgress: "true"}
			}))
			state, err := do(w, update.Inspect, blog)
			require.NoError(t, err, "a site that is half way is put in order whatever its window")
			require.Zero(t, state.OpensIn)
		})
	}
}

func TestInspectTellsAllThatTheRunDecidesBy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testDeployment("1.0"), testSite(func(s *v1alpha1.DrupalSite) {
		s.Annotations = map[string]string{v1alpha1.AnnotationRetry: "2", v1alpha1.AnnotationUpdateInProgress: "true"}
		s.Spec.Update.Paused = true
		s.Spec.Update.OnDatabaseFailure = v1alpha1.FreezeSite
		s.Spec.Install = &v1alpha1.InstallSpec{Profile: "minimal"}
		s.Status = v1alpha1.DrupalSiteStatus{
			ObservedRetry: "1",
			Release:       v1alpha1.ReleaseStatus{Serving: "1.0", Failsafe: "1.0", Target: "1.5", Failed: "1.5"},
			Run:           &v1alpha1.RunStatus{RunID: "r0", Phase: "RolledBack", Message: "it failed", Operation: "r0"},
			Conditions: []metav1.Condition{
				{Type: "Initialized", Status: "True", Reason: "Installed"},
				{Type: "CodeUpdateFailed", Status: "True", Reason: "CrashLoopBackOff"},
				{Type: "DBUpdatesPending", Status: "Unknown", Reason: "ProbeFailed"},
			},
		}
	}))
	require.Equal(t, update.State{
		Site: blog, Release: "2.0", Generation: 7, Retry: "2", ObservedRetry: "1", Paused: true,
		Settings:    update.Settings{RolloutTimeout: 10 * time.Minute, DatabaseTimeout: time.Hour, CacheRebuildAttempts: 2, Backup: true, BackupVolume: true},
		Releases:    update.Releases{Serving: "1.0", Failsafe: "1.0", Target: "1.5", Failed: "1.5"},
		Workload:    update.Workload{Exists: true, UID: "deployment-uid", Release: "1.0", Available: true},
		Initialized: true, InProgress: true, Unscheduled: true,
		LastPhase: update.PhaseRolledBack, LastRunID: "r0", LastMessage: "it failed", Operation: "r0",
		CodeFailed: "CrashLoopBackOff", Pending: "ProbeFailed", InstallProfile: "minimal",
	}, twice(w, update.Inspect, blog))
}

func TestInspectOfASiteThatIsGone(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(noon)
	for name, site := range map[string]*v1alpha1.DrupalSite{
		"not there":     nil,
		"another one":   testSite(func(s *v1alpha1.DrupalSite) { s.UID = "other" }),
		"being deleted": testSite(func(s *v1alpha1.DrupalSite) { s.DeletionTimestamp, s.Finalizers = &now, []string{"theirs/x"} }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if site != nil {
				w = newWorld(t, site)
			}
			require.Equal(t, update.State{Gone: true, Site: blog}, twice(w, update.Inspect, blog))
		})
	}
	state := twice(newWorld(t, testSite()), update.Inspect, update.Site{Namespace: "sites", Name: "blog"})
	require.Equal(t, blog, state.Site, "without a UID any will do, and the answer names it")
}

func TestTheWorkloadAsInspectSeesIt(t *testing.T) {
	t.Parallel()
	image := func(i string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = i }
	}
	seen := func(release, suspended string, available bool) update.Workload {
		return update.Workload{Exists: true, UID: "deployment-uid", Release: release, Suspended: suspended, Available: available}
	}
	for _, c := range []struct {
		name string
		edit func(*appsv1.Deployment)
		want update.Workload
	}{
		{"the image of the annotation", image("registry.example/drupal:1.0"), seen("1.0", "", true)},
		{"its digest, as admission wrote it", image("registry.example/drupal@sha256:01"), seen("1.0", "", true)},
		{"its tag with a digest", image("registry.example/drupal:1.0@sha256:01"), seen("1.0", "", true)},
		{"another image, set by hand", image("registry.example/drupal:1.1"), seen("", "", true)},
		{"another repository's digest", image("elsewhere/drupal@sha256:01"), seen("", "", true)},
		{"no annotation", func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil }, seen("", "", true)},
		{"no site container", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Name = "web" }, seen("", "", true)},
		{"scaled to zero", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) }, seen("1.0", "the Deployment is scaled to zero", true)},
		{"paused", func(d *appsv1.Deployment) { d.Spec.Paused = true }, seen("1.0", "the Deployment is paused", true)},
		{"without an available pod", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }, seen("1.0", "", false)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testSite(), testDeployment("1.0", c.edit))
			require.Equal(t, c.want, twice(w, update.Inspect, blog).Workload)
		})
	}
}
