//go:build integration

package activities

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// cluster is a real API server, found by KUBECONFIG. Each test has a namespace of its own there.
type cluster struct {
	*world
	live client.WithWatch
	site update.Site
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Skip("KUBECONFIG is not set")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	live, err := client.NewWithWatch(config, client.Options{Scheme: testScheme(t)})
	require.NoError(t, err)
	applyCRD(t, live)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "activities-"}}
	require.NoError(t, live.Create(t.Context(), ns))
	t.Cleanup(func() { _ = live.Delete(t.Context(), ns) }) // The namespace of a test server may stay.
	site := testSite(func(s *v1alpha1.DrupalSite) {
		s.Namespace, s.UID, s.Generation = ns.Name, "", 0
		s.Spec.Update.RolloutTimeout.Duration, s.Spec.Update.DatabaseTimeout.Duration = time.Minute, time.Hour
	})
	// The CRD is served a moment after it is made.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, live.Create(t.Context(), site.DeepCopy()))
	}, 20*time.Second, 200*time.Millisecond)
	require.NoError(t, live.Get(t.Context(), client.ObjectKeyFromObject(site), site))
	w := newWorld(t)
	w.client = live
	return &cluster{world: w, live: live, site: update.Site{Namespace: ns.Name, Name: site.Name, UID: string(site.UID)}}
}

func applyCRD(t *testing.T, live client.Client) {
	t.Helper()
	text, err := os.ReadFile("../deploy/crd/drupdate.dev_drupalsites.yaml")
	require.NoError(t, err)
	crd := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(text, &crd.Object))
	unstructured.RemoveNestedField(crd.Object, "metadata", "creationTimestamp")
	require.NoError(t, live.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner("test"), client.ForceOwnership))
}

func (c *cluster) read() *v1alpha1.DrupalSite {
	c.t.Helper()
	site := &v1alpha1.DrupalSite{}
	require.NoError(c.t, c.live.Get(c.t.Context(), client.ObjectKey{Namespace: c.site.Namespace, Name: c.site.Name}, site))
	return site
}

func (c *cluster) watcherApplies(ready string) {
	c.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"observedGeneration": int64(1),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": ready, "reason": "PodsAvailable", "message": "m", "lastTransitionTime": noon.Format(time.RFC3339),
		}},
	}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(siteKind))
	object.SetNamespace(c.site.Namespace)
	object.SetName(c.site.Name)
	require.NoError(c.t, c.live.Status().Apply(c.t.Context(), client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(v1alpha1.ManagerWatcher), client.ForceOwnership))
}

func (c *cluster) report(r update.Report) {
	c.t.Helper()
	r.Site = c.site
	_, err := do(c.world, update.WriteReport, r)
	require.NoError(c.t, err)
	version := c.read().ResourceVersion
	_, err = do(c.world, update.WriteReport, r)
	require.NoError(c.t, err)
	require.Equal(c.t, version, c.read().ResourceVersion, "the second report writes nothing")
}

func TestIntegrationWorkerAndWatcherShareTheStatus(t *testing.T) {
	c := newCluster(t)
	c.watcherApplies("True")
	c.report(started())
	site := c.read()
	require.Equal(t, "true", site.Annotations[v1alpha1.AnnotationUpdateInProgress])
	require.Equal(t, int64(1), site.Status.ObservedGeneration)
	require.Nil(t, site.Status.Run.FinishedAt)

	c.watcherApplies("False")
	backup := rolledBack()
	backup.Backup = &update.Backup{Name: "b1", TakenAt: noon, Bytes: 1, SHA256: "aa"}
	c.report(backup)
	c.watcherApplies("True")
	site = c.read()
	conditions := map[string]metav1.ConditionStatus{}
	for _, condition := range site.Status.Conditions {
		conditions[condition.Type] = condition.Status
	}
	require.Equal(t, map[string]metav1.ConditionStatus{"Ready": "True", "Updating": "False", "CodeUpdateFailed": "True"}, conditions)
	require.NotContains(t, site.Annotations, v1alpha1.AnnotationUpdateInProgress)
	require.NotNil(t, site.Status.Run.FinishedAt)
	require.Equal(t, "2.0", site.Status.Release.Failed)
	require.Len(t, site.Status.Backups, 1)

	c.report(update.Report{Remove: []string{"CodeUpdateFailed"}, Releases: &update.Releases{Serving: "1.0", Failsafe: "1.0"}})
	site = c.read()
	require.Nil(t, apimeta.FindStatusCondition(site.Status.Conditions, "CodeUpdateFailed"))
	require.Equal(t, v1alpha1.ReleaseStatus{Serving: "1.0", Failsafe: "1.0"}, site.Status.Release)
	require.NotNil(t, apimeta.FindStatusCondition(site.Status.Conditions, "Ready"))
}

