//go:build e2e

package install

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// states are sites as a GitOps controller meets them, with what it should say.
var states = []struct {
	name            string
	release         string
	conditions      map[string]string
	argo            string
	failed, current bool
}{
	{"nothing has looked at it yet", "", nil, "Progressing", false, false},
	{"it serves what is asked for", "10.3.6", map[string]string{"Ready": "True", "Updating": "False"}, "Healthy", false, true},
	{"the update is under way", "10.3.1", map[string]string{"Ready": "True", "Updating": "True"}, "Progressing", false, false},
	{"the new release serves and is not verified yet", "10.3.6", map[string]string{"Ready": "True", "Updating": "True"}, "Progressing", false, false},
	{"it waits for its window", "10.3.1", map[string]string{"Ready": "True"}, "Progressing", false, false},
	{"the code was rolled back", "10.3.1", map[string]string{"Ready": "True", "CodeUpdateFailed": "True"}, "Degraded", true, false},
	{"the database was restored", "10.3.1", map[string]string{"Ready": "True", "DBUpdatesFailed": "True"}, "Degraded", true, false},
	{"no pod serves", "10.3.6", map[string]string{"Ready": "False"}, "Progressing", false, false},
	{"updates are paused", "10.3.1", map[string]string{"Ready": "True", "Paused": "True"}, "Suspended", false, false},
}

func object(release string, conditions map[string]string) map[string]any {
	status := map[string]any{}
	if conditions != nil {
		list := []any{}
		for kind, value := range conditions {
			list = append(list, map[string]any{"type": kind, "status": value, "reason": "R", "message": "M", "lastTransitionTime": "2026-01-01T00:00:00Z"})
		}
		status = map[string]any{"conditions": list, "release": map[string]any{"serving": release}}
	}
	return map[string]any{"spec": map[string]any{"image": "a", "release": "10.3.6"}, "status": status}
}

func TestTheHealthCheckForArgoTellsAFailedUpdateFromADoneOne(t *testing.T) {
	t.Parallel()
	lua, err := exec.LookPath("lua5.4")
	if err != nil {
		t.Skip("lua5.4 is not installed")
	}
	script := ""
	for _, b := range blocks(t, "gitops") {
		if b.info == "lua" {
			script = b.text
		}
	}
	require.NotEmpty(t, script)
	for _, s := range states {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			program := fmt.Sprintf("local obj = %s\nlocal function health()\n%send\nprint(health().status)", luaValue(object(s.release, s.conditions)), script)
			out, err := exec.CommandContext(t.Context(), lua, "-e", program).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, s.argo, strings.TrimSpace(string(out)))
		})
	}
}

// luaValue writes a value of JSON as one of Lua.
func luaValue(value any) string {
	switch v := value.(type) {
	case map[string]any:
		text := "{"
		for key, element := range v {
			text += fmt.Sprintf("[%q]=%s,", key, luaValue(element))
		}
		return text + "}"
	case []any:
		text := "{"
		for _, element := range v {
			text += luaValue(element) + ","
		}
		return text + "}"
	default:
		return fmt.Sprintf("%q", v)
	}
}

// The expressions are in the language of the API server, which is asked to evaluate them: a policy refuses the update of a
// status, and its reason is their values.
func TestTheHealthChecksForFluxTellAFailedUpdateFromADoneOne(t *testing.T) {
	empty(t)
	run(t, "kubectl", "apply", "--server-side", "-k", "deploy/crd")
	run(t, "kubectl", "wait", "crd/drupalsites.drupdate.dev", "--for=condition=Established", "--timeout=1m")
	failed, current := expressions(t)
	require.NoError(t, cluster.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blogs"}}))
	site := &v1alpha1.DrupalSite{ObjectMeta: metav1.ObjectMeta{Namespace: "blogs", Name: "blog"}, Spec: v1alpha1.DrupalSiteSpec{Image: "a", Release: "10.3.6"}}
	require.Eventually(t, func() bool { return cluster.Create(t.Context(), site) == nil }, time.Minute, time.Second)
	policy(t, fmt.Sprintf(`"failed=" + string(%s) + " current=" + string(%s)`, failed, current))
	for _, s := range states {
		t.Run(s.name, func(t *testing.T) {
			body, err := json.Marshal(map[string]any{"status": object(s.release, s.conditions)["status"]})
			require.NoError(t, err)
			want := fmt.Sprintf("failed=%v current=%v", s.failed, s.current)
			var said string
			require.Eventually(t, func() bool {
				err := cluster.Status().Patch(t.Context(), site.DeepCopy(), kube.RawPatch("application/merge-patch+json", body), kube.DryRunAll)
				if err != nil {
					said = err.Error()
				}
				return strings.Contains(said, "failed=")
			}, time.Minute, time.Second, "the policy does not answer: %s", said)
			require.Contains(t, said, want)
		})
	}
}

// policy refuses every status of a site with a message.
func policy(t *testing.T, message string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "drupdate-docs"}
	require.NoError(t, cluster.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"drupdate.dev"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"drupalsites/status"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "false", MessageExpression: message}},
		},
	}))
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: meta.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	require.NoError(t, cluster.Create(t.Context(), binding))
	t.Cleanup(func() {
		run(t, "kubectl", "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", meta.Name)
	})
}

// expressions are those of the document, with the variables that the API server has for Flux's.
func expressions(t *testing.T) (failed, current string) {
	t.Helper()
	for _, b := range blocks(t, "gitops") {
		kustomization := &unstructured.Unstructured{}
		if b.info != "yaml" || yaml.Unmarshal([]byte(b.text), &kustomization.Object) != nil || !strings.Contains(kustomization.GetAPIVersion(), "fluxcd") {
			continue
		}
		checks, found, err := unstructured.NestedSlice(kustomization.Object, "spec", "healthCheckExprs")
		require.NoError(t, err)
		require.True(t, found)
		check := checks[0].(map[string]any)
		names := regexp.MustCompile(`(^|[^.\w])(status|spec)\.`)
		return names.ReplaceAllString(check["failed"].(string), "${1}object.${2}."), names.ReplaceAllString(check["current"].(string), "${1}object.${2}.")
	}
	t.Fatal("gitops.md has no health checks for Flux")
	return "", ""
}
