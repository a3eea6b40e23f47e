package watcher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func TestAStaleCacheDoesNotBringAnOldReleaseBack(t *testing.T) {
	t.Parallel()
	// Live: the update to 10.3.7, with database updates, has just ended, and somebody deleted the Deployment.
	site := newSite(func(s *v1alpha1.DrupalSite) {
		verified(s)
		s.Spec.Release, s.Status.Release = "10.3.7", v1alpha1.ReleaseStatus{Serving: "10.3.7", Failsafe: "10.3.7", Target: "10.3.7"}
	})
	w := newWorld(t, site, secret())
	w.stale = newSite(updating(update.PhaseRollingOut)) // the cache is seconds behind
	w.reconcile()
	dep := &appsv1.Deployment{}
	if err := w.client.Get(t.Context(), shop, dep); apierrors.IsNotFound(err) {
		return
	}
	require.Equal(t, "10.3.7 registry.example/drupal:10.3.7", w.image())
}

func TestAStaleCacheDoesNotAdoptForASiteThatIsGoing(t *testing.T) {
	t.Parallel()
	// kubectl delete dsite shop --cascade=orphan: the collector took our owner reference off, to keep the Deployment.
	now := metav1.NewTime(epoch)
	going := newSite(verified, func(s *v1alpha1.DrupalSite) {
		s.Spec.Workload.Owner = v1alpha1.OwnerAdopt
		s.DeletionTimestamp, s.Finalizers = &now, []string{"orphan"}
	})
	dep := newDeployment(going, "10.3.6")
	dep.OwnerReferences = nil
	w := newWorld(t, going, dep)
	w.stale = newSite(verified, func(s *v1alpha1.DrupalSite) { s.Spec.Workload.Owner = v1alpha1.OwnerAdopt })
	w.reconcile()
	require.NotContains(t, w.applied, "ownerReferences", "the collector deletes it with the site now")
	require.Empty(t, w.deployment().OwnerReferences)
}

// slow is a Temporal that carries a schedule out and answers too late.
type slow struct {
	*fakeStarter
	late bool
}

func (s *slow) Schedule(ctx context.Context, site update.Site, plan Plan) error {
	if err := s.fakeStarter.Schedule(ctx, site, plan); err != nil {
		return err
	}
	if s.late {
		return fmt.Errorf("schedule: %w: %w", ErrUnavailable, context.DeadlineExceeded)
	}
	return nil
}

func TestAScheduleThatWasTakenBackMeanwhileIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(*v1alpha1.DrupalSite){
		"to the one before": backedUp(nightly),
		"to none":           func(s *v1alpha1.DrupalSite) { s.Spec.Backups = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := servingWorld(t, verified)
			s := &slow{fakeStarter: w.temporal}
			w.r.starter = s
			if name == "to the one before" {
				w.edit(backedUp(nightly))
				w.reconcile()
			}
			s.late = true
			w.edit(backedUp(Plan{Cron: "*/5 * * * *", Zone: "UTC"}))
			w.reconcile()
			s.late = false
			w.edit(back)
			for range 200 {
				w.pass(time.Minute)
				w.reconcile()
			}
			got := w.temporal.schedules[siteOf(w.site()).ScheduleID()]
			require.Equal(t, planOf(w.site()), got)
		})
	}
}

func TestALostRunOfASiteInConflictIsLookedAfter(t *testing.T) {
	t.Parallel()
	site := newSite(updating(update.PhaseUpdatingDatabase))
	older := newSite(func(s *v1alpha1.DrupalSite) {
		s.Name, s.UID, s.CreationTimestamp = "archive", "uid-archive", metav1.NewTime(epoch.Add(-time.Hour))
		s.Spec.Workload.Name = "shop" // a mistake, made while the update of shop was under way
	})
	dep := newDeployment(site, "10.3.7")
	dep.OwnerReferences, dep.Annotations = nil, nil // adopted
	w := newWorld(t, site, older, dep)
	w.temporal.open = map[string]bool{}
	for range 60 {
		w.pass(w.reconcile())
	}
	require.NotEmpty(t, w.temporal.retargets, "its recovery is asked for")
	require.Equal(t, "10.3.7 registry.example/drupal:10.3.7", w.image(), "the Deployment is left alone")
}

func TestALostRunIsNoticedWithinAMinuteWhileAChildCannotBeMade(t *testing.T) {
	t.Parallel()
	site := newSite(updating(update.PhaseRollingOut))
	w := newWorld(t, site, newDeployment(site, "10.3.7"))
	w.refuse["Service"] = apierrors.NewInternalError(errors.New("failed calling webhook: connection refused"))
	w.temporal.open = map[string]bool{"site/shops/shop": true}
	limiter := failures()
	request := reconcile.Request{NamespacedName: shop}
	for range 12 {
		_, err := w.r.Reconcile(t.Context(), request)
		require.Error(t, err)
		w.pass(limiter.When(request))
	}
	_, _ = w.r.Reconcile(t.Context(), request)
	w.temporal.end()
	lost := w.clock
	for range 20 {
		if len(w.temporal.retargets) > 0 {
			break
		}
		w.pass(limiter.When(request))
		_, _ = w.r.Reconcile(t.Context(), request)
	}
	require.NotEmpty(t, w.temporal.retargets)
	require.LessOrEqual(t, w.clock.Sub(lost), time.Minute)
}

func TestAnOutageDoesNotAskTheAPIServerForEachSite(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"))
	w.temporal.down()
	w.reconcile() // trips the breaker
	reads := 0
	w.r.live = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, obj, opts...)
		},
	})
	calls := w.temporal.calls
	w.pass(time.Second) // the breaker is open: nobody may call
	w.reconcile()
	require.Equal(t, calls, w.temporal.calls)
	require.Zero(t, reads)
}

// anothers gives a Deployment to another controller.
func anothers(d *appsv1.Deployment) {
	d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "x/v1", Kind: "App", Name: "x", UID: "y", Controller: new(true)}}
}

func TestALostRunIsNoticedThoughTheDeploymentIsAnothers(t *testing.T) {
	t.Parallel()
	site := newSite(updating(update.PhaseUpdatingDatabase))
	w := newWorld(t, site, secret(), newDeployment(site, "10.3.7", anothers))
	for range 10 {
		w.reconcile()
		w.pass(time.Minute)
	}
	require.NotZero(t, w.temporal.calls, "Temporal is never asked, the mark stays")
}

func TestUnreachableIsNotKeptForEverInAConflict(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, wants("10.3.7"))
	w.temporal.down()
	w.reconcile()
	require.Contains(t, w.condition(v1alpha1.ConditionOrchestratorUnavailable), "True")
	dep := w.deployment()
	anothers(dep)
	require.NoError(t, w.client.Update(t.Context(), dep))
	w.temporal.err = nil
	for range 10 {
		w.reconcile()
		w.pass(time.Minute)
	}
	require.NotContains(t, w.condition(v1alpha1.ConditionOrchestratorUnavailable), "True", "Temporal is up")
}
