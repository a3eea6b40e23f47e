package watcher

import (
	"testing"

	"github.com/stretchr/testify/require"

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
