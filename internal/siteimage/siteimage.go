// Package siteimage knows which image a release of a site is, and builds the
// one narrow write that drupdate makes to a Deployment that exists: the images
// of the site's containers, and the release annotation of the pod template.
package siteimage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// Is tells whether an image is a release's. An admission webhook may have pinned a tag to a digest (repo@sha256:… or
// repo:tag@sha256:…); taking that for another image would undo and redo it for ever.
func Is(site *v1alpha1.DrupalSite, release, image string) bool {
	want := site.ImageFor(release)
	if image == want {
		return true
	}
	if strings.HasPrefix(release, "sha256:") {
		return false
	}
	return strings.HasPrefix(image, site.Spec.Image+"@sha256:") || strings.HasPrefix(image, want+"@sha256:")
}

// Configuration is the whole of what is ever written to an existing Deployment: the images of the site's containers, and
// the release annotation. UID and resourceVersion make the write fail if the Deployment is not the one that was read.
func Configuration(site *v1alpha1.DrupalSite, dep *appsv1.Deployment, release string) *appsv1ac.DeploymentApplyConfiguration {
	spec := corev1ac.PodSpec()
	names := site.SiteContainers()
	for _, name := range names {
		spec.WithContainers(corev1ac.Container().WithName(name).WithImage(site.ImageFor(release)))
	}
	for _, name := range imagesOwned(dep) {
		// A container that was the site's once, and is not any more: to leave it out would remove its image.
		if c := container(dep, name); c != nil && !slices.Contains(names, name) {
			spec.WithContainers(corev1ac.Container().WithName(name).WithImage(c.Image))
		}
	}
	return appsv1ac.Deployment(dep.Name, dep.Namespace).
		WithUID(dep.UID).WithResourceVersion(dep.ResourceVersion).
		WithSpec(appsv1ac.DeploymentSpec().WithTemplate(corev1ac.PodTemplateSpec().
			WithAnnotations(map[string]string{v1alpha1.AnnotationRelease: release}).
			WithSpec(spec)))
}

// imagesOwned are the containers whose image belongs to our field manager, in the order of the pod template.
func imagesOwned(dep *appsv1.Deployment) []string {
	var names []string
	for _, entry := range dep.ManagedFields {
		if entry.Manager != v1alpha1.ManagerImage || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers map[string]json.RawMessage `json:"f:containers"`
					} `json:"f:spec"`
				} `json:"f:template"`
			} `json:"f:spec"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			// Not in a form that we ever wrote: then it is not ours.
			continue
		}
		for _, c := range dep.Spec.Template.Spec.Containers {
			if _, ok := fields.Spec.Template.Spec.Containers[fmt.Sprintf(`k:{"name":%q}`, c.Name)]; ok {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

func container(dep *appsv1.Deployment, name string) *corev1.Container {
	for i := range dep.Spec.Template.Spec.Containers {
		if c := &dep.Spec.Template.Spec.Containers[i]; c.Name == name {
			return c
		}
	}
	return nil
}
