package watcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// serverTextLimit is how many bytes of the API server's answer a condition repeats.
const serverTextLimit = 512

// findings are the facts beside the workload that Ready depends on.
type findings struct {
	// terminating: the namespace is being deleted.
	terminating bool
	// rejected says which child the API server refused, and why; as a sentence.
	rejected string
	// secret is the name of the database Secret, if it is missing.
	secret string
	// stale: the cache is behind, and what is absent there is looked at again soon.
	stale bool
	// unscheduled says why Temporal does not take the schedule of backups; as a sentence.
	unscheduled string
}

// ensureChildren creates what is absent of the site's children; what exists is left alone, whoever made it. It tells
// what the API server refused; every other error is returned. Calling it twice is safe.
func (r *Reconciler) ensureChildren(ctx context.Context, v *view) (findings, error) {
	var selector map[string]string
	if v.deployment != nil && v.deployment.Spec.Selector != nil {
		selector = v.deployment.Spec.Selector.MatchLabels
	}
	objects, err := children(v.site, selector)
	if err != nil {
		// The schema keeps this out; a CRD that was tampered with may not. Only another spec helps, and its event comes.
		return findings{rejected: fmt.Sprintf("The children of the site cannot be made: %s.", clip(err.Error()))}, reconcile.TerminalError(err)
	}
	stale := false
	if v.deployment == nil {
		// The cache may not know yet to which release a run has moved the database, nor that the site is going.
		fresh, err := r.confirm(ctx, v)
		if err != nil {
			return findings{}, err
		}
		if stale = fresh == nil || fresh.site.DeletionTimestamp != nil || fresh.deployment != nil; !stale {
			objects = append(objects, deployment(fresh.site, ensured(fresh.site)))
		}
	}
	found, err := r.createAbsent(ctx, v, objects)
	found.stale = stale
	return found, err
}

// createAbsent goes on to the next object when one is refused, so that the site gets as much as it can. A refused one is
// left out for a while, unless the spec changes.
func (r *Reconciler) createAbsent(ctx context.Context, v *view, objects []client.Object) (findings, error) {
	last, next := v.memo.refusal, refusal{objects: map[string]bool{}, generation: v.site.Generation, until: r.now().Add(refusedRetry)}
	var failures []error
	for _, obj := range objects {
		id := r.kindOf(obj) + "/" + obj.GetName()
		if last.holds(id, v.site.Generation, r.now()) {
			next.objects[id], next.text, next.until = true, last.text, last.until
			continue
		}
		err := r.createIfAbsent(ctx, v, obj)
		switch {
		case err == nil:
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return findings{terminating: true}, nil
		case refused(err):
			next.objects[id] = true
			if next.text == "" {
				next.text = fmt.Sprintf("The API server refused to create %s %q: %s", r.kindOf(obj), obj.GetName(), clip(err.Error()))
			}
		default:
			failures = append(failures, fmt.Errorf("create %s: %q: %w", r.kindOf(obj), obj.GetName(), err))
		}
	}
	v.memo.refusal = next
	return findings{rejected: next.text}, errors.Join(failures...)
}

func (r *Reconciler) createIfAbsent(ctx context.Context, v *view, obj client.Object) error {
	if _, isDeployment := obj.(*appsv1.Deployment); !isDeployment {
		exists, err := r.exists(ctx, r.client, obj)
		if err != nil || exists {
			return err
		}
	}
	if err := r.client.Create(ctx, obj, client.FieldOwner(v1alpha1.ManagerWatcher)); err != nil {
		// The cache may lag behind; who made it meanwhile does not matter.
		return client.IgnoreAlreadyExists(err)
	}
	if dep, ok := obj.(*appsv1.Deployment); ok {
		v.deployment = dep
		v.workload = observe(v.site, dep, nil)
		r.event(v.site, corev1.EventTypeNormal, "DeploymentCreated", "Create", "Created Deployment %s with release %s", dep.Name, v.workload.release)
		return nil
	}
	r.event(v.site, corev1.EventTypeNormal, "ChildCreated", "Create", "Created %s %s", r.kindOf(obj), obj.GetName())
	return nil
}

// exists looks at an object's metadata only: the caches of children hold no more, and a Secret is nobody's business.
func (r *Reconciler) exists(ctx context.Context, reader client.Reader, obj client.Object) (bool, error) {
	gvk, err := apiutil.GVKForObject(obj, r.client.Scheme())
	if err != nil {
		return false, err
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(gvk)
	if err := reader.Get(ctx, client.ObjectKeyFromObject(obj), meta); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return true, nil
}

// missingSecret is the name of the database Secret if it does not exist. It is asked for live, and only while no pod is
// available: a site that serves has read its Secret.
func (r *Reconciler) missingSecret(ctx context.Context, v *view) (string, error) {
	db := v.site.Spec.Database
	if db == nil || v.workload.available || v.workload.scaledToZero {
		return "", nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v.site.Namespace, Name: db.SecretName}}
	exists, err := r.exists(ctx, r.live, secret)
	if err != nil {
		return "", fmt.Errorf("look for Secret: %q: %w", db.SecretName, err)
	}
	if exists {
		return "", nil
	}
	return db.SecretName, nil
}

func (r *Reconciler) kindOf(obj client.Object) string {
	gvk, err := apiutil.GVKForObject(obj, r.client.Scheme())
	if err != nil {
		return "object"
	}
	return gvk.Kind
}

// refused tells whether the API server will give the same answer again: the object is invalid, or rules or quotas forbid it.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	transient := apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
	return code >= 400 && code < 500 && !transient
}

// clip makes one line of at most serverTextLimit bytes of a text from elsewhere.
func clip(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= serverTextLimit {
		return text
	}
	cut := serverTextLimit - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
