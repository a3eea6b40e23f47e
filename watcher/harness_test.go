package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoapply "k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

var epoch = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

// newSite is a site as the API server would default it.
func newSite(edit ...func(*v1alpha1.DrupalSite)) *v1alpha1.DrupalSite {
	s := &v1alpha1.DrupalSite{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "shop", UID: "uid-shop", Generation: 1, CreationTimestamp: metav1.NewTime(epoch)},
		Spec: v1alpha1.DrupalSiteSpec{
			Image: "registry.example/drupal", Release: "10.3.6",
			Runtime:  v1alpha1.RuntimeSpec{Container: "drupal", Drush: []string{"drush"}},
			Database: &v1alpha1.DatabaseSpec{SecretName: "shop-db"},
			Service:  v1alpha1.ServiceSpec{Port: 80, TargetPort: 8080},
			Workload: v1alpha1.WorkloadSpec{Owner: v1alpha1.OwnerLeave},
			Update: v1alpha1.UpdateSpec{
				RolloutTimeout:  metav1.Duration{Duration: 10 * time.Minute},
				DatabaseTimeout: metav1.Duration{Duration: time.Hour},
				Backup:          v1alpha1.BackupSpec{Policy: v1alpha1.BackupBeforeDatabaseUpdates, Path: "/var/lib/drupdate/backups", Keep: 3, Size: "5Gi"},
			},
		},
	}
	for _, e := range edit {
		e(s)
	}
	return s
}

// verified is a site that runs its release, verified, with a Deployment that serves.
func verified(s *v1alpha1.DrupalSite) {
	s.Status.Release = v1alpha1.ReleaseStatus{Serving: "10.3.6", Failsafe: "10.3.6", Target: "10.3.6"}
	set(v1alpha1.ConditionInitialized, metav1.ConditionTrue, v1alpha1.ReasonInstalled)(s)
}

// rolledBack is a site whose update to 10.3.7 failed, and was rolled back to 10.3.6.
func rolledBack(s *v1alpha1.DrupalSite) {
	verified(s)
	s.Spec.Release = "10.3.7"
	s.Status.Release.Target, s.Status.Release.Failed = "10.3.7", "10.3.7"
	set(v1alpha1.ConditionCodeUpdateFailed, metav1.ConditionTrue, "ImagePullBackOff")(s)
}

// updating is a site whose run to 10.3.7 is in a phase.
func updating(phase update.Phase) func(*v1alpha1.DrupalSite) {
	return func(s *v1alpha1.DrupalSite) {
		verified(s)
		s.Spec.Release, s.Status.Release.Target = "10.3.7", "10.3.7"
		s.Annotations = map[string]string{v1alpha1.AnnotationUpdateInProgress: "true"}
		s.Status.Run = &v1alpha1.RunStatus{WorkflowID: "site/shops/shop", Phase: string(phase)}
	}
}

func set(condition string, status metav1.ConditionStatus, reason string) func(*v1alpha1.DrupalSite) {
	return func(s *v1alpha1.DrupalSite) {
		apimeta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
			Type: condition, Status: status, Reason: reason, Message: reason + ".", LastTransitionTime: metav1.NewTime(epoch),
		})
	}
}

func wants(release string) func(*v1alpha1.DrupalSite) {
	return func(s *v1alpha1.DrupalSite) { s.Spec.Release = release }
}

func retried(value string) func(*v1alpha1.DrupalSite) {
	return func(s *v1alpha1.DrupalSite) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[v1alpha1.AnnotationRetry] = value
	}
}

// newDeployment is the site's Deployment at a release, with a pod that serves.
func newDeployment(s *v1alpha1.DrupalSite, release string, edit ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := deployment(s, release)
	d.UID, d.Status.AvailableReplicas = "uid-deployment", 1
	for _, e := range edit {
		e(d)
	}
	return d
}

