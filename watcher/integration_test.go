//go:build integration

package watcher

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/siteimage"
)

const (
	patience = time.Minute
	tick     = 100 * time.Millisecond
)

// cluster is a namespace of a real API server, given by KUBECONFIG.
type cluster struct {
	t      *testing.T
	config *rest.Config
	client client.Client
	ns     string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	require.NotEmpty(t, path, "KUBECONFIG must name a cluster to test against")
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	config.QPS, config.Burst = 200, 400
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join("..", "deploy", "crd", "drupdate.dev_drupalsites.yaml")}, ErrorIfPathMissing: true, MaxTime: patience,
	})
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "drupdate-watcher-"}}
	require.NoError(t, c.Create(t.Context(), ns))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(c.Delete(context.WithoutCancel(t.Context()), ns)))
	})
	return &cluster{t: t, config: config, client: c, ns: ns.Name}
}

// manager makes a manager of the cluster's namespace.
func (c *cluster) manager() ctrl.Manager {
	c.t.Helper()
	options := ManagerOptions(Config{Namespaces: []string{c.ns}})
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = ptr.To(true)
	mgr, err := ctrl.NewManager(c.config, options)
	require.NoError(c.t, err)
	return mgr
}

func (c *cluster) start(mgr ctrl.Manager) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		require.NoError(c.t, <-ended)
	})
}

// reconciler is a watcher that reconciles when it is told to, and not by itself.
func (c *cluster) reconciler(starter Starter) *Reconciler {
	c.t.Helper()
	mgr := c.manager()
	r, err := newReconciler(mgr, starter)
	require.NoError(c.t, err)
	c.start(mgr)
	require.True(c.t, mgr.GetCache().WaitForCacheSync(c.t.Context()))
	return r
}

func (c *cluster) create(edit ...siteEdit) {
	c.t.Helper()
	require.NoError(c.t, c.client.Create(c.t.Context(), c.newSite(edit...)))
}

// newSite is what an owner writes; the server adds the defaults.
func (c *cluster) newSite(edit ...siteEdit) *v1alpha1.DrupalSite {
	s := &v1alpha1.DrupalSite{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "shop"},
		Spec: v1alpha1.DrupalSiteSpec{
			Image: "registry.example/drupal", Release: "10.3.6",
			Files:  &v1alpha1.FilesSpec{Size: "1Gi"},
			Update: v1alpha1.UpdateSpec{RolloutTimeout: metav1.Duration{Duration: time.Minute}, DatabaseTimeout: metav1.Duration{Duration: time.Minute}},
		},
	}
	for _, e := range edit {
		e(s)
	}
	return s
}

func (c *cluster) get(obj client.Object, name string) {
	c.t.Helper()
	require.NoError(c.t, c.client.Get(c.t.Context(), types.NamespacedName{Namespace: c.ns, Name: name}, obj))
}

func (c *cluster) site() *v1alpha1.DrupalSite {
	c.t.Helper()
	s := &v1alpha1.DrupalSite{}
	c.get(s, "shop")
	return s
}

func (c *cluster) deployment() *appsv1.Deployment {
	c.t.Helper()
	d := &appsv1.Deployment{}
	c.get(d, "shop")
	return d
}

func (c *cluster) request() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: c.ns, Name: "shop"}}
}

// settle reconciles until a pass changes nothing any more: the cache needs a moment to see what the last one wrote.
func (c *cluster) settle(r *Reconciler) {
	c.t.Helper()
	before := ""
	require.Eventually(c.t, func() bool {
		_, err := r.Reconcile(c.t.Context(), c.request())
		require.NoError(c.t, err)
		now := c.versions()
		same := now == before
		before = now
		return same
	}, patience, tick)
}

// versions are the resourceVersions of the site and of all its children.
func (c *cluster) versions() string {
	c.t.Helper()
	versions := []string{c.site().ResourceVersion}
	dep, svc, cm := &appsv1.Deployment{}, &corev1.Service{}, &corev1.ConfigMap{}
	files, backups := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
	for _, x := range []struct {
		obj  client.Object
		name string
	}{{dep, "shop"}, {svc, "shop"}, {cm, "shop-config"}, {files, "shop-files"}, {backups, "shop-backups"}} {
		c.get(x.obj, x.name)
		versions = append(versions, x.obj.GetResourceVersion())
	}
	return strings.Join(versions, " ")
}

