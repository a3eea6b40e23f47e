package watcher

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func servingWorld(t *testing.T, edits ...siteEdit) *world {
	t.Helper()
	site := newSite(edits...)
	w := newWorld(t, site, newDeployment(site, "10.3.6"))
	return w
}

func TestDriftAsksForOneRun(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"), retried("1"))
	require.Equal(t, resendAfter, w.reconcile())
	w.pass(time.Second)
	w.reconcile()
	require.Equal(t, []update.Retarget{{Release: "10.3.7", Generation: 1, Retry: "1"}}, w.temporal.retargets)
	require.Equal(t, 1, count(w.events.seen, "UpdateRequested: Update to 10.3.7 requested"))
	require.Equal(t, 1, w.temporal.calls)
}

func TestARunThatWaitsForItsWindowIsNotBuriedInSignals(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"))
	for range 100 {
		w.pass(w.reconcile())
	}
	require.Len(t, w.temporal.retargets, 1)
	require.Equal(t, resendMost, w.reconcile())
}

func TestARunThatEndedWithoutEffectIsAskedForAgain(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"))
	w.pass(w.reconcile())
	w.temporal.end()
	require.Equal(t, 2*resendAfter, w.reconcile())
	require.Len(t, w.temporal.retargets, 2)
	require.Equal(t, 1, count(w.events.seen, "UpdateRequested"), "the owner has been told")
}

func TestANewTargetIsAskedForAtOnce(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"))
	w.reconcile()
	w.edit(wants("10.3.8"))
	w.reconcile()
	require.Equal(t, []update.Retarget{{Release: "10.3.7", Generation: 1}, {Release: "10.3.8", Generation: 2}}, w.temporal.retargets)
}

func TestAnUpdateIsAnnouncedOnceHoweverOftenItIsSignalled(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"), retried("1"))
	w.reconcile()
	w.report(func(s *v1alpha1.DrupalSite) { updating(update.PhaseRollingOut)(s); retried("1")(s) })
	w.edit(retried("1"))
	w.reconcile()
	require.Len(t, w.temporal.retargets, 2, "the run has not told yet that it knows of the retry")
	require.Equal(t, 1, count(w.events.seen, "UpdateRequested"))
	w.edit(wants("10.3.8"))
	w.reconcile()
	require.Equal(t, 2, count(w.events.seen, "UpdateRequested"), "another target is another request")
}

func TestAFailedTargetIsBlockedUntilARetry(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, rolledBack)
	require.Zero(t, w.reconcile())
	require.Zero(t, w.temporal.calls)
	w.edit(retried("please"))
	w.reconcile()
	require.Equal(t, []update.Retarget{{Release: "10.3.7", Generation: 2, Retry: "please"}}, w.temporal.retargets)
	w.report(func(s *v1alpha1.DrupalSite) { s.Status.ObservedRetry = "please" })
	require.Zero(t, w.reconcile())
	require.Len(t, w.temporal.retargets, 1)
}

func TestAPausedSiteStartsNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"), func(s *v1alpha1.DrupalSite) { s.Spec.Update.Paused = true })
	require.Zero(t, w.reconcile())
	require.Equal(t, "True PausedBySpec", w.condition(v1alpha1.ConditionPaused))
	require.Zero(t, w.temporal.calls)
	w.edit(func(s *v1alpha1.DrupalSite) { s.Spec.Update.Paused = false })
	w.reconcile()
	require.Len(t, w.temporal.retargets, 1)
}

func TestAStaleCacheStartsNoRun(t *testing.T) {
	t.Parallel()
	site := newSite(func(s *v1alpha1.DrupalSite) {
		verified(s)
		s.Spec.Release, s.Status.Release = "10.3.7", v1alpha1.ReleaseStatus{Serving: "10.3.7", Failsafe: "10.3.7", Target: "10.3.7"}
	})
	w := newWorld(t, site, newDeployment(site, "10.3.7"))
	w.stale = newSite(verified, wants("10.3.7"))
	require.Equal(t, staleRetry, w.reconcile())
	require.Zero(t, w.temporal.calls)
}

func TestAnOpenRunIsToldOfANewTargetOnce(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, updating(update.PhaseUpdatingDatabase))
	w.temporal.open = map[string]bool{"site/shops/shop": true}
	w.pass(w.reconcile())
	w.edit(wants("10.3.8"))
	for range 20 {
		w.pass(w.reconcile())
	}
	require.Equal(t, []update.Retarget{{Release: "10.3.8", Generation: 2}}, w.temporal.retargets)
}

func TestATerminatedRunIsRecoveredWithinAMinute(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, updating(update.PhaseRollingOut))
	w.temporal.open = map[string]bool{"site/shops/shop": true}
	require.Equal(t, askRunEvery, w.reconcile())
	w.pass(time.Second)
	require.Equal(t, askRunEvery-time.Second, w.reconcile(), "Temporal is not asked at each event")
	require.Equal(t, 1, w.temporal.calls)
	w.temporal.end()
	w.pass(askRunEvery)
	w.reconcile()
	require.Equal(t, []update.Retarget{{Release: "10.3.7", Generation: 1}}, w.temporal.retargets)
	require.Equal(t, 1, count(w.events.seen, "RunLost"))

	// Again, after it was seen alive: at once.
	w.pass(askRunEvery)
	w.reconcile()
	w.temporal.end()
	w.pass(askRunEvery)
	w.reconcile()
	require.Len(t, w.temporal.retargets, 2)

	// Again and again without ever being seen alive: at a slowing pace.
	for range 60 {
		w.temporal.end()
		w.pass(askRunEvery)
		w.reconcile()
	}
	require.Less(t, len(w.temporal.retargets), 9)
}

