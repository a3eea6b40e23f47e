//go:build e2e

package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the API server accepts is more than what a schema says: defaults, immutable fields, CEL rules of the CRD, and the
// Pod Security of the namespace.
func TestTheAPIServerAcceptsWhatIsRendered(t *testing.T) {
	empty(t)
	for _, namespace := range []string{system, "drupal-sites", "blogs", "shops"} {
		run(t, "kubectl", "create", "namespace", namespace)
		t.Cleanup(func() { run(t, "kubectl", "delete", "namespace", namespace, "--wait=false") })
	}
	run(t, "kubectl", "label", "namespace", system, "pod-security.kubernetes.io/warn=restricted")
	run(t, "kubectl", "apply", "--server-side", "-k", "deploy/crd")

	for _, folder := range []string{"deploy", "deploy/overlays/namespaced", "deploy/samples"} {
		t.Run(folder, func(t *testing.T) {
			out := run(t, "kubectl", "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", folder)
			accepted(t, out, "serverside-applied (server dry run)")
		})
	}
	everything := []string{
		"--values", "deploy/charts/testdata/everything.yaml",
		// The kinds of the Prometheus Operator are not in this cluster.
		"--set", "monitoring.podMonitor.enabled=false", "--set", "monitoring.prometheusRule.enabled=false",
	}
	for name, args := range map[string][]string{
		"chart": nil, "chart for some namespaces": {"--set", "watchNamespaces={drupal-sites}"}, "chart with everything on": everything,
	} {
		t.Run(name, func(t *testing.T) {
			rendered := command(t.Context(), "helm", append([]string{"template", "drupdate", "deploy/charts/drupdate", "--namespace", system}, args...)...)
			out, err := rendered.Output()
			require.NoError(t, err)
			apply := command(t.Context(), "kubectl", "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
			apply.Stdin = strings.NewReader(string(out))
			said, err := apply.CombinedOutput()
			require.NoError(t, err, "%s", said)
			accepted(t, string(said), "serverside-applied (server dry run)")
			run(t, "helm", append([]string{"install", "dry", "deploy/charts/drupdate", "--namespace", system, "--dry-run=server"}, args...)...)
		})
	}
	run(t, "helm", "install", "dry", "deploy/charts/drupdate-crds", "--namespace", system, "--dry-run=server", "--take-ownership")
}

// accepted tells that every line of an apply is an acceptance, without a warning of Pod Security or of a deprecation.
func accepted(t *testing.T, out, word string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		require.True(t, strings.HasSuffix(line, word), "%s", out)
	}
}
