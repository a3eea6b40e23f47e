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