func TestARunThatJustEndedInGoodOrderIsNotRecovered(t *testing.T) {
	t.Parallel()
	site := newSite(func(s *v1alpha1.DrupalSite) {
		verified(s)
		s.Spec.Release, s.Status.Release = "10.3.7", v1alpha1.ReleaseStatus{Serving: "10.3.7", Failsafe: "10.3.7", Target: "10.3.7"}
	})
	w := newWorld(t, site, newDeployment(site, "10.3.7"))
	w.stale = newSite(updating(update.PhaseVerifying))
	require.Equal(t, staleRetry, w.reconcile())
	require.Empty(t, w.temporal.retargets)
}

func TestAnUninstalledSiteIsCheckedAtASlowingPace(t *testing.T) {
	t.Parallel()
	w := servingWorld(t)
	var waits []time.Duration
	for range 6 {
		wait := w.reconcile()
		waits = append(waits, wait)
		w.pass(wait)
	}
	require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute}, waits)
	require.Equal(t, 6, w.temporal.checks)
	w.report(set(v1alpha1.ConditionInitialized, metav1.ConditionTrue, v1alpha1.ReasonInstalled))
	w.reconcile()
	require.Equal(t, 6, w.temporal.checks)
	require.Len(t, w.temporal.retargets, 1, "the first run verifies the release")
}

func TestADeploymentThatIsScaledUpAgainGetsItsRunAtOnce(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"))
	w.reconcile()
	w.temporal.end()
	scale := func(n int32) {
		dep := w.deployment()
		dep.Spec.Replicas = &n
		require.NoError(t, w.client.Update(t.Context(), dep))
		w.reconcile()
	}
	scale(0)
	require.Equal(t, "False ScaledToZero", w.condition(v1alpha1.ConditionReady))
	scale(1)
	require.Len(t, w.temporal.retargets, 2)
}

func TestWithoutTemporalSitesAreStillCared(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"))
	w.temporal.down()
	require.NoError(t, w.client.Delete(t.Context(), w.deployment()))
	w.reconcile()
	require.Equal(t, "10.3.6 registry.example/drupal:10.3.6", w.image(), "a deleted Deployment comes back")
	dep := w.deployment()
	dep.Status.AvailableReplicas = 1
	require.NoError(t, w.client.Status().Update(t.Context(), dep))

	require.Equal(t, outageFirst, w.reconcile())
	require.Equal(t, "True TemporalUnreachable", w.condition(v1alpha1.ConditionOrchestratorUnavailable))
	require.Equal(t, "True PodsAvailable", w.condition(v1alpha1.ConditionReady))
	require.Equal(t, 1, count(w.events.seen, "TemporalUnreachable"))

	w.writes = 0
	var waits []time.Duration
	for range 7 {
		w.pass(w.reconcile())
		waits = append(waits, w.reconcile())
	}
	require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute}, waits)
	require.Zero(t, w.writes, "the condition does not flap")

	w.temporal.err = nil
	w.pass(outageMost)
	w.reconcile()
	require.Empty(t, w.condition(v1alpha1.ConditionOrchestratorUnavailable))
	require.Len(t, w.temporal.retargets, 1)
}

func TestAnOutageIsFeltOnceForTheWholeFleet(t *testing.T) {
	t.Parallel()
	a, b := newSite(verified, wants("10.3.7")), newSite(verified, wants("10.3.7"))
	b.Name, b.UID = "other", "uid-other"
	w := newWorld(t, a, newDeployment(a, "10.3.6"), b, newDeployment(b, "10.3.6"))
	w.temporal.down()
	w.reconcile()
	w.reconcileSite(types.NamespacedName{Namespace: "shops", Name: "other"})
	require.Equal(t, 1, w.temporal.calls)
	other := &v1alpha1.DrupalSite{}
	w.read(other, "other")
	require.True(t, wasUnreachable(other))
}

func TestTheConditionGoesWithoutDriftAsWell(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"))
	w.temporal.down()
	w.reconcile()
	w.edit(wants("10.3.6"))
	require.Equal(t, outageFirst, w.reconcile(), "it is looked for until it answers")
	require.Equal(t, "True TemporalUnreachable", w.condition(v1alpha1.ConditionOrchestratorUnavailable))
	w.temporal.err = nil
	w.pass(outageFirst)
	require.Zero(t, w.reconcile())
	require.Empty(t, w.condition(v1alpha1.ConditionOrchestratorUnavailable))
	calls := w.temporal.calls
	w.reconcile()
	require.Equal(t, calls, w.temporal.calls)
}

func TestARequestThatTemporalRefusesIsAnErrorOfThatSite(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"))
	w.temporal.err = errors.New("invalid")
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: shop})
	require.ErrorContains(t, err, "invalid")
	require.Empty(t, w.condition(v1alpha1.ConditionOrchestratorUnavailable))
	require.True(t, w.r.breaker.allow(w.clock))
}

func TestADeploymentWakesTheSitesThatItMayBelongTo(t *testing.T) {
	t.Parallel()
	named := newSite(func(s *v1alpha1.DrupalSite) { s.Name, s.UID, s.Spec.Workload.Name = "named", "uid-named", "web" })
	w := newWorld(t, newSite(), named)
	names := func(dep *appsv1.Deployment) []string {
		var out []string
		for _, r := range w.r.sitesOf(t.Context(), dep) {
			out = append(out, r.Name)
		}
		return out
	}
	plain := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "web"}}
	require.Equal(t, []string{"named"}, names(plain))
	require.ElementsMatch(t, []string{"shop", "renamed", "named"}, func() []string {
		d := newDeployment(newSite(), "1")
		d.Name, d.Annotations = "web", map[string]string{v1alpha1.AnnotationSite: "renamed"}
		return names(d)
	}())
	plain.Namespace = "elsewhere"
	require.Empty(t, names(plain))
}
