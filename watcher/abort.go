package watcher

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// abort makes the signal abort of a new value of the annotation drupdate.dev/abort, once for each value. A value that
// meets no open run is acted on all the same: it must not hit a later run. While Temporal cannot be reached it stays new.
func (r *Reconciler) abort(ctx context.Context, v *view, done *outcome) error {
	done.aborted = v.site.Status.ObservedAbort
	asked := v.site.Annotations[v1alpha1.AnnotationAbort]
	if asked == "" || asked == done.aborted {
		return nil
	}
	if asked == v.memo.aborted {
		done.aborted = asked
		return nil
	}
	site := siteOf(v.site)
	var open bool
	err := r.call(ctx, func(ctx context.Context) error {
		var err error
		open, err = r.starter.Abort(ctx, site)
		return err
	})
	if errors.Is(err, ErrUnavailable) {
		done.unreachable = true
		done.after = soonest(done.after, r.breaker.retryIn(r.now()))
		return nil
	}
	if err != nil {
		return err
	}
	v.memo.aborted, done.aborted = asked, asked
	if open {
		r.event(v.site, corev1.EventTypeNormal, "AbortRequested", "Update", "Abort of the open run requested")
	}
	log.FromContext(ctx).Info("abort requested", "workflowID", site.UpdateID(), "open", open)
	return nil
}