// applyStatus writes status as a field manager does: server-side apply of all that it owns.
func (c *cluster) applyStatus(manager string, status map[string]any) {
	c.t.Helper()
	body := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": c.ns, "name": "shop"}, "status": status,
	}}
	body.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DrupalSite"))
	require.NoError(c.t, c.client.Status().Apply(c.t.Context(), client.ApplyConfigurationFromUnstructured(body),
		client.FieldOwner(manager), client.ForceOwnership))
}

func installed() map[string]any {
	return map[string]any{
		"type": v1alpha1.ConditionInitialized, "status": "True", "reason": v1alpha1.ReasonInstalled,
		"message": "Drupal is installed.", "lastTransitionTime": "2026-03-01T02:00:00Z",
	}
}

func TestIntegrationFieldManagersDoNotClobberEachOther(t *testing.T) {
	c := newCluster(t)
	c.create(func(s *v1alpha1.DrupalSite) { s.Spec.Update.Paused = true })
	r := c.reconciler(&fakeStarter{})
	c.settle(r)
	c.applyStatus(v1alpha1.ManagerWorker, map[string]any{
		"release": map[string]any{"serving": "10.3.6", "failsafe": "10.3.6"}, "conditions": []any{installed()},
	})
	has := func(name string) bool { return apimeta.FindStatusCondition(c.site().Status.Conditions, name) != nil }
	require.True(t, has(v1alpha1.ConditionReady), "the worker's write leaves the watcher's conditions")
	require.True(t, has(v1alpha1.ConditionPaused))

	site := c.site()
	site.Spec.Update.Paused = false
	require.NoError(t, c.client.Update(t.Context(), site))
	require.Eventually(t, func() bool { c.settle(r); return !has(v1alpha1.ConditionPaused) }, patience, tick, "the watcher removes its own condition")
	require.True(t, has(v1alpha1.ConditionInitialized), "the watcher's write leaves the worker's conditions")
	require.Equal(t, "10.3.6", c.site().Status.Release.Serving)
	require.Equal(t, c.site().Generation, c.site().Status.ObservedGeneration)

	c.applyStatus(v1alpha1.ManagerWorker, map[string]any{"conditions": []any{}})
	require.False(t, has(v1alpha1.ConditionInitialized))
	require.True(t, has(v1alpha1.ConditionReady))
}

func TestIntegrationTwoReconcilesWriteNothing(t *testing.T) {
	c := newCluster(t)
	c.create()
	c.settle(c.reconciler(&fakeStarter{}))
	starter := &fakeStarter{}
	r := c.reconciler(starter) // as after a restart
	// Kubernetes' own controllers write as well, for a while; the watcher would write in every round.
	require.Eventually(t, func() bool {
		before := c.versions()
		for range 2 {
			_, err := r.Reconcile(t.Context(), c.request())
			require.NoError(t, err)
		}
		return c.versions() == before
	}, patience, tick)
	require.Empty(t, starter.retargets)
}

