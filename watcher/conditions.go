package watcher

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// owned are the conditions that the watcher writes; the worker writes the others.
var owned = []string{v1alpha1.ConditionReady, v1alpha1.ConditionPaused, v1alpha1.ConditionOrchestratorUnavailable, v1alpha1.ConditionBackupsUnscheduled}

// conditions are those of the site that the watcher owns. All but Ready are absent unless they hold.
func conditions(site *v1alpha1.DrupalSite, w workload, found findings, unreachable bool) []metav1.Condition {
	list := []metav1.Condition{ready(site, w, found)}
	if site.Spec.Update.Paused {
		list = append(list, metav1.Condition{
			Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPaused,
			Message: "No update starts while spec.update.paused is true.",
		})
	}
	if unreachable {
		list = append(list, metav1.Condition{
			Type: v1alpha1.ConditionOrchestratorUnavailable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTemporalUnreachable,
			Message: "Temporal cannot be reached; the site keeps serving, and updates wait.",
		})
	}
	if found.unscheduled != "" {
		list = append(list, metav1.Condition{
			Type: v1alpha1.ConditionBackupsUnscheduled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonScheduleRefused, Message: found.unscheduled,
		})
	}
	for i := range list {
		list[i].ObservedGeneration = site.Generation
	}
	return list
}

// ready computes the condition Ready, which is computed nowhere else. It is True while a pod is available, whatever
// else is wrong, except where it is not the site's pod, or not one that drupdate can work with; the reason names the
// most basic problem.
func ready(site *v1alpha1.DrupalSite, w workload, found findings) metav1.Condition {
	name := site.WorkloadName()
	switch {
	case found.terminating:
		return notReady(v1alpha1.ReasonNamespaceTerminating, "The namespace is being deleted; nothing can be created in it.")
	case w.conflict != "":
		return notReady(v1alpha1.ReasonWorkloadConflict, w.conflict)
	case !w.exists:
		return absent(name, found)
	case w.deleting:
		return notReady(v1alpha1.ReasonWorkloadMissing, fmt.Sprintf("Deployment %q is being deleted; it is created again afterwards.", name))
	case w.missing != "":
		return notReady(v1alpha1.ReasonContainerMissing, fmt.Sprintf("Deployment %q has no container %q; no update can be made.", name, w.missing))
	case w.scaledToZero:
		return notReady(v1alpha1.ReasonScaledToZero, fmt.Sprintf("Deployment %q is scaled to zero; no update can be made.", name))
	case w.available:
		return serving(name, w, found)
	}
	return unavailable(name, w, found)
}

// absent is Ready without a Deployment.
func absent(name string, found findings) metav1.Condition {
	if found.rejected != "" {
		return notReady(v1alpha1.ReasonChildRejected, found.rejected)
	}
	return notReady(v1alpha1.ReasonWorkloadMissing, fmt.Sprintf("Deployment %q does not exist.", name))
}

// unavailable is Ready while no pod is available.
func unavailable(name string, w workload, found findings) metav1.Condition {
	switch {
	case found.rejected != "":
		return notReady(v1alpha1.ReasonChildRejected, found.rejected)
	case found.secret != "":
		return notReady(v1alpha1.ReasonSecretMissing, fmt.Sprintf("Secret %q does not exist; the pods wait for it.", found.secret))
	case w.paused:
		return notReady(v1alpha1.ReasonWorkloadPaused, fmt.Sprintf("Deployment %q is paused, and no pod of it is available.", name))
	}
	return notReady(v1alpha1.ReasonUnavailable, fmt.Sprintf("Deployment %q has no available pod.", name))
}

// serving is Ready while a pod is available.
func serving(name string, w workload, found findings) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}
	switch {
	case found.rejected != "":
		c.Reason, c.Message = v1alpha1.ReasonChildRejected, found.rejected
	case w.paused:
		c.Reason = v1alpha1.ReasonWorkloadPaused
		c.Message = fmt.Sprintf("A pod serves the site, but Deployment %q is paused; no update can be made.", name)
	default:
		c.Reason = v1alpha1.ReasonAvailable
		c.Message = fmt.Sprintf("Deployment %q has an available pod.", name)
	}
	return c
}

func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// writeStatus writes what the watcher owns of the status, and nothing if that is there already. The object's UID goes
// along, so that a site of the same name that was created meanwhile is not written to.
func (r *Reconciler) writeStatus(ctx context.Context, site *v1alpha1.DrupalSite, want []metav1.Condition, done outcome) error {
	if changed := stamp(site, want, metav1.Time{Time: r.now()}.Rfc3339Copy()); !changed && done.aborted == site.Status.ObservedAbort && done.scheduled == site.Status.ObservedSchedule {
		return nil
	}
	list := make([]any, 0, len(want))
	for i := range want {
		c, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want[i])
		if err != nil {
			return fmt.Errorf("write status: %w", err)
		}
		list = append(list, c)
	}
	status := map[string]any{"observedGeneration": site.Generation, "conditions": list}
	if done.aborted != "" {
		status["observedAbort"] = done.aborted
	}
	if done.scheduled != "" {
		status["observedSchedule"] = done.scheduled
	}
	body := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": site.Namespace, "name": site.Name, "uid": string(site.UID)},
		"status":   status,
	}}
	body.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DrupalSite"))
	err := r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(body),
		client.FieldOwner(v1alpha1.ManagerWatcher), client.ForceOwnership)
	if overtaken(err) {
		// Deleted, or replaced by another site of the name, whose own event comes.
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// stamp sets the transition times, keeping those of conditions whose status stays, and tells whether anything changed.
func stamp(site *v1alpha1.DrupalSite, want []metav1.Condition, now metav1.Time) bool {
	changed := site.Status.ObservedGeneration != site.Generation
	for i := range want {
		old := apimeta.FindStatusCondition(site.Status.Conditions, want[i].Type)
		want[i].LastTransitionTime = now
		if old != nil && old.Status == want[i].Status {
			want[i].LastTransitionTime = old.LastTransitionTime
		}
		changed = changed || old == nil || *old != want[i]
	}
	for _, name := range owned {
		gone := apimeta.FindStatusCondition(want, name) == nil && apimeta.FindStatusCondition(site.Status.Conditions, name) != nil
		changed = changed || gone
	}
	return changed
}
