//go:build e2e

package install

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/codec"
)

const aSite = `
apiVersion: v1
kind: Secret
metadata: {name: blog-db, namespace: blogs}
stringData: {DB_DRIVER: sqlite, DB_PATH: /opt/drupal/web/sites/default/files/site.db}
---
apiVersion: drupdate.dev/v1alpha1
kind: DrupalSite
metadata: {name: blog, namespace: blogs}
spec:
  image: registry.example/drupal
  release: "10.3.1"
  database: {secretName: blog-db}
  files: {size: 1Gi}
  install: {profile: minimal}
`

// testdata/previous has the packages of the version before, see its README. Its CRD is older than what the worker writes, as
// where somebody has forgotten it: the run stands still until the kinds are upgraded. The run that is open while drupdate
// itself is replaced goes on, and comes to its end.
func TestAnUpgradeFromTheVersionBeforeKeepsSitesAndOpenRuns(t *testing.T) {
	empty(t)
	t.Cleanup(func() { empty(t) })
	previous, err := filepath.Abs("testdata/previous")
	require.NoError(t, err)
	run(t, "helm", "install", "drupdate-crds", one(t, previous, "drupdate-crds-[0-9]*.tgz"), "--namespace", system, "--create-namespace")
	run(t, "kubectl", "create", "namespace", "blogs")
	run(t, "kubectl", "label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted")
	run(t, "kubectl", "-n", system, "create", "secret", "generic", "codec-keys", "--from-literal=2026-01="+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	run(t, "kubectl", "-n", system, "create", "secret", "generic", "codec-token", "--from-literal=token=a-token")
	run(t, "helm", "install", "drupdate", one(t, previous, "drupdate-[0-9]*.tgz"), "--namespace", system, "--wait", "--timeout", "5m",
		"--set", "temporal.address="+os.Getenv("TEMPORAL_ADDRESS"), "--set", "watchNamespaces={blogs}", "--set", "codec.secret=codec-keys")
	site := command(t.Context(), "kubectl", "apply", "-f", "-")
	site.Stdin = strings.NewReader(aSite)
	out, err := site.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run(t, "kubectl", "-n", "blogs", "wait", "dsite/blog", "--for=condition=Initialized", "--timeout=5m")
	before := theSite(t)
	require.Nil(t, before.Status.Run, "a run that cannot be written down changes nothing")
	require.Contains(t, failing(t, "kubectl", "drupdate", "doctor"), "older than this build")
	upgrade(t, "drupdate-crds")
	run(t, "kubectl", "-n", "blogs", "wait", "dsite/blog", "--for=jsonpath={.status.release.serving}=10.3.1", "--timeout=5m")

	run(t, "kubectl", "drupdate", "update", "blog", "-n", "blogs", "--to", "10.4.0-slow-update")
	run(t, "kubectl", "-n", "blogs", "wait", "dsite/blog", "--for=jsonpath={.status.run.phase}=UpdatingDatabase", "--timeout=5m")
	// Other pods than those that began the run, and one more.
	upgrade(t, "drupdate", "--set", "log.level=debug", "--set", "codecServer.enabled=true", "--set", "codecServer.tokenSecret=codec-token",
		"--set", "codecServer.uiOrigins={http://127.0.0.1:8233}")
	works := regexp.MustCompile(`watcher +\S+ works in the namespace ` + system)
	require.Eventually(t, func() bool { return works.MatchString(run(t, "kubectl", "drupdate", "doctor")) }, time.Minute, time.Second)
	run(t, "kubectl", "-n", "blogs", "wait", "dsite/blog", "--for=jsonpath={.status.release.serving}=10.4.0-slow-update", "--timeout=5m")

	after := theSite(t)
	require.Equal(t, before.UID, after.UID)
	require.True(t, apimeta.IsStatusConditionTrue(after.Status.Conditions, v1alpha1.ConditionReady))
	require.Nil(t, apimeta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionDBUpdatesFailed))
	require.Len(t, after.Status.Backups, 1)

	history := run(t, "temporal", "workflow", "show", "--workflow-id", "site/blogs/blog", "-o", "json")
	require.Contains(t, history, base64.StdEncoding.EncodeToString([]byte(codec.Encoding)), "the keys of the Secret are in use")

	run(t, "helm", "uninstall", "drupdate", "--namespace", system, "--wait")
	run(t, "helm", "uninstall", "drupdate-crds", "--namespace", system, "--wait")
	left := theSite(t)
	require.Equal(t, before.UID, left.UID)
	require.Empty(t, left.Finalizers)
	require.Nil(t, left.DeletionTimestamp)
	run(t, "kubectl", "-n", "blogs", "rollout", "status", "deploy/blog", "--timeout=1m")
	// Nothing of drupdate runs that could take a finalizer off.
	run(t, "kubectl", "-n", "blogs", "delete", "dsite", "blog", "--timeout=1m")
	run(t, "kubectl", "delete", "namespace", "blogs", "--timeout=2m")
}

// upgrade is what docs/upgrade.md says.
func upgrade(t *testing.T, chart string, args ...string) {
	t.Helper()
	run(t, "helm", append([]string{"upgrade", chart, "deploy/charts/" + chart, "--namespace", system, "--reset-then-reuse-values", "--wait", "--timeout", "5m"}, args...)...)
}

func theSite(t *testing.T) *v1alpha1.DrupalSite {
	t.Helper()
	site := &v1alpha1.DrupalSite{}
	require.NoError(t, cluster.Get(t.Context(), kube.ObjectKey{Namespace: "blogs", Name: "blog"}, site))
	return site
}

func one(t *testing.T, folder, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// failing is a command that has to fail; it returns what it printed.
func failing(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), program, args...).CombinedOutput()
	require.Error(t, err, "%s", out)
	return string(out)
}