func TestIntegrationWhatAPersonSetByHandIsRemovedAsWell(t *testing.T) {
	c := newCluster(t)
	c.report(started())
	patch := []byte(`{"metadata":{"annotations":{"updateInProgress":"true"}},"status":{"release":{"failed":"1.5"}}}`)
	require.NoError(t, c.live.Patch(t.Context(), c.read(), client.RawPatch("application/merge-patch+json", patch), client.FieldOwner("kubectl-edit")))
	require.NoError(t, c.live.Status().Patch(t.Context(), c.read(), client.RawPatch("application/merge-patch+json", patch), client.FieldOwner("kubectl-edit")))
	c.report(update.Report{InProgress: update.MarkClear, Releases: &update.Releases{Serving: "1.0"}})
	require.Equal(t, v1alpha1.ReleaseStatus{Serving: "1.0"}, c.read().Status.Release)
	require.False(t, c.read().InProgress())
}

func TestIntegrationAReportNeverBringsASiteBack(t *testing.T) {
	c := newCluster(t)
	site := c.read()
	require.NoError(t, c.live.Delete(t.Context(), site))
	a := New(Deps{Client: c.live, Clock: c.clock})
	require.Error(t, a.mark(t.Context(), site, true))
	_, err := do(c.world, update.WriteReport, update.Report{Site: c.site, InProgress: update.MarkSet})
	requireFailure(t, err, update.FailureSiteGone)
}

func TestIntegrationSetReleaseIsNarrow(t *testing.T) {
	c := newCluster(t)
	d := testDeployment("1.0", func(d *appsv1.Deployment) {
		d.Namespace, d.UID, d.Generation, d.Spec.Replicas = c.site.Namespace, "", 0, new(int32(4))
		d.Status = appsv1.DeploymentStatus{}
	})
	require.NoError(t, c.live.Create(t.Context(), d))
	before := d.Spec.DeepCopy()
	change := update.Change{Site: c.site, Release: "2.0", UID: string(d.UID)}
	first, err := do(c.world, update.SetRelease, change)
	require.NoError(t, err)
	second, err := do(c.world, update.SetRelease, change)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Equal(t, int64(2), first.Generation)

	after := &appsv1.Deployment{}
	require.NoError(t, c.live.Get(t.Context(), client.ObjectKeyFromObject(d), after))
	before.Template.Annotations[v1alpha1.AnnotationRelease] = "2.0"
	before.Template.Spec.Containers[1].Image = "registry.example/drupal:2.0"
	require.Equal(t, *before, after.Spec)
	_, known := writtenAt(after)
	require.True(t, known)

	require.NoError(t, c.live.Delete(t.Context(), d))
	a := New(Deps{Client: c.live, Clock: c.clock})
	_, err = a.apply(t.Context(), c.read(), d, "3.0")
	require.Error(t, err, "a Deployment that was just deleted is not made of nothing but an image")
	require.Empty(t, failureType(err), "a deleted Deployment is no fault of the release: %v", err)
	anew := testDeployment("1.0", func(d *appsv1.Deployment) {
		d.Namespace, d.UID, d.Generation, d.Status = c.site.Namespace, "", 0, appsv1.DeploymentStatus{}
	})
	require.NoError(t, c.live.Create(t.Context(), anew))
	_, err = a.apply(t.Context(), c.read(), d, "3.0")
	require.Error(t, err, "a Deployment that was made anew is another one")
	require.Empty(t, failureType(err), "nor is one that was made anew: %v", err)
}
