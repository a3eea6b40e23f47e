package siteimage_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/siteimage"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestAReleaseIsRecognized(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, image, release string
		want                 bool
	}{
		{"the tag", "registry.example/drupal:10.3.6", "10.3.6", true},
		{"another tag", "registry.example/drupal:10.3.5", "10.3.6", false},
		{"a longer tag", "registry.example/drupal:10.3.60", "10.3.6", false},
		{"another repository", "registry.example/other:10.3.6", "10.3.6", false},
		{"a tag that admission pinned", "registry.example/drupal@" + digest, "10.3.6", true},
		{"a tag that admission pinned beside its name", "registry.example/drupal:10.3.6@" + digest, "10.3.6", true},
		{"another tag that admission pinned beside its name", "registry.example/drupal:10.3.5@" + digest, "10.3.6", false},
		{"the digest", "registry.example/drupal@" + digest, digest, true},
		{"another digest", "registry.example/drupal@sha256:b" + digest[8:], digest, false},
		{"a tag instead of the digest", "registry.example/drupal:10.3.6", digest, false},
	}
	site := &v1alpha1.DrupalSite{Spec: v1alpha1.DrupalSiteSpec{Image: "registry.example/drupal", Runtime: v1alpha1.RuntimeSpec{Container: "drupal"}}}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			template := &corev1.PodTemplateSpec{}
			template.Annotations = map[string]string{v1alpha1.AnnotationRelease: c.release}
			template.Spec.Containers = []corev1.Container{{Name: "drupal", Image: c.image}}
			require.Equal(t, c.want, siteimage.Matches(site, template, c.release))
			require.Equal(t, c.want, siteimage.Carries(site, template, c.release))
			template.Annotations = nil
			require.False(t, siteimage.Carries(site, template, c.release), "a template that drupdate never wrote to carries no release")
			template.Spec.Containers = nil
			require.False(t, siteimage.Matches(site, template, c.release), "a container is missing")
		})
	}
}

func TestAContainerThatLeftTheSiteKeepsItsImage(t *testing.T) {
	t.Parallel()
	site := &v1alpha1.DrupalSite{Spec: v1alpha1.DrupalSiteSpec{Image: "r.example/d", Runtime: v1alpha1.RuntimeSpec{Container: "drupal"}}}
	dep := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "blog", Namespace: "prod", UID: "u1", ResourceVersion: "7"}}
	dep.Spec.Template.Spec.Containers = []corev1.Container{{Name: "drupal", Image: "r.example/d:1"}, {Name: "cron", Image: "r.example/d:1"}, {Name: "proxy", Image: "p:9"}}
	dep.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.ManagerImage, Operation: metav1.ManagedFieldsOperationApply,
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"drupal\"}":{},"k:{\"name\":\"cron\"}":{}}}}}}`),
	}}
	raw, err := json.Marshal(siteimage.Configuration(site, dep, "2"))
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"Deployment","apiVersion":"apps/v1",
		"metadata":{"name":"blog","namespace":"prod","uid":"u1","resourceVersion":"7"},
		"spec":{"template":{"metadata":{"annotations":{"drupdate.dev/release":"2"}},
		"spec":{"containers":[{"name":"drupal","image":"r.example/d:2"},{"name":"cron","image":"r.example/d:1"}]}}}}`, string(raw))
}
