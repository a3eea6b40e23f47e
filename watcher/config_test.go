package watcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/internal/update"
)

func TestConfigListsEveryProblem(t *testing.T) {
	t.Parallel()
	require.NoError(t, Config{}.Validate())
	require.NoError(t, Config{Namespaces: []string{"a", "b"}, Concurrency: 64}.Validate())
	err := Config{Concurrency: 65, Namespaces: []string{"Shops", "a", "a"}}.Validate()
	require.ErrorContains(t, err, "concurrency: 65")
	require.ErrorContains(t, err, `namespace: "Shops"`)
	require.ErrorContains(t, err, `namespace: "a": named twice`)
	require.Equal(t, update.TaskQueue, Config{}.taskQueue())
	require.Equal(t, DefaultConcurrency, Config{}.concurrency())
}

func TestManagerCachesTheConfiguredNamespacesOnly(t *testing.T) {
	t.Parallel()
	require.Nil(t, ManagerOptions(Config{}).Cache.DefaultNamespaces)
	options := ManagerOptions(Config{Namespaces: []string{"a", "b"}})
	require.Len(t, options.Cache.DefaultNamespaces, 2)
	require.Contains(t, options.Cache.DefaultNamespaces, "a")
}

func TestNoPodAndNoSecretIsCached(t *testing.T) {
	t.Parallel()
	disabled := ManagerOptions(Config{}).Client.Cache.DisableFor
	require.Len(t, disabled, 1)
	require.IsType(t, &corev1.Secret{}, disabled[0])
	require.NotNil(t, ManagerOptions(Config{}).Cache.DefaultTransform, "what is cached is stripped of what nobody reads")
}

// An error that lasts is met every two minutes at the least, and one that is over is forgotten.
func TestFailuresAreTriedAgainWithinTwoMinutes(t *testing.T) {
	t.Parallel()
	limiter, site := failures(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shops", Name: "shop"}}
	require.Equal(t, time.Second, limiter.When(site))
	for range 50 {
		require.LessOrEqual(t, limiter.When(site), 2*time.Minute)
	}
	limiter.Forget(site)
	require.Equal(t, time.Second, limiter.When(site))
}
