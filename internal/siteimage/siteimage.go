// Package siteimage knows how a release shows in a pod template: in the images
// of the site's containers and in the release annotation. It recognizes a
// release, and builds the one narrow write that drupdate makes to a Deployment
// that exists.
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
		if c := Container(&dep.Spec.Template, name); c != nil && !slices.Contains(names, name) {
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

// Carries tells whether a pod template is of a release: by our annotation, and by the image of every container that runs
// the site's image.
func Carries(site *v1alpha1.DrupalSite, template *corev1.PodTemplateSpec, release string) bool {
	return release != "" && template.Annotations[v1alpha1.AnnotationRelease] == release && Matches(site, template, release)
}

// Matches tells whether every container that runs the site's image runs it at a release. A container that is missing does not.
func Matches(site *v1alpha1.DrupalSite, template *corev1.PodTemplateSpec, release string) bool {
	for _, name := range site.SiteContainers() {
		if c := Container(template, name); c == nil || !isRelease(site, c.Image, release) {
			return false
		}
	}
	return true
}

// isRelease tells whether an image is a release's. An admission webhook may have pinned the tag to a digest
// (repo@sha256:… or repo:tag@sha256:…); taking that for drift would undo and redo it for ever.
func isRelease(site *v1alpha1.DrupalSite, image, release string) bool {
	want := site.ImageFor(release)
	if image == want || strings.HasPrefix(image, want+"@sha256:") {
		return true
	}
	pinnable := !strings.Contains(want, "@")
	return pinnable && strings.HasPrefix(image, site.Spec.Image+"@sha256:")
}

// Container is the container of a pod template that has a name, or nil.
func Container(template *corev1.PodTemplateSpec, name string) *corev1.Container {
	for i := range template.Spec.Containers {
		if c := &template.Spec.Containers[i]; c.Name == name {
			return c
		}
	}
	return nil
}
