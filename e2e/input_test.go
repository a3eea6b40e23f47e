//go:build e2e && !fault

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// ready waits for a reason of Ready, and returns its message.
func (w *world) ready(reason string) string {
	w.Helper()
	w.eventually("Ready has the reason "+reason, func() error {
		if r := w.reason(v1alpha1.ConditionReady); r != reason {
			return fmt.Errorf("it is %q", r)
		}
		return nil
	})
	return w.condition(v1alpha1.ConditionReady).Message
}

func TestBadInputIsRefusedWithASentence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, tc := range map[string]struct {
		change func(*v1alpha1.DrupalSite)
		says   string
	}{
		"unknown release syntax": {func(s *v1alpha1.DrupalSite) { s.Spec.Release = "10.3 beta" }, "release must be an image tag"},
		"a digest cut short":     {func(s *v1alpha1.DrupalSite) { s.Spec.Release = "sha256:abc" }, "release must be an image tag"},
		"an image with a tag":    {func(s *v1alpha1.DrupalSite) { s.Spec.Image = "registry.example/drupal:10" }, "spec.image"},
		"a uri without a scheme": {func(s *v1alpha1.DrupalSite) { s.Spec.Runtime.URI = "example.org" }, "uri must begin with http"},
		"a name too long":        {func(s *v1alpha1.DrupalSite) { s.Name = strings.Repeat("a", 51) }, "at most 50 characters"},
		"restore without backup": {func(s *v1alpha1.DrupalSite) {
			s.Spec.Update.Backup.Policy = v1alpha1.BackupNever
		}, "onDatabaseFailure Restore needs a backup"},
		"no cron expression": {func(s *v1alpha1.DrupalSite) {
			s.Spec.Update.Window = &v1alpha1.WindowSpec{Schedule: "at night", Duration: metav1.Duration{Duration: 3600e9}}
		}, "spec.update.window.schedule"},
		"annotations of 1 MB": {func(s *v1alpha1.DrupalSite) {
			s.Annotations = map[string]string{"big": strings.Repeat("x", 1<<20)}
		}, "annotations"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &v1alpha1.DrupalSite{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "bad"},
				Spec:       v1alpha1.DrupalSiteSpec{Image: repository, Release: baseline},
			}
			tc.change(s)
			err := cluster.Create(t.Context(), s)
			require.Error(t, err)
			require.Contains(t, err.Error(), tc.says)
		})
	}
}

func TestAMissingSecretIsNamedAndWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "blog-db"}}
	require.NoError(t, cluster.Delete(t.Context(), secret))
	w.create()
	require.Contains(t, w.ready(v1alpha1.ReasonSecretMissing), "blog-db")
	w.secret("mysql")
	w.ends(baseline, update.PhaseSucceeded)
}

func TestAPausedDeploymentIsAStateOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name}}
	w.patch(deployment, `{"spec":{"paused":true}}`)
	w.ready(v1alpha1.ReasonWorkloadPaused)
	runs := w.runs()
	w.want("10.3.2")
	w.seen()
	require.Equal(t, runs, w.runs())
	w.patch(deployment, `{"spec":{"paused":false}}`)
	w.ends("10.3.2", update.PhaseSucceeded)
}

// foreign is a Deployment that somebody else made.
func (w *world) foreign(name, container string, owners ...metav1.OwnerReference) *appsv1.Deployment {
	w.Helper()
	labels := map[string]string{"app": "theirs"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name, OwnerReferences: owners},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: container, Image: repository + ":" + baseline,
					EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "blog-db"}}}},
				}}},
			},
		},
	}
	require.NoError(w, cluster.Create(w.Context(), d))
	return d
}

func TestAnExistingDeploymentIsAdoptedOnTheSameTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install()
	before := w.foreign(w.name, "drupal")
	w.create()
	w.ends(baseline, update.PhaseSucceeded)
	w.want("10.3.2")
	w.ends("10.3.2", update.PhaseSucceeded)
	after, err := w.deployment()
	require.NoError(t, err)
	require.Equal(t, before.UID, after.UID)
	require.Empty(t, after.OwnerReferences, "no owner is added unless the site asks for it")
	require.Equal(t, before.Spec.Template.Spec.Containers[0].EnvFrom, after.Spec.Template.Spec.Containers[0].EnvFrom)
	require.Equal(t, repository+":10.3.2", w.image())
}

func TestNoDrushContainerOfThatName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install()
	before := w.foreign(w.name, "php")
	w.create()
	require.Contains(t, w.ready(v1alpha1.ReasonContainerMissing), "drupal")
	after, err := w.deployment()
	require.NoError(t, err)
	require.Equal(t, before.Spec.Template.Spec.Containers, after.Spec.Template.Spec.Containers, "no container is added")
	require.Zero(t, w.runs())
}

func TestAForeignDeploymentOfTheSameNameIsNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "their-operator"}}
	require.NoError(t, cluster.Create(t.Context(), owner))
	yes := true
	before := w.foreign(w.name, "drupal", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: &yes})
	w.create(withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Release = "10.3.2" }))
	w.ready(v1alpha1.ReasonWorkloadConflict)
	after, err := w.deployment()
	require.NoError(t, err)
	require.Equal(t, before.Spec, after.Spec)
}

func TestTwoSitesWithOneDeploymentName(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	second := &v1alpha1.DrupalSite{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "second"},
		Spec: v1alpha1.DrupalSiteSpec{
			Image: repository, Release: "10.3.2", Workload: v1alpha1.WorkloadSpec{Name: w.name},
			Database: &v1alpha1.DatabaseSpec{SecretName: "blog-db"},
		},
	}
	require.NoError(t, cluster.Create(t.Context(), second))
	loser := &world{T: t, ns: w.ns, name: "second", database: w.database}
	require.Contains(t, loser.ready(v1alpha1.ReasonWorkloadConflict), w.name)
	require.Equal(t, repository+":"+baseline, w.image(), "the first site keeps its Deployment")
	require.Equal(t, v1alpha1.ReasonAvailable, w.reason(v1alpha1.ConditionReady))
}

func TestAReleaseOlderThanTheDatabaseIsNotUpdatedTo(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.want("10.3.6")
	w.ends("10.3.6", update.PhaseSucceeded)
	before := w.simsite("db", "show", w.database)
	w.want("10.3.2")
	w.ends("10.3.2", update.PhaseRolledBack)
	require.Equal(t, update.ReasonDatabaseAhead, w.reason(v1alpha1.ConditionCodeUpdateFailed))
	require.Contains(t, w.condition(v1alpha1.ConditionCodeUpdateFailed).Message, "study_upd_update_10001")
	require.Equal(t, before, w.simsite("db", "show", w.database), "the database is as it was")
	w.serves("10.3.6")
}

func TestNoFailsafeYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install()
	w.create(withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Release = "10.4.0-cr-broken" }))
	s := w.ends("10.4.0-cr-broken", update.PhaseCodeFailed)
	require.Equal(t, v1alpha1.ReleaseStatus{Target: "10.4.0-cr-broken", Failed: "10.4.0-cr-broken"}, s.Status.Release)
	require.Contains(t, w.condition(v1alpha1.ConditionCodeUpdateFailed).Message, "no verified release to go back to")
	w.want("10.3.2")
	w.ends("10.3.2", update.PhaseSucceeded)
}

func TestANamespaceThatIsDeletedDuringARunEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.want("10.4.0-hangs")
	w.reaches(update.PhaseRollingOut)
	run := w.site().Status.Run
	require.NoError(t, cluster.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}))
	w.vanishes("the namespace is gone: nothing of ours holds it", run)
}
