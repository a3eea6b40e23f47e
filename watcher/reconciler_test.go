package watcher

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func TestChildrenAreCreatedOnceAndWithTheSiteAsOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite(func(s *v1alpha1.DrupalSite) {
		s.Spec.Files = &v1alpha1.FilesSpec{Size: "5Gi", Path: "/files"}
	}), secret())
	w.reconcile()
	for obj, name := range map[client.Object]string{
		&appsv1.Deployment{}: "shop", &corev1.Service{}: "shop", &corev1.ConfigMap{}: "shop-config",
	} {
		w.read(obj, name)
		require.True(t, metav1.IsControlledBy(obj, w.site()), name)
	}
	for _, name := range []string{"shop-files", "shop-backups"} {
		pvc := &corev1.PersistentVolumeClaim{}
		w.read(pvc, name)
		require.True(t, metav1.IsControlledBy(pvc, w.site()), name)
	}
	require.Equal(t, "10.3.6 registry.example/drupal:10.3.6", w.image())
	require.Equal(t, "False NoPodAvailable", w.condition(v1alpha1.ConditionReady))
	require.Contains(t, w.events.seen, "DeploymentCreated: Created Deployment shop with release 10.3.6")
	require.Zero(t, w.temporal.calls, "a site that does not serve is not checked")

	w.writes = 0
	require.Zero(t, w.reconcile())
	require.Zero(t, w.writes)
	require.Zero(t, w.temporal.calls)
}

func TestAnIdleSiteMakesNoWriteAndNoCall(t *testing.T) {
	t.Parallel()
	site := newSite(verified)
	w := newWorld(t, site, newDeployment(site, "10.3.6"))
	w.reconcile()
	require.Equal(t, "True PodsAvailable", w.condition(v1alpha1.ConditionReady))
	require.Equal(t, int64(1), w.site().Status.ObservedGeneration)
	before := w.site()
	w.writes = 0
	w.r.memory = memory{} // as after a restart
	w.pass(time.Hour)
	require.Zero(t, w.reconcile(), "events are enough")
	require.Zero(t, w.writes)
	require.Zero(t, w.temporal.calls)
	require.Equal(t, before, w.site())
}

func TestAdminEditsSurvive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite(verified), secret())
	w.reconcile()
	dep := w.deployment()
	dep.Spec.Replicas = ptr.To[int32](7)
	dep.Labels["team"] = "shops"
	dep.Spec.Template.Annotations["team"] = "shops"
	dep.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	c := &dep.Spec.Template.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	c.ReadinessProbe = nil
	dep.Spec.Template.Spec.Containers = append(dep.Spec.Template.Spec.Containers, corev1.Container{Name: "proxy", Image: "envoy:1"})
	require.NoError(t, w.client.Update(t.Context(), dep, client.FieldOwner("kubectl-edit")))
	svc := &corev1.Service{}
	w.read(svc, "shop")
	svc.Spec.Ports[0].Port, svc.OwnerReferences = 8443, nil
	require.NoError(t, w.client.Update(t.Context(), svc, client.FieldOwner("kubectl-edit")))
	want := w.deployment()

	w.writes = 0
	w.edit(func(s *v1alpha1.DrupalSite) { s.Spec.Service.Port = 81; s.Spec.Runtime.URI = "https://new.example" })
	w.reconcile()
	require.Equal(t, 1, w.writes, "only the status")
	require.Equal(t, want, w.deployment())

	// Even the image being put back leaves the rest alone.
	dep = w.deployment()
	dep.Spec.Template.Spec.Containers[0].Image = "evil:1"
	require.NoError(t, w.client.Update(t.Context(), dep, client.FieldOwner("kubectl-edit")))
	w.reconcile()
	got := w.deployment()
	require.Equal(t, want.Spec, got.Spec)
	require.Equal(t, want.Labels, got.Labels)
	got2 := &corev1.Service{}
	w.read(got2, "shop")
	require.Equal(t, int32(8443), got2.Spec.Ports[0].Port)
	require.Empty(t, got2.OwnerReferences)
}

func TestADeletedChildComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite(verified), secret())
	w.reconcile()
	for obj, name := range map[client.Object]string{
		&appsv1.Deployment{}: "shop", &corev1.Service{}: "shop", &corev1.ConfigMap{}: "shop-config", &corev1.PersistentVolumeClaim{}: "shop-backups",
	} {
		w.read(obj, name)
		require.NoError(t, w.client.Delete(t.Context(), obj))
		w.reconcile()
		w.read(obj, name)
	}
}

func TestADeletedDeploymentComesBackWithTheRightRelease(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		site siteEdit
		want string
	}{
		{"the failsafe after a failed update", rolledBack, "10.3.6"},
		{"the served release while an update is wanted", func(s *v1alpha1.DrupalSite) { verified(s); s.Spec.Release = "10.3.7" }, "10.3.6"},
		{"the served release during the rollout", updating(update.PhaseRollingOut), "10.3.6"},
		{"the target during the database update", updating(update.PhaseUpdatingDatabase), "10.3.7"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newSite(c.site), secret())
			w.temporal.open = map[string]bool{"site/shops/shop": true}
			w.reconcile()
			require.Equal(t, c.want+" registry.example/drupal:"+c.want, w.image())
			require.Contains(t, w.events.seen, "DeploymentCreated: Created Deployment shop with release "+c.want)
		})
	}
}

func TestAnImageSetByHandIsPutBackByANarrowWrite(t *testing.T) {
	t.Parallel()
	site := newSite(verified)
	w := newWorld(t, site, newDeployment(site, "10.3.6", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil:1" }))
	w.reconcile()
	require.Equal(t, "10.3.6 registry.example/drupal:10.3.6", w.image())
	require.Contains(t, w.events.seen, "ImagePutBack: Put the image of Deployment shop back to release 10.3.6")
	require.JSONEq(t, `{"apiVersion":"apps/v1","kind":"Deployment",
		"metadata":{"namespace":"shops","name":"shop","uid":"uid-deployment","resourceVersion":"999"},
		"spec":{"template":{
			"metadata":{"annotations":{"drupdate.dev/release":"10.3.6"}},
			"spec":{"containers":[{"name":"drupal","image":"registry.example/drupal:10.3.6"}]}}}}`, w.applied)

	w.writes = 0
	w.reconcile()
	require.Zero(t, w.writes)
}

func TestAnotherRepositoryInTheSpecIsForARunAndNotPutBack(t *testing.T) {
	t.Parallel()
	site := newSite(verified)
	w := newWorld(t, site, newDeployment(site, "10.3.6", func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "registry.example/before:10.3.6"
	}))
	w.reconcile()
	require.Equal(t, "10.3.6 registry.example/before:10.3.6", w.image())
	require.Len(t, w.temporal.retargets, 1)
}

func TestSomebodyWhoKeepsSettingTheImageMeetsASlowingPace(t *testing.T) {
	t.Parallel()
	site := newSite(verified)
	w := newWorld(t, site, newDeployment(site, "10.3.6"))
	var waits []time.Duration
	for range 3 {
		dep := w.deployment()
		dep.Spec.Template.Spec.Containers[0].Image = "evil:1"
		require.NoError(t, w.client.Update(t.Context(), dep, client.FieldOwner("argocd")))
		wait := w.reconcile()
		waits = append(waits, wait)
		w.pass(wait)
		w.reconcile()
		require.Equal(t, "10.3.6 registry.example/drupal:10.3.6", w.image())
	}
	require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, waits)
}

func TestAnImageThatAdmissionPinnedIsNoDrift(t *testing.T) {
	t.Parallel()
	site := newSite(verified)
	w := newWorld(t, site, newDeployment(site, "10.3.6", func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "registry.example/drupal@" + digest
	}))
	w.reconcile()
	w.writes = 0
	w.reconcile()
	require.Zero(t, w.writes)
	require.Equal(t, "10.3.6 registry.example/drupal@"+digest, w.image())
}

