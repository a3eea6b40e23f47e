package siteimage_test

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/siteimage"
)

func FuzzMatches(f *testing.F) {
	for _, image := range []string{
		"r.example/d:1", "r.example/d:1@" + digest, "r.example/d@" + digest, "r.example/d:10", "r.example:5000/d:1", "r.example/d/e:1", "", ":", "@",
	} {
		f.Add("r.example/d", "1", image)
		f.Add("r.example/d", digest, image)
	}
	f.Fuzz(func(t *testing.T, repository, release, image string) {
		site := &v1alpha1.DrupalSite{Spec: v1alpha1.DrupalSiteSpec{Image: repository, Runtime: v1alpha1.RuntimeSpec{Container: "drupal"}}}
		is := func(image string) bool {
			return siteimage.Matches(site, &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "drupal", Image: image}}}}, release)
		}
		if !is(site.ImageFor(release)) {
			t.Fatal("a release is not its own image")
		}
		if release == "" || strings.ContainsAny(release, ":@") && !strings.HasPrefix(release, "sha256:") {
			return // the schema refuses it
		}
		if !is(image) {
			return
		}
		rest, ours := strings.CutPrefix(image, repository)
		if !ours {
			t.Fatalf("%q is of another repository than %q", image, repository)
		}
		tag, pinned, _ := strings.Cut(rest, "@")
		switch {
		case strings.HasPrefix(release, "sha256:") && len(release) > len("sha256:"):
			if tag != "" || pinned != release {
				t.Fatalf("%q is not the digest %q", image, release)
			}
		case tag != "" && tag != ":"+release:
			t.Fatalf("%q is another tag than %q", image, release)
		case tag == "" && !strings.HasPrefix(pinned, "sha256:"):
			t.Fatalf("%q is neither the tag %q nor pinned", image, release)
		}
	})
}

func FuzzConfiguration(f *testing.F) {
	f.Add([]byte(`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"drupal\"}":{},"k:{\"name\":\"cron\"}":{}}}}}}`), "cron")
	f.Add([]byte(`{"f:spec":{"f:template":null}}`), "cron")
	f.Add([]byte(`{"f:spec":[]}`), `a"b`)
	f.Add([]byte(``), "")
	f.Fuzz(func(t *testing.T, fields []byte, other string) {
		site := &v1alpha1.DrupalSite{Spec: v1alpha1.DrupalSiteSpec{Image: "r.example/d", Runtime: v1alpha1.RuntimeSpec{Container: "drupal"}}}
		dep := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "blog", Namespace: "prod", UID: "u1", ResourceVersion: "7"}}
		dep.Spec.Template.Spec.Containers = []corev1.Container{{Name: "drupal", Image: "r.example/d:1"}, {Name: other, Image: "kept"}}
		dep.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: v1alpha1.ManagerImage, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(string(fields)),
		}}
		raw, err := json.Marshal(siteimage.Configuration(site, dep, "2"))
		if err != nil {
			t.Fatal(err)
		}
		var body appsv1.Deployment
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatal(err)
		}
		if body.UID != "u1" || len(body.Spec.Template.Spec.Containers) > 2 {
			t.Fatalf("not the narrow write: %s", raw)
		}
		for i, c := range body.Spec.Template.Spec.Containers {
			if i == 0 && (c.Name != "drupal" || c.Image != "r.example/d:2") || i > 0 && c.Image != "kept" {
				t.Fatalf("container %d: %s", i, raw)
			}
		}
	})
}
