package watcher

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/kubeerr"
	"github.com/drupdate/drupdate/internal/siteimage"
)

// ensureImage puts the image of the site's containers back to the release that the site is kept at, if it is neither
// there nor a run's business. Somebody who sets it again and again meets a pace that slows down, not a fight.
func (r *Reconciler) ensureImage(ctx context.Context, v *view, d decision) (time.Duration, error) {
	release := putBack(v.site, v.workload, d)
	if release == "" {
		return 0, nil
	}
	if wait := v.memo.image.wait(release, r.now()); wait > 0 {
		return wait, nil
	}
	// The cache may not know yet that a run has begun.
	fresh, err := r.confirm(ctx, v)
	if err != nil || fresh == nil {
		return staleRetry, err
	}
	if putBack(fresh.site, fresh.workload, decide(fresh.site, fresh.workload)) != release {
		return staleRetry, nil
	}
	err = r.client.Apply(ctx, siteimage.Configuration(fresh.site, fresh.deployment, release), client.FieldOwner(v1alpha1.ManagerImage), client.ForceOwnership)
	if overtaken(err) {
		// Changed, deleted or made anew since it was read: its event comes.
		return staleRetry, nil
	}
	if err != nil {
		return 0, fmt.Errorf("put image back: Deployment %q: %w", fresh.deployment.Name, err)
	}
	v.memo.image.done(release, r.now())
	r.event(v.site, corev1.EventTypeNormal, "ImagePutBack", "Update", "Put the image of Deployment %s back to release %s", fresh.deployment.Name, release)
	return 0, nil
}

// overtaken tells whether a write came too late: its object was changed, deleted or made anew since it was read.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || kubeerr.Replaced(err)
}

// adopt makes the site the owner of an existing Deployment that has no controller, if the site asks for it.
func (r *Reconciler) adopt(ctx context.Context, v *view) error {
	dep := v.deployment
	if dep == nil || v.workload.deleting || v.site.Spec.Workload.Owner != v1alpha1.OwnerAdopt || metav1.GetControllerOf(dep) != nil {
		return nil
	}
	// A site that is deleted with --cascade=orphan has just lost this Deployment on purpose, and the cache may not know it yet.
	fresh, err := r.confirm(ctx, v)
	if err != nil || fresh == nil || fresh.site.DeletionTimestamp != nil {
		return err
	}
	owner := metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("DrupalSite").
		WithName(v.site.Name).WithUID(v.site.UID).WithController(true)
	body := appsv1ac.Deployment(dep.Name, dep.Namespace).
		WithUID(dep.UID).WithResourceVersion(dep.ResourceVersion).WithOwnerReferences(owner)
	err = r.client.Apply(ctx, body, client.FieldOwner(v1alpha1.ManagerWatcher), client.ForceOwnership)
	if overtaken(err) {
		// Changed since it was read: its event comes.
		return nil
	}
	if err != nil {
		return fmt.Errorf("adopt Deployment: %q: %w", dep.Name, err)
	}
	r.event(v.site, corev1.EventTypeNormal, "DeploymentAdopted", "Update", "Adopted Deployment %s", dep.Name)
	return nil
}