func TestWhileARunIsOpenTheImageIsItsOwn(t *testing.T) {
	t.Parallel()
	site := newSite(updating(update.PhaseRollingOut))
	w := newWorld(t, site, newDeployment(site, "10.3.6", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil:1" }))
	w.temporal.open = map[string]bool{"site/shops/shop": true}
	require.Equal(t, askRunEvery, w.reconcile())
	require.Equal(t, "10.3.6 evil:1", w.image())
	require.Empty(t, w.temporal.retargets)
}

func TestAStaleCacheDoesNotMoveTheImageUnderARun(t *testing.T) {
	t.Parallel()
	site := newSite(updating(update.PhaseRollingOut))
	w := newWorld(t, site, newDeployment(site, "10.3.7", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }))
	w.stale = newSite(verified)
	require.Equal(t, staleRetry, w.reconcile())
	require.Equal(t, "10.3.7 registry.example/drupal:10.3.7", w.image())
}

func TestAContainerThatLeftTheListKeepsItsImage(t *testing.T) {
	t.Parallel()
	site := newSite(verified, func(s *v1alpha1.DrupalSite) { s.Spec.Workload.Containers = []string{"drupal", "cron"} })
	dep := newDeployment(site, "10.3.6")
	dep.Spec.Template.Spec.Containers = append(dep.Spec.Template.Spec.Containers, corev1.Container{Name: "cron", Image: "evil:1"})
	w := newWorld(t, site, dep)
	w.reconcile()
	require.Equal(t, "registry.example/drupal:10.3.6", w.deployment().Spec.Template.Spec.Containers[1].Image)

	w.edit(func(s *v1alpha1.DrupalSite) { s.Spec.Workload.Containers = nil })
	dep = w.deployment()
	dep.Spec.Template.Spec.Containers[0].Image = "evil:1"
	require.NoError(t, w.client.Update(t.Context(), dep, client.FieldOwner("kubectl")))
	w.pass(time.Hour)
	w.reconcile()
	require.Equal(t, "registry.example/drupal:10.3.6", w.deployment().Spec.Template.Spec.Containers[0].Image)
	require.Equal(t, "registry.example/drupal:10.3.6", w.deployment().Spec.Template.Spec.Containers[1].Image)
}

func TestAFirstImageThatNeverCameUpIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite(wants("10.3.7-typo")), secret())
	w.reconcile()
	w.edit(wants("10.3.7"))
	w.reconcile()
	require.Equal(t, "10.3.7 registry.example/drupal:10.3.7", w.image())
	require.Zero(t, w.temporal.calls)
}

func TestAnExistingDeploymentIsAdopted(t *testing.T) {
	t.Parallel()
	foreign := func() *appsv1.Deployment {
		d := deployment(newSite(), "10.3.5")
		d.UID, d.OwnerReferences, d.Labels, d.Annotations = "uid-deployment", nil, nil, nil
		d.Spec.Template.Annotations, d.Spec.Template.Labels = nil, map[string]string{"app": "web"}
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		d.Status.AvailableReplicas = 1
		return d
	}
	t.Run("and left as it is", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, newSite(), foreign(), secret())
		before := w.deployment()
		w.reconcile()
		require.Equal(t, before, w.deployment())
		require.Equal(t, 1, w.temporal.checks, "it serves, so it is asked whether it is installed")
		svc := &corev1.Service{}
		w.read(svc, "shop")
		require.Equal(t, map[string]string{"app": "web"}, svc.Spec.Selector)
	})
	t.Run("with an owner reference if the site asks for it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, newSite(func(s *v1alpha1.DrupalSite) { s.Spec.Workload.Owner = v1alpha1.OwnerAdopt }), foreign(), secret())
		before := w.deployment()
		w.reconcile()
		require.True(t, metav1.IsControlledBy(w.deployment(), w.site()))
		require.Equal(t, before.Spec, w.deployment().Spec)
		require.Contains(t, w.events.seen, "DeploymentAdopted: Adopted Deployment shop")
		w.writes = 0
		w.reconcile()
		require.Zero(t, w.writes)
	})
	t.Run("and left to its controller", func(t *testing.T) {
		t.Parallel()
		d := foreign()
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "a/v1", Kind: "Rollout", Name: "web", UID: "r", Controller: ptr.To(true)}}
		w := newWorld(t, newSite(func(s *v1alpha1.DrupalSite) { s.Spec.Workload.Owner = v1alpha1.OwnerAdopt }), d, secret())
		before := w.deployment()
		require.Equal(t, conflictPoll, w.reconcile())
		require.Equal(t, before, w.deployment())
		require.Equal(t, "False WorkloadConflict", w.condition(v1alpha1.ConditionReady))
		require.Zero(t, w.temporal.calls)
	})
}

