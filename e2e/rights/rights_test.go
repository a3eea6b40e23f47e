package rights

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const roles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: worker}
rules:
- {apiGroups: [""], resources: [pods, pods/exec], verbs: [get]}
- {apiGroups: [batch], resources: [jobs], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: election, namespace: system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [leader], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: worker}
roleRef: {kind: ClusterRole, name: worker}
subjects: [{kind: ServiceAccount, name: worker, namespace: system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: election, namespace: system}
roleRef: {kind: Role, name: election}
subjects: [{kind: ServiceAccount, name: worker, namespace: system}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: worker, namespace: system}
`

// entry is a line of the audit log; the account is that of the worker unless another is named.
func entry(verb, ref, more string) string {
	return `{"stage":"ResponseComplete","user":{"username":"system:serviceaccount:system:worker"},"verb":"` + verb + `","objectRef":{` + ref + `}` + more + "}\n"
}

const (
	pods   = `"resource":"pods","namespace":"shops","apiVersion":"v1"`
	exec   = `"resource":"pods","subresource":"exec","namespace":"shops","name":"web","apiVersion":"v1"`
	jobs   = `"resource":"jobs","namespace":"shops","apiGroup":"batch"`
	leader = `"resource":"leases","namespace":"system","name":"leader","apiGroup":"coordination.k8s.io"`
	secret = `"resource":"secrets","namespace":"shops","name":"db"`
)

func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for doc := range strings.SplitSeq(text, "---\n") {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o.Object))
		all = append(all, o)
	}
	return all
}

func compare(t *testing.T, log string, excuses map[string]string) Report {
	t.Helper()
	grants, err := Grants(objects(t, roles))
	require.NoError(t, err)
	requests, err := Requests(bytes.NewBufferString(log), "system:serviceaccount:system:")
	require.NoError(t, err)
	return Compare(grants, requests, excuses)
}

func TestRightsAndNeedsThatAreTheSameHaveNoProblems(t *testing.T) {
	t.Parallel()
	log := entry("get", pods, "") + entry("get", exec, "") + entry("create", jobs, "") + entry("update", leader, "")
	report := compare(t, log, nil)
	require.Empty(t, report.Problems())
	require.Equal(t, `ACCOUNT  ROLE      RIGHT                                               USED
worker   election  update coordination.k8s.io/leases leader in system  1
worker   worker    create batch/jobs                                   1
worker   worker    get pods                                            1
worker   worker    get pods/exec                                       1
`, report.String())
}

func TestEveryDifferenceIsAProblem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		log     string
		excuses map[string]string
		says    string
	}{
		"a right that nobody used": {
			entry("get", pods, "") + entry("create", jobs, "") + entry("update", leader, ""), nil,
			"granted to system:serviceaccount:system:worker and never used: get pods/exec",
		},
		"a lease of another name does not use the right": {
			entry("get", pods, "") + entry("get", exec, "") + entry("create", jobs, "") + entry("update", strings.Replace(leader, "leader", "other", 1), ""), nil,
			"never used: update coordination.k8s.io/leases leader in system",
		},
		"a request that was refused does not use a right": {
			entry("get", pods, "") + entry("get", exec, `,"responseStatus":{"code":403,"message":"pods \"web\" is forbidden: User \"x\" cannot create resource"}`) +
				entry("create", jobs, "") + entry("update", leader, ""), nil,
			"never used: get pods/exec",
		},
		"a request that no rule allows": {
			entry("get", pods, "") + entry("get", exec, "") + entry("create", jobs, "") + entry("update", leader, "") +
				entry("get", secret, `,"responseStatus":{"code":403,"message":"secrets \"db\" is forbidden: User \"x\" cannot get resource"}`), nil,
			`not granted: get secrets in "shops", 1 times`,
		},
		"an excuse for a right that is used": {
			entry("get", pods, "") + entry("get", exec, "") + entry("create", jobs, "") + entry("update", leader, ""),
			map[string]string{"worker: get pods": "none"},
			"excused without need: worker: get pods",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, strings.Join(compare(t, tc.log, tc.excuses).Problems(), "\n"), tc.says)
		})
	}
}

func TestAnExcuseIsShownAndIsNoProblem(t *testing.T) {
	t.Parallel()
	log := entry("get", pods, "") + entry("create", jobs, "") + entry("update", leader, "")
	report := compare(t, log, map[string]string{"worker: get pods/exec": "no pod was asked"})
	require.Empty(t, report.Problems())
	require.Contains(t, report.String(), "0 (no pod was asked)")
}

func TestWhatAdmissionRefusesIsGranted(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		`jobs.batch \"x\" is forbidden: unable to create new content in namespace shops because it is being terminated`,
		`jobs.batch \"x\" is forbidden: exceeded quota: small`,
	} {
		log := entry("get", pods, "") + entry("get", exec, "") + entry("update", leader, "") +
			entry("create", jobs, `,"responseStatus":{"code":403,"message":"`+message+`"}`)
		require.Empty(t, compare(t, log, nil).Problems())
	}
}

func TestOthersAndHalfWrittenEntriesAreLeftOut(t *testing.T) {
	t.Parallel()
	started := strings.Replace(entry("get", exec, ""), "ResponseComplete", "ResponseStarted", 1)
	admin := strings.Replace(entry("get", secret, ""), "system:serviceaccount:system:worker", "admin", 1)
	requests, err := Requests(bytes.NewBufferString(started+admin+entry("get", pods, "")+`{"user":`), "system:serviceaccount:system:")
	require.NoError(t, err)
	require.Len(t, requests, 1)
	_, err = Requests(bytes.NewBufferString("no log\n"), "")
	require.Error(t, err)
}

func TestRulesThatNoLogCanProveAreAnError(t *testing.T) {
	t.Parallel()
	for old, broken := range map[string]string{
		"verbs: [create]":        `verbs: ["*"]`,
		"resources: [jobs]":      `resources: ["*"]`,
		"name: worker}\nsubject": "name: other}\nsubject",
	} {
		require.Contains(t, roles, old)
		_, err := Grants(objects(t, strings.Replace(roles, old, broken, 1)))
		require.Error(t, err, broken)
	}
}
