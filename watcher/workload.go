package watcher

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/siteimage"
)

// workload is what decide needs to know of a site's Deployment.
type workload struct {
	exists bool
	// deleting: it exists, but is on its way out.
	deleting bool
	// release is the release annotation of the pod template; empty on a Deployment that drupdate never wrote to.
	release string
	// matches: every container of the site has the image of that release.
	matches bool
	// moved: they have it, but of another repository than the spec names now. That is for a run to change, not for a put-back.
	moved        bool
	available    bool
	scaledToZero bool
	paused       bool
	// missing is a container that the spec names and the pod template lacks.
	missing string
	// conflict says who else has the Deployment, as a sentence.
	conflict string
}

// observe derives the workload from a Deployment (nil if absent) and from all sites that name it.
func observe(site *v1alpha1.DrupalSite, dep *appsv1.Deployment, rivals []v1alpha1.DrupalSite) workload {
	w := workload{conflict: conflict(site, dep, rivals)}
	if dep == nil {
		return w
	}
	w.exists = true
	w.deleting = dep.DeletionTimestamp != nil
	w.release = dep.Spec.Template.Annotations[v1alpha1.AnnotationRelease]
	w.scaledToZero = dep.Spec.Replicas != nil && *dep.Spec.Replicas == 0
	w.paused = dep.Spec.Paused
	w.available = dep.Status.AvailableReplicas > 0 && !w.scaledToZero && !w.deleting
	w.missing = missingContainer(site, dep)
	w.matches = w.release != "" && w.missing == "" && siteimage.Matches(site, &dep.Spec.Template, w.release)
	w.moved = w.release != "" && w.missing == "" && !w.matches && elsewhere(site, dep, w.release)
	return w
}

// elsewhere tells whether every container of the site runs the release, of whatever repository.
func elsewhere(site *v1alpha1.DrupalSite, dep *appsv1.Deployment, release string) bool {
	for _, name := range site.SiteContainers() {
		c := siteimage.Container(&dep.Spec.Template, name)
		if c == nil || !strings.HasSuffix(c.Image, ":"+release) && !strings.HasSuffix(c.Image, "@"+release) {
			return false
		}
	}
	return true
}

// missingContainer is the first container that the spec names and the pod template lacks, or "".
func missingContainer(site *v1alpha1.DrupalSite, dep *appsv1.Deployment) string {
	for _, name := range append([]string{site.Spec.Runtime.Container}, site.SiteContainers()...) {
		if siteimage.Container(&dep.Spec.Template, name) == nil {
			return name
		}
	}
	return ""
}

// conflict says, as a sentence, who else has the site's Deployment; empty means that this site has it.
// Exactly one of the sites that name a Deployment has it: its controller, else the one that its annotation names,
// else the oldest.
func conflict(site *v1alpha1.DrupalSite, dep *appsv1.Deployment, rivals []v1alpha1.DrupalSite) string {
	if dep != nil {
		if owner := metav1.GetControllerOf(dep); owner != nil {
			if owner.UID == site.UID {
				return ""
			}
			return fmt.Sprintf("Deployment %q is controlled by %s %q; nothing of it is touched.", site.WorkloadName(), owner.Kind, owner.Name)
		}
	}
	holder := site
	for i := range rivals {
		if rival := &rivals[i]; rival.DeletionTimestamp == nil && rival.WorkloadName() == site.WorkloadName() && precedes(rival, holder, dep) {
			holder = rival
		}
	}
	if holder.Name == site.Name {
		return ""
	}
	return fmt.Sprintf("Deployment %q belongs to DrupalSite %q, which names it as well; nothing of it is touched.", site.WorkloadName(), holder.Name)
}

func precedes(a, b *v1alpha1.DrupalSite, dep *appsv1.Deployment) bool {
	if dep != nil {
		switch dep.Annotations[v1alpha1.AnnotationSite] {
		case a.Name:
			return true
		case b.Name:
			return false
		}
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