func TestOfTwoSitesThatNameOneDeploymentOneHasIt(t *testing.T) {
	t.Parallel()
	second := newSite(func(s *v1alpha1.DrupalSite) {
		s.Name, s.UID, s.Spec.Workload.Name = "copy", "uid-copy", "shop"
		s.CreationTimestamp = metav1.NewTime(epoch.Add(time.Minute))
	})
	w := newWorld(t, newSite(), second, secret())
	key := types.NamespacedName{Namespace: "shops", Name: "copy"}
	require.Equal(t, conflictPoll, w.reconcileSite(key))
	w.reconcile()
	require.Equal(t, "False NoPodAvailable", w.condition(v1alpha1.ConditionReady))
	loser := &v1alpha1.DrupalSite{}
	w.read(loser, "copy")
	ready := apimeta.FindStatusCondition(loser.Status.Conditions, v1alpha1.ConditionReady)
	require.Equal(t, v1alpha1.ReasonWorkloadConflict, ready.Reason)
	require.Equal(t, `Deployment "shop" belongs to DrupalSite "shop", which names it as well; nothing of it is touched.`, ready.Message)
	require.Len(t, w.events.seen, 5, "one for the conflict, four for the children of the other")

	require.NoError(t, w.client.Delete(t.Context(), w.site()))
	require.NoError(t, w.client.Delete(t.Context(), w.deployment()))
	w.reconcileSite(key)
	require.True(t, metav1.IsControlledBy(w.deployment(), second), "the other one gets it when it is free")
}

func TestASiteThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite(func(s *v1alpha1.DrupalSite) {
		s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: epoch}, []string{"somebody.else/theirs"}
	}))
	require.Zero(t, w.reconcile())
	require.Zero(t, w.writes)
	require.Zero(t, w.reconcileSite(types.NamespacedName{Namespace: "shops", Name: "none"}))
}

func TestBothFieldManagersKeepTheirConditions(t *testing.T) {
	t.Parallel()
	site := newSite(rolledBack, func(s *v1alpha1.DrupalSite) { s.Spec.Update.Paused = true })
	w := newWorld(t, site, newDeployment(site, "10.3.6"))
	w.reconcile()
	require.Equal(t, "True PausedBySpec", w.condition(v1alpha1.ConditionPaused))
	require.Equal(t, "True ImagePullBackOff", w.condition(v1alpha1.ConditionCodeUpdateFailed))
	require.Equal(t, "10.3.7", w.site().Status.Release.Failed)

	w.pass(time.Minute)
	w.edit(func(s *v1alpha1.DrupalSite) { s.Spec.Update.Paused = false })
	w.reconcile()
	require.Empty(t, w.condition(v1alpha1.ConditionPaused))
	require.Equal(t, "True ImagePullBackOff", w.condition(v1alpha1.ConditionCodeUpdateFailed))
	ready := apimeta.FindStatusCondition(w.site().Status.Conditions, v1alpha1.ConditionReady)
	require.Equal(t, int64(2), ready.ObservedGeneration)
	require.Equal(t, epoch.Add(time.Hour), ready.LastTransitionTime.UTC(), "the status did not change")
}

func count(list []string, prefix string) int {
	n := 0
	for _, s := range list {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}
