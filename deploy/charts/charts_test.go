//go:build charts

// Package charts holds the Helm charts; its tests hold them to the kustomize manifests beside them. They need the programs
// helm and kustomize in the folder BIN, and run in "make helm" and "make verify".
package charts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	product = "drupdate"
	system  = "drupdate-system"
	// everything turns all on that the chart knows.
	everything = "testdata/everything.yaml"
)

func TestTheChartsAreTheManifestsOfKustomize(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		folder string
		args   []string
	}{
		"for the whole cluster": {"..", nil},
		"for some namespaces":   {"../overlays/namespaced", []string{"--set", "watchNamespaces={drupal-sites}"}},
		"with what Prometheus and Grafana need": {observed(t), []string{
			"--set", "monitoring.podMonitor.enabled=true", "--set", "monitoring.prometheusRule.enabled=true", "--set", "monitoring.dashboard.enabled=true",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := objects(t, command(t, "kustomize", "build", "--load-restrictor", "LoadRestrictionsNone", tc.folder))
			// Helm makes a namespace by a flag of its own.
			require.Contains(t, want, "Namespace /"+system)
			delete(want, "Namespace /"+system)
			have := objects(t, template(t, "drupdate-crds"))
			for id, object := range objects(t, template(t, product, tc.args...)) {
				require.NotContains(t, have, id, "in both charts")
				have[id] = object
			}
			for id := range want {
				require.Contains(t, have, id)
			}
			for id, object := range have {
				require.Contains(t, want, id)
				plain(object)
				require.Equal(t, want[id].Object, object.Object, id)
			}
		})
	}
}

// observed is an overlay with the component of Prometheus and Grafana. It cannot be below deploy/, which kustomize takes for a cycle.
func observed(t *testing.T) string {
	t.Helper()
	// The real path: kustomize takes links in a relative one for what they lead to.
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	deploy, err := filepath.Abs("..")
	require.NoError(t, err)
	deploy, err = filepath.Rel(folder, deploy)
	require.NoError(t, err)
	text := "resources: [" + deploy + "]\ncomponents: [" + deploy + "/observability]\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600))
	return folder
}

// Who may write in some namespaces only can install drupdate for them.
func TestForSomeNamespacesNothingBelongsToTheCluster(t *testing.T) {
	t.Parallel()
	rendered := objects(t, template(t, product, "--set", "watchNamespaces={a,b}"))
	for _, id := range []string{"Role a/drupdate-worker", "RoleBinding b/drupdate-watcher", "ConfigMap drupdate-system/drupdate-config"} {
		require.Contains(t, rendered, id)
	}
	for id, object := range rendered {
		require.Contains(t, []string{system, "a", "b"}, object.GetNamespace(), id)
	}
}

func TestAPackageHasAllThatTheFolderHas(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, chart := range []string{"drupdate-crds", product} {
		command(t, "helm", "package", chart, "--destination", folder)
		packages, err := filepath.Glob(filepath.Join(folder, chart+"-[0-9]*.tgz"))
		require.NoError(t, err)
		require.Len(t, packages, 1)
		require.Equal(t, template(t, chart), command(t, "helm", "template", product, packages[0], "--namespace", system))
		content, err := exec.Command("tar", "-tzf", packages[0]).Output()
		require.NoError(t, err)
		require.NotRegexp(t, `\.go\b|_test|kustomization`, string(content))
	}
}

func TestNothingIsDeletedWithTheChartOfTheKinds(t *testing.T) {
	t.Parallel()
	crds := 0
	for _, object := range objects(t, template(t, "drupdate-crds")) {
		if object.GetKind() == "CustomResourceDefinition" {
			crds++
			require.Equal(t, "keep", object.GetAnnotations()["helm.sh/resource-policy"])
		}
	}
	files, err := filepath.Glob("../crd/*_*.yaml")
	require.NoError(t, err)
	require.Equal(t, len(files), crds)
}

func TestAWrongValueIsToldInOneSentence(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"replicas=3":                          `additional properties 'replicas' not allowed`,
		"watcher.replicas=two":                `at '/watcher/replicas': got string, want integer`,
		"watchNamespaces={Bad_Name}":          `at '/watchNamespaces/0': 'Bad_Name' does not match pattern`,
		"watchNamespaces=prod":                `at '/watchNamespaces': got string, want array`,
		"log.level=loud":                      `at '/log/level': value must be one of 'debug', 'info', 'warn', 'error'`,
		"temporal.address=temporal":           `at '/temporal/address': 'temporal' does not match pattern`,
		"image.digest=latest":                 `at '/image/digest': 'latest' does not match pattern`,
		"config.DRUPDATE_KUBE_QPS=50":         `at '/config/DRUPDATE_KUBE_QPS': got number, want string`,
		"watcher.podDisruptionBudget.min=1":   `at '/watcher/podDisruptionBudget': additional properties 'min' not allowed`,
		"codecServer.enabled=true":            `codecServer.enabled needs codec.secret (the keys)`,
		"config.drupdate=x":                   `at '/config': additional properties 'drupdate' not allowed`,
		"worker.serviceAccount.create=please": `at '/worker/serviceAccount/create': got string, want boolean`,
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			out, err := helm("template", product, product, "--namespace", system, "--set", set).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), want)
			told := regexp.MustCompile(`(?m)^- at|execution error`).FindAllString(string(out), -1)
			require.Len(t, told, 1, "%s", out)
		})
	}
}

// Strictly: a field that the API does not know is one that the API server drops without a word.
func TestWithEverythingOnTheObjectsAreStillObjectsOfTheAPI(t *testing.T) {
	t.Parallel()
	for id, object := range objects(t, template(t, product, "--values", everything)) {
		if strings.Contains(object.GetAPIVersion(), "monitoring.coreos.com") {
			continue
		}
		typed, err := scheme.Scheme.New(object.GroupVersionKind())
		require.NoError(t, err, id)
		raw, err := yaml.Marshal(object.Object)
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(raw, typed), id)
	}
}

// A variable that no flag has is one that nobody reads.
func TestEveryVariableIsThatOfAFlag(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../cmd/drupdate/config.go")
	require.NoError(t, err)
	rendered := template(t, product, "--values", everything)
	found := regexp.MustCompile(`DRUPDATE_[A-Z_]+`).FindAll(rendered, -1)
	require.Greater(t, len(found), 10)
	for _, name := range found {
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(name), "DRUPDATE_"), "_", "-"))
		require.Contains(t, string(source), `"`+flag+`"`)
	}
}

// plain takes off what Helm's objects have beside those of kustomize: who made them, and what makes pods follow their configuration.
func plain(object *unstructured.Unstructured) {
	for _, label := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
		unstructured.RemoveNestedField(object.Object, "metadata", "labels", label)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "helm.sh/resource-policy")
	unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "annotations", "checksum/config")
}

func template(t *testing.T, chart string, args ...string) []byte {
	t.Helper()
	return command(t, "helm", append([]string{"template", product, chart, "--namespace", system}, args...)...)
}

func helm(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(os.Getenv("BIN"), "helm"), args...)
}

func command(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	var errs bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("BIN"), program), args...)
	c.Stderr = &errs
	out, err := c.Output()
	require.NoError(t, err, "%s %v: %s", program, args, errs.String())
	return out
}

// objects are the objects of a stream by kind, namespace and name.
func objects(t *testing.T, stream []byte) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, document := range bytes.Split(append([]byte("\n"), stream...), []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &object.Object))
		if len(object.Object) == 0 {
			continue
		}
		id := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
		require.NotContains(t, all, id)
		all[id] = object
	}
	return all
}
