package activities

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// lookup reads the site, live. It is nil when the site is gone: not there, being deleted, or another one of that name.
func (a *Activities) lookup(ctx context.Context, s update.Site) (*v1alpha1.DrupalSite, error) {
	if err := a.serves(s); err != nil {
		return nil, err
	}
	site := &v1alpha1.DrupalSite{}
	err := a.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, site)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // A site that is gone is an answer, not an error.
	case err != nil:
		return nil, fmt.Errorf("read site %q: %w", s, err)
	case site.DeletionTimestamp != nil, s.UID != "" && s.UID != string(site.UID):
		return nil, nil //nolint:nilnil // As above.
	}
	return site, nil
}

// serves returns a permanent error for a site of a namespace that this worker has no business in: whoever can write to
// Temporal can start a run for any name.
func (a *Activities) serves(s update.Site) error {
	if len(a.namespaces) == 0 || slices.Contains(a.namespaces, s.Namespace) {
		return nil
	}
	return permanent(update.FailureForbidden, "site %q: this worker does not serve its namespace", s)
}

// site reads the site for a step that makes no sense without it.
func (a *Activities) site(ctx context.Context, s update.Site) (*v1alpha1.DrupalSite, error) {
	site, err := a.lookup(ctx, s)
	if err == nil && site == nil {
		return nil, permanent(update.FailureSiteGone, "site %q is deleted", s)
	}
	return site, err
}

// deployment reads the site's Deployment, live; nil when there is none, or it is being deleted.
func (a *Activities) deployment(ctx context.Context, site *v1alpha1.DrupalSite) (*appsv1.Deployment, error) {
	key := client.ObjectKey{Namespace: site.Namespace, Name: site.WorkloadName()}
	d := &appsv1.Deployment{}
	err := a.client.Get(ctx, key, d)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // A missing Deployment is an answer, not an error.
	case err != nil:
		return nil, fmt.Errorf("read Deployment %q: %w", key, err)
	case d.DeletionTimestamp != nil:
		return nil, nil //nolint:nilnil // As above.
	}
	return d, nil
}

// suspended says why a Deployment does not roll out: empty when it does.
func suspended(d *appsv1.Deployment) string {
	switch {
	case d.Spec.Paused:
		return "the Deployment is paused"
	case replicas(d) == 0:
		return "the Deployment is scaled to zero"
	}
	return ""
}

// replicas is the number of pods asked for; unset means 1.
func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func available(d *appsv1.Deployment) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable {
			return c.Status == corev1.ConditionTrue && d.Status.AvailableReplicas > 0
		}
	}
	return false
}

// taken says who else has the Deployment: another site, or another controller. Empty when nobody has.
func taken(site *v1alpha1.DrupalSite, d *appsv1.Deployment) string {
	if name := d.Labels[v1alpha1.LabelSite]; name != "" && name != site.Name {
		return fmt.Sprintf("site %q", name)
	}
	owner := metav1.GetControllerOf(d)
	if owner == nil || owner.UID == site.UID {
		return ""
	}
	return fmt.Sprintf("%s %q", owner.Kind, owner.Name)
}
