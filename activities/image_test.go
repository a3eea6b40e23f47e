package activities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func to(release, uid string) update.Change {
	return update.Change{Site: blog, Release: release, UID: uid}
}

func TestSetReleaseTouchesImageAndAnnotationOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(), testDeployment("1.0", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(4)) }))
	before := w.deployment().Spec.DeepCopy()

	change := twice(w, update.SetRelease, to("2.0", "deployment-uid"))

	require.Equal(t, "deployment-uid", change.UID)
	require.False(t, change.Replaced)
	after := w.deployment()
	require.Equal(t, after.Generation, change.Generation)
	before.Template.Annotations[v1alpha1.AnnotationRelease] = "2.0"
	before.Template.Spec.Containers[1].Image = "registry.example/drupal:2.0"
	after.Spec.Selector = before.Selector // The fake client loses it; a real API server does not, see the integration test.
	require.Equal(t, *before, after.Spec)
	require.Equal(t, 1, w.writes)
}

func TestSetReleaseDoesNotWriteWhatIsSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(), testDeployment("2.0"))
	change := twice(w, update.SetRelease, to("2.0", ""))
	require.Equal(t, update.Change{Site: blog, Release: "2.0", UID: "deployment-uid", Generation: 3}, change)
	require.Zero(t, w.writes)
}

func TestSetReleaseLeavesAnotherDeploymentAlone(t *testing.T) {
	t.Parallel()
	for name, objects := range map[string][]client.Object{
		"replaced": {testSite(), testDeployment("1.0")},
		"deleted":  {testSite()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, objects...)
			require.True(t, twice(w, update.SetRelease, to("2.0", "the-first")).Replaced)
			require.Zero(t, w.writes)
		})
	}
}

func TestSetReleaseFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		objects []client.Object
		kind    string
	}{
		{"no Deployment yet: the watcher makes it", []client.Object{testSite()}, ""},
		{"no site", nil, update.FailureSiteGone},
		{"no container of that name", []client.Object{testSite(), testDeployment("1.0", func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[1].Name = "web"
		})}, update.FailureContainerMissing},
		{"a Deployment of another controller", []client.Object{testSite(), testDeployment("1.0", func(d *appsv1.Deployment) {
			d.OwnerReferences = []metav1.OwnerReference{owner("Wordpress", "blog", "x")}
		})}, update.FailureWorkloadConflict},
		{"a Deployment of another site", []client.Object{testSite(), testDeployment("1.0", func(d *appsv1.Deployment) {
			d.Labels = map[string]string{v1alpha1.LabelSite: "shop"}
		})}, update.FailureWorkloadConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.objects...)
			_, err := do(w, update.SetRelease, to("2.0", ""))
			requireFailure(t, err, c.kind)
			require.Zero(t, w.writes)
		})
	}
}

func TestSetReleaseSurvivesAFaultOfTheAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(), testDeployment("1.0"))
	w.funcs.Apply = func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
		w.funcs.Apply = nil
		require.NoError(t, c.Apply(ctx, o, opts...))
		return apierrors.NewServiceUnavailable("the answer is lost")
	}
	_, err := do(w, update.SetRelease, to("2.0", "deployment-uid"))
	requireFailure(t, err, "")
	require.Equal(t, "2.0", twice(w, update.SetRelease, to("2.0", "deployment-uid")).Release)
	require.Equal(t, 1, w.writes)
}
