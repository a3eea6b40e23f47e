package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// follower keeps sites as the cluster has them, by one watch that is begun again whenever it ends.
type follower struct {
	cache kube.Reader
	ns    string
	// changed has an entry when something changed since it was last taken.
	changed chan struct{}

	mu sync.Mutex
	// trouble is why the watch does not run; nil while it does.
	trouble error
}

// follow begins to follow the sites of a namespace, or of all; with a name only that one. It ends with the context.
func (s *session) follow(ctx context.Context, ns, name string) (*follower, error) {
	config, err := s.restConfig()
	if err != nil {
		return nil, err
	}
	f := &follower{ns: ns, changed: make(chan struct{}, 1)}
	by := cache.ByObject{}
	if name != "" {
		by.Field = fields.OneTermEqualSelector("metadata.name", name)
	}
	options := cache.Options{
		Scheme: scheme(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:                 map[kube.Object]cache.ByObject{&v1alpha1.DrupalSite{}: by},
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) { f.failed(s.explain(err)) },
	}
	if ns != "" {
		options.DefaultNamespaces = map[string]cache.Config{ns: {}}
	}
	store, err := cache.New(config, options)
	if err != nil {
		return nil, err
	}
	informer, err := store.GetInformer(ctx, &v1alpha1.DrupalSite{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	wake := func() {
		f.failed(nil)
		f.wake()
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	})
	if err != nil {
		return nil, fmt.Errorf("watch sites: %w", err)
	}
	go func() { _ = store.Start(ctx) }() // It ends with the context, and fails by the handler above.
	if !store.WaitForCacheSync(ctx) {
		return nil, errors.Join(f.fault(), ctx.Err())
	}
	f.cache = store
	return f, nil
}

func (f *follower) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = err
}

func (f *follower) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trouble
}

func (f *follower) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// sites are the sites as they are, in order.
func (f *follower) sites(ctx context.Context) ([]v1alpha1.DrupalSite, error) {
	var found v1alpha1.DrupalSiteList
	if err := f.cache.List(ctx, &found, kube.InNamespace(f.ns)); err != nil {
		return nil, err
	}
	inOrder(found.Items)
	return found.Items, nil
}
