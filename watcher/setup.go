package watcher

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// workloadField is the index of sites by the name of their Deployment.
const workloadField = "drupdate.workload"

// Scheme returns a scheme of everything that the watcher reads and writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// ManagerOptions are the options of a manager for the watcher: its scheme and its caches, which are limited to the
// configured namespaces and hold no managed fields. Leader election, metrics and probes are the caller's to add.
func ManagerOptions(cfg Config) ctrl.Options {
	options := ctrl.Options{
		Scheme: Scheme(),
		Cache:  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		// Nothing reads Secrets through this client; should something begin to, it must not cache all of them.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	}
	if len(cfg.Namespaces) > 0 {
		options.Cache.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range cfg.Namespaces {
			options.Cache.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return options
}

// Setup adds the watcher to a manager made with ManagerOptions. It must be called once for each manager, before it is
// started; it returns an error if the configuration is invalid or the manager refuses.
func Setup(mgr ctrl.Manager, cfg Config, starter Starter) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("watcher: %w", err)
	}
	r, err := newReconciler(mgr, starter)
	if err != nil {
		return err
	}
	// No predicate on sites: the worker's status writes and annotations without a new generation wake the watcher.
	// Events of Deployments pass as well, since availability is status.
	err = ctrl.NewControllerManagedBy(mgr).
		Named("drupalsite").
		For(&v1alpha1.DrupalSite{}).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.sitesOf)).
		Owns(&corev1.Service{}, builder.OnlyMetadata, builder.WithPredicates(deletions)).
		Owns(&corev1.PersistentVolumeClaim{}, builder.OnlyMetadata, builder.WithPredicates(deletions)).
		Owns(&corev1.ConfigMap{}, builder.OnlyMetadata, builder.WithPredicates(deletions)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: cfg.concurrency(),
			ReconciliationTimeout:   reconcileTimeout,
			RateLimiter:             failures(),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("watcher: %w", err)
	}
	return nil
}

// failures paces the reconciles that return an error.
func failures() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](failureFirst, failureMost)
}

// newReconciler makes a reconciler that reads from a manager's caches, and the index that it needs.
func newReconciler(mgr ctrl.Manager, starter Starter) (*Reconciler, error) {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.DrupalSite{}, workloadField, indexWorkload); err != nil {
		return nil, fmt.Errorf("watcher: index sites: %w", err)
	}
	return &Reconciler{
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		starter:  starter,
		recorder: mgr.GetEventRecorder(v1alpha1.ManagerWatcher),
		now:      time.Now,
		jitter:   jitter,
	}, nil
}

// deletions lets only deletions pass: nothing else about these children is the watcher's business.
var deletions = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func indexWorkload(obj client.Object) []string {
	site, ok := obj.(*v1alpha1.DrupalSite)
	if !ok {
		return nil
	}
	return []string{site.WorkloadName()}
}

// sitesOf are the sites that a Deployment may belong to: those that name it, its controller, and the one that it names
// itself after. An adopted Deployment has neither owner nor annotation.
func (r *Reconciler) sitesOf(ctx context.Context, obj client.Object) []reconcile.Request {
	names := map[string]bool{}
	var sites v1alpha1.DrupalSiteList
	// The list comes from memory and fails only if the index is missing, which Setup has made.
	if err := r.client.List(ctx, &sites, client.InNamespace(obj.GetNamespace()), client.MatchingFields{workloadField: obj.GetName()}); err == nil {
		for i := range sites.Items {
			names[sites.Items[i].Name] = true
		}
	}
	if owner := metav1.GetControllerOf(obj); owner != nil && owner.Kind == "DrupalSite" {
		names[owner.Name] = true
	}
	if name := obj.GetAnnotations()[v1alpha1.AnnotationSite]; name != "" {
		names[name] = true
	}
	requests := make([]reconcile.Request, 0, len(names))
	for name := range names {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}})
	}
	return requests
}
