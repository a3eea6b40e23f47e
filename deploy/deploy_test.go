// Package deploy holds manifests; its tests hold them to what the code needs and what docs/security.md promises.
package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

func TestOnlyTheWorkerMayExecAndMakeJobs(t *testing.T) {
	t.Parallel()
	watcher, worker := grants(t, "watcher"), grants(t, "worker")
	for _, right := range []string{"create pods/exec", "get pods/exec", "create batch/jobs"} {
		require.Contains(t, worker, right)
		require.NotContains(t, watcher, right)
	}
}

func TestNobodyMayDeleteOrReadManySecretsOrTakeRights(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"watcher", "worker"} {
		for _, right := range grants(t, who) {
			verb, resource, _ := strings.Cut(right, " ")
			require.NotContains(t, []string{"delete", "deletecollection", "escalate", "bind", "impersonate", "*"}, verb, right)
			require.NotContains(t, resource, "*", right)
			if resource == "secrets" {
				require.Equal(t, "watcher get", who+" "+verb)
			}
		}
	}
}

// A cache of pods is a cache of all pods of the cluster: the watcher cannot even begin one.
func TestTheWatcherSeesNoPods(t *testing.T) {
	t.Parallel()
	for _, right := range grants(t, "watcher") {
		_, resource, _ := strings.Cut(right, " ")
		require.NotContains(t, []string{"pods", "apps/replicasets", "batch/jobs"}, resource, right)
	}
}

func TestTheProcessesRunWithoutPrivileges(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"watcher", "worker"} {
		var d appsv1.Deployment
		decode(t, documents(t, filepath.Join(who, "deployment.yaml"))[0], &d)
		pod := d.Spec.Template.Spec
		require.True(t, *pod.SecurityContext.RunAsNonRoot)
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
		require.Greater(t, *pod.TerminationGracePeriodSeconds, int64(29))
		require.Len(t, pod.Containers, 1)
		c := pod.Containers[0]
		require.Equal(t, []string{who}, c.Args)
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
		require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
		require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
		require.Equal(t, "/healthz", c.LivenessProbe.HTTPGet.Path)
		require.NotEmpty(t, c.Resources.Requests)
	}
}

func TestTheWorkerOutlivesItsDrain(t *testing.T) {
	t.Parallel()
	var d appsv1.Deployment
	decode(t, documents(t, "worker/deployment.yaml")[0], &d)
	// worker.stopTimeout is 30 seconds.
	require.Greater(t, *d.Spec.Template.Spec.TerminationGracePeriodSeconds, int64(30))
}

// A default that the sample states is one that a reader may rely on.
func TestTheSampleHasNoUnknownFields(t *testing.T) {
	t.Parallel()
	for _, doc := range documents(t, "samples/site.yaml") {
		if bytes.Contains(doc, []byte("kind: DrupalSite")) {
			var site v1alpha1.DrupalSite
			require.NoError(t, yaml.UnmarshalStrict(doc, &site))
			require.NotEmpty(t, site.Spec.Release)
			return
		}
	}
	t.Fatal("the sample has no site")
}

// grants are the rights of a role of the whole cluster, each as "verb group/resource", the core group without a name.
func grants(t *testing.T, who string) []string {
	t.Helper()
	var all []string
	for _, doc := range documents(t, "rbac/"+who+".yaml") {
		var role rbacv1.ClusterRole
		require.NoError(t, yaml.Unmarshal(doc, &role))
		if role.Kind != "ClusterRole" {
			continue
		}
		for _, rule := range role.Rules {
			require.Empty(t, rule.ResourceNames)
			all = append(all, product(rule.APIGroups, rule.Resources, rule.Verbs)...)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func product(groups, resources, verbs []string) []string {
	var all []string
	for _, group := range groups {
		for _, resource := range resources {
			for _, verb := range verbs {
				all = append(all, verb+" "+strings.TrimPrefix(group+"/"+resource, "/"))
			}
		}
	}
	return all
}

func documents(t *testing.T, file string) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	return bytes.Split(raw, []byte("\n---\n"))
}

func decode(t *testing.T, doc []byte, into any) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict(doc, into))
}
