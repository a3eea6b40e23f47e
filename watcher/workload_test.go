package watcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestObserve(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		site siteEdit
		dep  func(*appsv1.Deployment)
		want workload
	}{
		{"one that serves", nil, nil, workload{exists: true, release: "10.3.6", matches: true, available: true}},
		{"no available pod", nil, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }, workload{exists: true, release: "10.3.6", matches: true}},
		{
			"zero replicas do not serve, whatever the status still says", nil, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) },
			workload{exists: true, release: "10.3.6", matches: true, scaledToZero: true},
		},
		{"absent replicas are one", nil, func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, workload{exists: true, release: "10.3.6", matches: true, available: true}},
		{"paused", nil, func(d *appsv1.Deployment) { d.Spec.Paused = true }, workload{exists: true, release: "10.3.6", matches: true, available: true, paused: true}},
		{
			"being deleted", nil, func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{Time: epoch} },
			workload{exists: true, release: "10.3.6", matches: true, deleting: true},
		},
		{"no annotation", nil, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil }, workload{exists: true, available: true}},
		{
			"an image edited by hand", nil, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil:1" },
			workload{exists: true, release: "10.3.6", available: true},
		},
		{"a sidecar is nobody's business", nil, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append([]corev1.Container{{Name: "proxy", Image: "envoy:1"}}, d.Spec.Template.Spec.Containers...)
		}, workload{exists: true, release: "10.3.6", matches: true, available: true}},
		{
			"the drush container is missing", nil, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Name = "web" },
			workload{exists: true, release: "10.3.6", available: true, missing: "drupal"},
		},
		{
			"another container of the site is missing", func(s *v1alpha1.DrupalSite) { s.Spec.Workload.Containers = []string{"drupal", "cron"} }, nil,
			workload{exists: true, release: "10.3.6", available: true, missing: "cron"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site := newSite()
			if c.site != nil {
				c.site(site)
			}
			dep := newDeployment(site, "10.3.6")
			if c.dep != nil {
				c.dep(dep)
			}
			require.Equal(t, c.want, observe(site, dep, nil))
		})
	}
	require.Equal(t, workload{}, observe(newSite(), nil, nil))
}

func TestExactlyOneSiteHasADeployment(t *testing.T) {
	t.Parallel()
	site := func(name string, age time.Duration) v1alpha1.DrupalSite {
		s := newSite()
		s.Name, s.UID, s.Spec.Workload.Name = name, types.UID("uid-"+name), "web"
		s.CreationTimestamp = metav1.NewTime(epoch.Add(-age))
		return *s
	}
	plain := func() *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "web"}}
	}
	owned := func(kind, name string) *appsv1.Deployment {
		d := plain()
		d.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: ptr.To(true)}}
		return d
	}
	noted := plain()
	noted.Annotations = map[string]string{v1alpha1.AnnotationSite: "b"}
	gone := site("a", time.Hour)
	gone.DeletionTimestamp = &metav1.Time{Time: epoch}
	cases := []struct {
		name  string
		sites []v1alpha1.DrupalSite
		dep   *appsv1.Deployment
		want  []string
	}{
		{"one site, no Deployment", []v1alpha1.DrupalSite{site("a", 0)}, nil, []string{"a"}},
		{"the oldest, without a Deployment", []v1alpha1.DrupalSite{site("a", 0), site("b", time.Hour), site("c", 0)}, nil, []string{"b"}},
		{"the first by name among equals", []v1alpha1.DrupalSite{site("b", 0), site("a", 0)}, plain(), []string{"a"}},
		{"the controller, though it is younger", []v1alpha1.DrupalSite{site("a", time.Hour), site("b", 0)}, owned("DrupalSite", "b"), []string{"b"}},
		{"the one that the annotation names", []v1alpha1.DrupalSite{site("a", time.Hour), site("b", 0)}, noted, []string{"b"}},
		{"nobody, if another kind controls it", []v1alpha1.DrupalSite{site("a", time.Hour), site("b", 0)}, owned("Rollout", "web"), nil},
		{"not the one that is being deleted", []v1alpha1.DrupalSite{gone, site("b", 0)}, plain(), []string{"b"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var have []string
			for i := range c.sites {
				if s := &c.sites[i]; s.DeletionTimestamp == nil && conflict(s, c.dep, c.sites) == "" {
					have = append(have, s.Name)
				}
			}
			require.Equal(t, c.want, have)
		})
	}
	b := site("b", 0)
	require.Equal(t, `Deployment "web" belongs to DrupalSite "a", which names it as well; nothing of it is touched.`,
		conflict(&b, nil, []v1alpha1.DrupalSite{site("a", time.Hour), b}))
	require.Equal(t, `Deployment "web" is controlled by Rollout "web"; nothing of it is touched.`, conflict(&b, owned("Rollout", "web"), nil))
}
