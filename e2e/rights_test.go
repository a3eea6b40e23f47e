//go:build e2e && !fault

package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/podexec"
	"github.com/drupdate/drupdate/internal/update"
)

// The API server asks for create while it answers a get, so the audit log shows one right where two are needed.
func TestAnExecNeedsCreateBesideGet(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	pods := &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), pods, kube.InNamespace(w.ns), kube.MatchingLabels{v1alpha1.LabelSite: w.name}))
	request := podexec.Request{Namespace: w.ns, Pod: pods.Items[0].Name, Container: "drupal", Argv: []string{"true"}}
	for who, tc := range map[string]struct {
		verbs  []string
		denied string
	}{
		"with-both": {[]string{"get", "create"}, ""},
		"with-get":  {[]string{"get"}, "cannot create resource"},
	} {
		w.mayExec(who, tc.verbs)
		config := rest.CopyConfig(restConf)
		config.Impersonate = rest.ImpersonationConfig{UserName: who}
		core, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		w.eventually(who+" is told so", func() error {
			result, err := podexec.New(config, core).Run(t.Context(), request)
			if tc.denied == "" {
				return err
			}
			if err == nil {
				return fmt.Errorf("the exec went through: %+v", result)
			}
			require.ErrorContains(t, err, tc.denied)
			return nil
		})
	}
}

// mayExec gives a user of that name verbs on pods/exec.
func (w *world) mayExec(user string, verbs []string) {
	w.Helper()
	meta := metav1.ObjectMeta{Namespace: w.ns, Name: user}
	require.NoError(w, cluster.Create(w.Context(), &rbacv1.Role{
		ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: verbs}},
	}))
	require.NoError(w, cluster.Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}))
}

func TestCronJobsOfTheSiteAreSuspendedWhileTheDatabaseIsUpdated(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	cron := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "cron", Labels: map[string]string{v1alpha1.LabelSite: w.name}},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 0 1 1 *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "cron", Image: "registry.example/busybox:1", Command: []string{"/bin/true"}}},
			}}}},
		},
	}
	require.NoError(t, cluster.Create(t.Context(), cron))
	suspended := func() bool {
		require.NoError(t, cluster.Get(t.Context(), kube.ObjectKeyFromObject(cron), cron))
		return *cron.Spec.Suspend
	}
	w.want("10.4.0-slow-update")
	w.eventually("the CronJob is suspended", func() error {
		if !suspended() {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	require.Nil(t, w.site().Status.Run.FinishedAt)
	w.ends("10.4.0-slow-update", update.PhaseSucceeded)
	require.False(t, suspended(), "it is as it was")
}