// world is a cluster and an orchestrator, both fake, with the watcher in them.
type world struct {
	t        *testing.T
	client   client.WithWatch
	r        *Reconciler
	temporal *fakeStarter
	events   *fakeRecorder
	clock    time.Time
	// writes counts what the watcher wrote.
	writes int
	// refuse is the error of every create of a kind.
	refuse map[string]error
	// applied is the last body that was applied.
	applied string
	// stale is what the cache holds of the site, if it lags behind.
	stale *v1alpha1.DrupalSite
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, temporal: &fakeStarter{}, events: &fakeRecorder{}, clock: epoch.Add(time.Hour), refuse: map[string]error{}}
	scheme := Scheme()
	w.client = fake.NewClientBuilder().WithScheme(scheme).
		WithTypeConverters(siteConverter{}, clientgoapply.NewTypeConverter(coreScheme()), managedfields.NewDeducedTypeConverter()).
		WithStatusSubresource(&v1alpha1.DrupalSite{}).
		WithIndex(&v1alpha1.DrupalSite{}, workloadField, indexWorkload).
		WithReturnManagedFields().
		WithObjects(objects...).
		Build()
	w.r = &Reconciler{
		client:   interceptor.NewClient(w.client, w.interceptors()),
		live:     w.client,
		starter:  w.temporal,
		recorder: w.events,
		now:      func() time.Time { return w.clock },
		jitter:   func(d time.Duration) time.Duration { return d },
	}
	return w
}

func coreScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}

// interceptors count writes, refuse creates, and serve a stale site.
func (w *world) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if site, ok := obj.(*v1alpha1.DrupalSite); ok && w.stale != nil {
				w.stale.DeepCopyInto(site)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			w.writes++
			if err := w.refuse[w.r.kindOf(obj)]; err != nil {
				return err
			}
			obj.SetUID(types.UID("uid-" + obj.GetName()))
			return c.Create(ctx, obj, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			w.writes++
			return w.apply(ctx, c, obj, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			w.writes++
			return c.SubResource(sub).Apply(ctx, obj, opts...)
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("the watcher never updates")
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("the watcher never patches")
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errors.New("the watcher never deletes")
		},
	}
}

// apply keeps the body, and repairs what the fake client does to it: it decodes a body into the whole type, so that a
// Deployment loses the selector that the body does not mention. An API server does no such thing.
func (w *world) apply(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	w.applied = string(body)
	before, after := &appsv1.Deployment{}, &appsv1.Deployment{}
	if err := c.Get(ctx, shop, before); err != nil {
		return err
	}
	if err := c.Apply(ctx, obj, opts...); err != nil {
		return err
	}
	if err := c.Get(ctx, shop, after); err != nil {
		return err
	}
	after.Spec.Selector = before.Spec.Selector
	return c.Update(ctx, after, client.FieldOwner("repair"))
}

var shop = types.NamespacedName{Namespace: "shops", Name: "shop"}

// reconcile reconciles the shop once and returns when it wants to be called again.
func (w *world) reconcile() time.Duration {
	w.t.Helper()
	return w.reconcileSite(shop)
}

func (w *world) reconcileSite(key types.NamespacedName) time.Duration {
	w.t.Helper()
	result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
	require.NoError(w.t, err)
	return result.RequeueAfter
}

func (w *world) site() *v1alpha1.DrupalSite {
	w.t.Helper()
	site := &v1alpha1.DrupalSite{}
	w.read(site, "shop")
	return site
}

// edit changes spec and metadata of the shop as its owner would, and the generation as the API server would.
func (w *world) edit(edit func(*v1alpha1.DrupalSite)) {
	w.t.Helper()
	site := w.site()
	edit(site)
	site.Generation++
	require.NoError(w.t, w.client.Update(w.t.Context(), site, client.FieldOwner("kubectl")))
}

// report changes the status of the shop as the worker would.
func (w *world) report(edit func(*v1alpha1.DrupalSite)) {
	w.t.Helper()
	site := w.site()
	edit(site)
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), site, client.FieldOwner(v1alpha1.ManagerWorker)))
}

func (w *world) read(obj client.Object, name string) {
	w.t.Helper()
	require.NoError(w.t, w.client.Get(w.t.Context(), types.NamespacedName{Namespace: "shops", Name: name}, obj))
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	dep := &appsv1.Deployment{}
	w.read(dep, "shop")
	return dep
}

// condition is "Status Reason" of a condition of the shop, or "" if it is absent.
func (w *world) condition(name string) string {
	w.t.Helper()
	c := apimeta.FindStatusCondition(w.site().Status.Conditions, name)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s", c.Status, c.Reason)
}

// image is release annotation and image of the shop's Deployment.
func (w *world) image() string {
	w.t.Helper()
	dep := w.deployment()
	return dep.Spec.Template.Annotations[v1alpha1.AnnotationRelease] + " " + dep.Spec.Template.Spec.Containers[0].Image
}

func (w *world) pass(d time.Duration) { w.clock = w.clock.Add(d) }

func secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "shop-db"}}
}