func TestIntegrationTheImageIsPutBackByANarrowWrite(t *testing.T) {
	c := newCluster(t)
	c.create(func(s *v1alpha1.DrupalSite) { s.Spec.Workload.Containers = []string{"drupal", "cron"} })
	r := c.reconciler(&fakeStarter{})
	_, err := r.Reconcile(t.Context(), c.request())
	require.NoError(t, err)
	var dep *appsv1.Deployment
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // a Deployment controller may write status
		dep = c.deployment()
		dep.Spec.Replicas = ptr.To[int32](3)
		dep.Spec.Template.Spec.Containers = append(dep.Spec.Template.Spec.Containers,
			corev1.Container{Name: "cron", Image: "evil:1"}, corev1.Container{Name: "proxy", Image: "envoy:1"})
		return c.client.Update(t.Context(), dep)
	}))
	images := func() []string {
		var out []string
		for _, x := range c.deployment().Spec.Template.Spec.Containers {
			out = append(out, x.Image)
		}
		return out
	}
	ours := "registry.example/drupal:10.3.6"
	require.Eventually(t, func() bool { c.settle(r); return images()[1] == ours }, patience, tick)
	require.Equal(t, []string{ours, ours, "envoy:1"}, images())
	require.Equal(t, int32(3), *c.deployment().Spec.Replicas)
	require.Equal(t, dep.Spec.Selector, c.deployment().Spec.Selector)

	// A container that leaves the list keeps its image: to drop a field that one owns is to delete it.
	site := c.site()
	site.Spec.Workload.Containers = nil
	require.NoError(t, c.client.Update(t.Context(), site))
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // a Deployment controller may write status
		return c.client.Apply(t.Context(), siteimage.Configuration(c.site(), c.deployment(), "10.3.5"), client.FieldOwner(v1alpha1.ManagerImage), client.ForceOwnership)
	}))
	require.Equal(t, []string{"registry.example/drupal:10.3.5", ours, "envoy:1"}, images())

	// A Deployment that is gone, or another one, is never written to.
	dep = c.deployment()
	stale := dep.DeepCopy()
	stale.ResourceVersion = "1"
	err = c.client.Apply(t.Context(), siteimage.Configuration(c.site(), stale, "10.3.6"), client.FieldOwner(v1alpha1.ManagerImage), client.ForceOwnership)
	require.True(t, apierrors.IsConflict(err), err)
	require.NoError(t, c.client.Delete(t.Context(), dep, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	err = c.client.Apply(t.Context(), siteimage.Configuration(c.site(), dep, "10.3.6"), client.FieldOwner(v1alpha1.ManagerImage), client.ForceOwnership)
	require.True(t, apierrors.IsConflict(err) || apierrors.IsNotFound(err), err)
	require.True(t, apierrors.IsNotFound(c.client.Get(t.Context(), client.ObjectKeyFromObject(dep), dep)))
}

func TestIntegrationAnExistingDeploymentIsOwnedIfTheSiteAsksForIt(t *testing.T) {
	c := newCluster(t)
	dep := deployment(c.newSite(func(s *v1alpha1.DrupalSite) {
		s.Spec.Runtime.Container, s.Spec.Service.TargetPort, s.Spec.Files = "drupal", 8080, nil
	}), "10.3.5")
	dep.OwnerReferences, dep.Annotations, dep.Spec.Template.Annotations = nil, nil, nil
	require.NoError(t, c.client.Create(t.Context(), dep))
	c.create(func(s *v1alpha1.DrupalSite) { s.Spec.Workload.Owner = v1alpha1.OwnerAdopt })
	r := c.reconciler(&fakeStarter{})
	require.Eventually(t, func() bool { c.settle(r); return metav1.IsControlledBy(c.deployment(), c.site()) }, patience, tick)
	require.Equal(t, dep.Spec, c.deployment().Spec)
}

func TestIntegrationTheWatcherIsWokenByWhatItMustSee(t *testing.T) {
	c := newCluster(t)
	mgr := c.manager()
	starter := &fakeStarter{}
	require.NoError(t, Setup(mgr, Config{Namespaces: []string{c.ns}}, starter))
	c.start(mgr)
	c.create()
	require.Eventually(t, func() bool {
		return c.client.Get(t.Context(), types.NamespacedName{Namespace: c.ns, Name: "shop"}, &appsv1.Deployment{}) == nil
	}, patience, tick)

	for obj, name := range map[client.Object]string{&appsv1.Deployment{}: "shop", &corev1.Service{}: "shop", &corev1.ConfigMap{}: "shop-config"} {
		require.Eventually(t, func() bool {
			return c.client.Get(t.Context(), types.NamespacedName{Namespace: c.ns, Name: name}, obj) == nil
		}, patience, tick)
		uid := obj.GetUID()
		require.NoError(t, c.client.Delete(t.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		require.Eventually(t, func() bool {
			err := c.client.Get(t.Context(), types.NamespacedName{Namespace: c.ns, Name: name}, obj)
			return err == nil && obj.GetUID() != uid
		}, patience, tick, "a deleted %s comes back", name)
	}

	// A Deployment that serves, and the worker's status, start a run: neither changes a generation.
	serves := func() {
		// A Deployment controller may be at work and know better, so it is said again each time.
		dep := c.deployment()
		s := &dep.Status
		s.ObservedGeneration, s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.AvailableReplicas, s.UnavailableReplicas = dep.Generation, 1, 1, 1, 1, 0
		if err := c.client.Status().Update(t.Context(), dep); !apierrors.IsConflict(err) {
			require.NoError(t, err)
		}
	}
	asked := func(what func() bool) func() bool {
		return func() bool {
			serves()
			starter.mu.Lock()
			defer starter.mu.Unlock()
			return what()
		}
	}
	require.Eventually(t, asked(func() bool { return starter.checks > 0 }), patience, tick)
	c.applyStatus(v1alpha1.ManagerWorker, map[string]any{"conditions": []any{installed()}})
	require.Eventually(t, asked(func() bool { return len(starter.retargets) == 1 }), patience, tick)
}

func TestIntegrationTheServerRefusesWhatCannotBeCarriedOut(t *testing.T) {
	c := newCluster(t)
	window := func(schedule string, d time.Duration) siteEdit {
		return func(s *v1alpha1.DrupalSite) {
			s.Spec.Update.Window = &v1alpha1.WindowSpec{Schedule: schedule, Duration: metav1.Duration{Duration: d}}
		}
	}
	cases := []struct {
		name string
		edit siteEdit
		want string
	}{
		{"a release with a blank", wants("10.3 6"), "release must be an image tag"},
		{"a release that is a whole image", wants("drupal:10.3.6"), "release must be an image tag"},
		{"a digest that is too short", wants("sha256:abc"), "release must be an image tag"},
		{"an image with a tag", func(s *v1alpha1.DrupalSite) { s.Spec.Image = "registry.example/drupal:10" }, "spec.image"},
		{"a schedule of four fields", window("0 2 * *", time.Hour), "spec.update.window.schedule"},
		{"a window that is too short", window("0 2 * * *", time.Second), "duration must be at least 1m and at most 168h"},
		{"a rollout timeout of a month", func(s *v1alpha1.DrupalSite) { s.Spec.Update.RolloutTimeout.Duration = 720 * time.Hour }, "rolloutTimeout must be above 0s and at most 24h"},
		{"a database timeout below zero", func(s *v1alpha1.DrupalSite) { s.Spec.Update.DatabaseTimeout.Duration = -time.Hour }, "databaseTimeout must be at least 1s and at most 48h"},
		{"a size that is no quantity", func(s *v1alpha1.DrupalSite) { s.Spec.Files.Size = "5 GB" }, "size must be a quantity above zero"},
		{"a size of nothing", func(s *v1alpha1.DrupalSite) { s.Spec.Files.Size = "0" }, "size must be a quantity above zero"},
		{"a backup size below zero", func(s *v1alpha1.DrupalSite) { s.Spec.Update.Backup.Size = "-1Gi" }, "size must be a quantity above zero"},
		{"a restore without a backup", func(s *v1alpha1.DrupalSite) { s.Spec.Update.Backup.Policy = v1alpha1.BackupNever }, "onDatabaseFailure Restore needs a backup"},
		{"a relative path", func(s *v1alpha1.DrupalSite) { s.Spec.Files.Path = "files" }, "path must be absolute"},
		{"an address without a scheme", func(s *v1alpha1.DrupalSite) { s.Spec.Runtime.URI = "shop.example" }, "uri must begin with http:// or https://"},
		{"a name with a dot", func(s *v1alpha1.DrupalSite) { s.Name = "shop.example" }, "the name of a site must be a DNS label"},
		{"a name that is too long", func(s *v1alpha1.DrupalSite) { s.Name = strings.Repeat("a", 51) }, "the name of a site must be a DNS label"},
		{"annotations of a megabyte", func(s *v1alpha1.DrupalSite) {
			s.Annotations = map[string]string{"note": strings.Repeat("x", 1<<20)}
		}, "metadata.annotations"},
	}
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			err := c.client.Create(t.Context(), c.newSite(x.edit), client.DryRunAll)
			require.Error(t, err)
			require.True(t, apierrors.IsInvalid(err), err)
			require.ErrorContains(t, err, x.want)
		})
	}
}

func TestIntegrationASiteWithTheLargestAnnotationsIsHandled(t *testing.T) {
	c := newCluster(t)
	c.create(func(s *v1alpha1.DrupalSite) { s.Annotations = map[string]string{"note": strings.Repeat("x", 250<<10)} })
	r := c.reconciler(&fakeStarter{})
	c.settle(r)
	require.NotNil(t, apimeta.FindStatusCondition(c.site().Status.Conditions, v1alpha1.ConditionReady))
}
