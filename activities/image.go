package activities

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/siteimage"
	"github.com/drupdate/drupdate/internal/update"
)

// errNoDeployment waits for the watcher, which creates children.
var errNoDeployment = errors.New("the Deployment does not exist: waiting for the watcher to create it")

// SetRelease sets image and annotation of the site's Deployment. A Deployment that has them already is not written. A
// Deployment of another UID than asked for, or none, gives Replaced; where any will do, a missing one is waited for.
func (a *Activities) SetRelease(ctx context.Context, c update.Change) (update.Change, error) {
	waited := a.listen(ctx)
	site, err := a.site(ctx, c.Site)
	if err != nil {
		return update.Change{}, err
	}
	if err := known(site, c.Known, nil, c.KnownRuns); err != nil {
		return update.Change{}, err
	}
	d, err := a.deployment(ctx, site)
	if err != nil {
		return update.Change{}, err
	}
	switch {
	case d == nil && c.UID == "":
		return update.Change{}, waited.tooLong(ctx, errNoDeployment)
	case d == nil, c.UID != "" && c.UID != string(d.UID):
		c.Replaced = true
		return c, nil
	}
	generation, err := a.apply(ctx, site, d, c.Release)
	if err != nil {
		return update.Change{}, err
	}
	c.Site.UID = string(site.UID)
	c.UID, c.Generation, c.Known, c.KnownRuns = string(d.UID), generation, nil, nil
	return c, nil
}

// apply makes a Deployment's pod template carry a release, unless it does. It returns the generation to wait for. UID
// keeps the apply from making a Deployment of nothing but an image when the real one was just deleted.
func (a *Activities) apply(ctx context.Context, site *v1alpha1.DrupalSite, d *appsv1.Deployment, release string) (int64, error) {
	if who := taken(site, d); who != "" {
		return 0, permanent(update.FailureWorkloadConflict, "set image: Deployment %q belongs to %s", d.Name, who)
	}
	if siteimage.Carries(site, &d.Spec.Template, release) {
		return d.Generation, nil
	}
	object, err := imageObject(site, d, release)
	if err != nil {
		return 0, err
	}
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(v1alpha1.ManagerImage), client.ForceOwnership)
	if err != nil {
		return 0, fmt.Errorf("set image of Deployment %q to %q: %w", d.Name, site.ImageFor(release), err)
	}
	return object.GetGeneration(), nil
}

// imageObject is the narrow body. A container that the template lacks is never added.
func imageObject(site *v1alpha1.DrupalSite, d *appsv1.Deployment, release string) (*unstructured.Unstructured, error) {
	for _, name := range site.SiteContainers() {
		if siteimage.Container(&d.Spec.Template, name) == nil {
			return nil, permanent(update.FailureContainerMissing, "set image: Deployment %q has no container %q", d.Name, name)
		}
	}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(siteimage.Configuration(site, d, release))
	if err != nil {
		return nil, fmt.Errorf("set image: Deployment %q: %w", d.Name, err)
	}
	object := &unstructured.Unstructured{Object: raw}
	// The Deployment controller writes status all the time; a run owns the image, whatever else changed.
	object.SetResourceVersion("")
	return object, nil
}
