package activities

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// siteKind is the kind of the resource.
const siteKind = "DrupalSite"

// conflictRetries is how often a report reads again after somebody else wrote in between.
const conflictRetries = 5

// errBusy ends a report that is for idle sites only.
var errBusy = errors.New("a run is open")

// WriteReport writes what the worker owns: its share of status, the annotation updateInProgress, an Event, and
// the start of a notification. Each part is skipped where it is already true, so twice is once. A mark is set before the status and cleared after it:
// a site whose status says that a run is under way carries the annotation.
func (a *Activities) WriteReport(ctx context.Context, r update.Report) (update.None, error) {
	var err error
	for range conflictRetries {
		if err = a.report(ctx, r); !apierrors.IsConflict(err) {
			break
		}
	}
	if errors.Is(err, errBusy) {
		return update.None{}, nil
	}
	return update.None{}, err
}

// report is one attempt, from a live read on.
func (a *Activities) report(ctx context.Context, r update.Report) error {
	site, err := a.site(ctx, r.Site)
	if err != nil {
		return err
	}
	if err := admissible(site, r); err != nil {
		return err
	}
	r = seen(site, r)
	if r.InProgress == update.MarkSet {
		if err := a.mark(ctx, site, true); err != nil {
			return err
		}
	}
	if err := a.writeStatus(ctx, site, r); err != nil {
		return err
	}
	if r.InProgress == update.MarkClear {
		if err := a.mark(ctx, site, false); err != nil {
			return err
		}
	}
	if r.Event != nil {
		if err := a.event(ctx, site, r); err != nil {
			return err
		}
	}
	return a.notify(ctx, site, r)
}

// seen leaves the record of a site that is half way alone where the run could not look at it.
func seen(site *v1alpha1.DrupalSite, r update.Report) update.Report {
	if r.Blind && site.InProgress() {
		r.RunID, r.Phase, r.Finished = "", "", false
	}
	return r
}

// admissible refuses a report that is for idle sites only, or of a run that is behind its site.
func admissible(site *v1alpha1.DrupalSite, r update.Report) error {
	if r.OnlyIdle && site.InProgress() {
		return errBusy
	}
	return known(site, r.Known, r.Operation, r.KnownRuns)
}

// known refuses a run that is behind its site: it was reset to a point before what another run, or itself, did since.
func known(site *v1alpha1.DrupalSite, operation, next *string, runs []string) error {
	if err := operationKnown(site, operation, next); err != nil {
		return err
	}
	if run := site.Status.Run; len(runs) > 0 && run != nil && run.RunID != "" && !slices.Contains(runs, run.RunID) {
		return permanent(update.FailureOperationOpen, "the run %q has changed the site since this one looked at it", run.RunID)
	}
	return nil
}

// operationKnown refuses a run that does not know of the operation that the resource names. next is the operation that the
// caller is about to write, if any: it may have been written by an earlier attempt.
func operationKnown(site *v1alpha1.DrupalSite, known, next *string) error {
	if known == nil || site.Status.Run == nil {
		return nil
	}
	open := site.Status.Run.Operation
	if open == "" || open == *known || (next != nil && open == *next) {
		return nil
	}
	return permanent(update.FailureOperationOpen, "the database operation %q is open and must be settled first", open)
}

// writeStatus applies the worker's share of status if the report changes it. The resource version makes it fail with a
// conflict when anybody wrote since the read.
func (a *Activities) writeStatus(ctx context.Context, site *v1alpha1.DrupalSite, r update.Report) error {
	before := owned(site)
	after := owned(site)
	change(&after, r, site, a.clock.Now())
	if link := a.runURL(r); link != "" {
		after.Run.URL = link
	}
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	body, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&after)
	if err != nil {
		return fmt.Errorf("encode status of %q: %w", r.Site, err)
	}
	object := siteObject(site)
	object.SetResourceVersion(site.ResourceVersion)
	if err := unstructured.SetNestedMap(object.Object, body, "status"); err != nil {
		return fmt.Errorf("encode status of %q: %w", r.Site, err)
	}
	err = a.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(v1alpha1.ManagerWorker), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write status of %q: %w", r.Site, a.goneIfMissing(err, r.Site))
	}
	a.count(before, after, r)
	told(ctx, before, after)
	if err := a.enforce(ctx, object, after); err != nil {
		return fmt.Errorf("write status of %q: %w", r.Site, err)
	}
	site.SetResourceVersion(object.GetResourceVersion())
	return nil
}

// runURL is the page of the run that a report is of; empty where it is not known.
func (a *Activities) runURL(r update.Report) string {
	if a.runsURL == "" || r.WorkflowID == "" || r.RunID == "" {
		return ""
	}
	return fmt.Sprintf("%s/workflows/%s/%s/history", a.runsURL, url.PathEscape(r.WorkflowID), r.RunID)
}

// enforce looks at what came of an apply. A field that a person set by hand is theirs as well, and an apply that leaves
// it out does not remove it: the worker's share is then written as a whole.
func (a *Activities) enforce(ctx context.Context, object *unstructured.Unstructured, want ownedStatus) error {
	site := &v1alpha1.DrupalSite{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, site); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(owned(site), want) {
		return nil
	}
	patch := client.MergeFromWithOptions(site.DeepCopy(), client.MergeFromWithOptimisticLock{})
	want.overwrite(site)
	if err := a.client.Status().Patch(ctx, site, patch, client.FieldOwner(v1alpha1.ManagerWorker)); err != nil {
		return err
	}
	object.SetResourceVersion(site.ResourceVersion)
	return nil
}

// mark sets or clears the annotation updateInProgress by a narrow apply. Whoever else set it by hand shares the field,
// and an apply that leaves it out does not remove it then: a merge patch does.
func (a *Activities) mark(ctx context.Context, site *v1alpha1.DrupalSite, on bool) error {
	if on == site.InProgress() && (on || site.Annotations[v1alpha1.AnnotationUpdateInProgress] == "") {
		return nil
	}
	object := siteObject(site)
	if on {
		object.SetAnnotations(map[string]string{v1alpha1.AnnotationUpdateInProgress: "true"})
	}
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(v1alpha1.ManagerWorker), client.ForceOwnership)
	if err == nil && !on && object.GetAnnotations()[v1alpha1.AnnotationUpdateInProgress] != "" {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, site.UID, v1alpha1.AnnotationUpdateInProgress)
		err = a.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(v1alpha1.ManagerWorker))
	}
	if err != nil {
		return fmt.Errorf("write annotation %q of %s/%s: %w", v1alpha1.AnnotationUpdateInProgress, site.Namespace, site.Name,
			a.goneIfMissing(err, update.Site{Namespace: site.Namespace, Name: site.Name}))
	}
	site.SetResourceVersion(object.GetResourceVersion())
	site.SetAnnotations(object.GetAnnotations())
	return nil
}

// goneIfMissing turns the NotFound of a site that was there a moment ago into its failure type.
func (a *Activities) goneIfMissing(err error, s update.Site) error {
	if apierrors.IsNotFound(err) {
		return permanent(update.FailureSiteGone, "site %q is deleted", s)
	}
	return err
}

// siteObject is the start of an apply to the site. The UID keeps an apply from making a site anew that was just deleted.
func siteObject(site *v1alpha1.DrupalSite) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(siteKind))
	object.SetNamespace(site.Namespace)
	object.SetName(site.Name)
	object.SetUID(site.UID)
	return object
}
