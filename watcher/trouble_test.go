package watcher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

func TestAMissingSecretIsSaidAndPolled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite())
	require.Equal(t, secretPoll, w.reconcile())
	require.Equal(t, "False SecretMissing", w.condition(v1alpha1.ConditionReady))
	require.Equal(t, "10.3.6 registry.example/drupal:10.3.6", w.image(), "the Deployment is there; its pods wait")
	w.writes = 0
	require.Equal(t, secretPoll, w.reconcile())
	require.Zero(t, w.writes)
	require.Equal(t, 1, count(w.events.seen, "SecretMissing"))

	require.NoError(t, w.client.Create(t.Context(), secret()))
	require.Zero(t, w.reconcile())
	require.Equal(t, "False NoPodAvailable", w.condition(v1alpha1.ConditionReady))
}

func TestStatesOfTheDeploymentThatAreNoSuccess(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		dep  func(*appsv1.Deployment)
		want string
	}{
		{"scaled to zero", func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }, "False ScaledToZero"},
		{"paused and down", func(d *appsv1.Deployment) { d.Spec.Paused, d.Status.AvailableReplicas = true, 0 }, "False WorkloadPaused"},
		{"paused, but serving", func(d *appsv1.Deployment) { d.Spec.Paused = true }, "True WorkloadPaused"},
		{"without the container", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Name = "web" }, "False ContainerMissing"},
		{"being deleted", func(d *appsv1.Deployment) {
			d.DeletionTimestamp, d.Finalizers = &metav1.Time{Time: epoch}, []string{"foregroundDeletion"}
		}, "False WorkloadMissing"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site := newSite(verified, wants("10.3.7"))
			w := newWorld(t, site, newDeployment(site, "10.3.6", c.dep), secret())
			before := w.deployment()
			require.Zero(t, w.reconcile())
			require.Equal(t, c.want, w.condition(v1alpha1.ConditionReady))
			require.Zero(t, w.temporal.calls, "no run starts")
			require.Equal(t, before, w.deployment())
		})
	}
}

func TestANamespaceThatIsBeingDeletedIsNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite(), secret())
	for _, kind := range []string{"Deployment", "Service", "ConfigMap", "PersistentVolumeClaim"} {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "shop", errors.New("namespace shops is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		w.refuse[kind] = err
	}
	require.Equal(t, refusedRetry, w.reconcile())
	require.Equal(t, "False NamespaceTerminating", w.condition(v1alpha1.ConditionReady))
}

func TestAChildThatTheServerRefusesIsSaidAndTriedSlowly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite(), secret())
	w.refuse["PersistentVolumeClaim"] = apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "shop-backups",
		errors.New("exceeded quota: storage, "+strings.Repeat("é\n", 400)))
	require.Equal(t, refusedRetry, w.reconcile())
	require.Equal(t, "False ChildRejected", w.condition(v1alpha1.ConditionReady))
	message := apimeta.FindStatusCondition(w.site().Status.Conditions, v1alpha1.ConditionReady).Message
	require.True(t, strings.HasPrefix(message, `The API server refused to create PersistentVolumeClaim "shop-backups": `), message)
	require.Less(t, len(message), 600)
	require.NotContains(t, message, "\n")
	w.deployment() // the others are there

	w.writes = 0
	w.pass(time.Minute)
	w.reconcile()
	require.Zero(t, w.writes, "not tried again at once, and the condition stays")
	require.Equal(t, "False ChildRejected", w.condition(v1alpha1.ConditionReady))

	dep := w.deployment()
	require.NoError(t, w.client.Delete(t.Context(), dep))
	w.reconcile()
	w.deployment() // a deleted one comes back meanwhile

	delete(w.refuse, "PersistentVolumeClaim")
	w.pass(time.Minute)
	require.Zero(t, w.reconcile())
	require.Equal(t, "False NoPodAvailable", w.condition(v1alpha1.ConditionReady))
}

func TestAServerInTroubleIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite(), secret())
	w.refuse["Service"] = apierrors.NewInternalError(errors.New("webhook did not answer"))
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: shop})
	require.ErrorContains(t, err, `create Service: "shop"`)
	w.deployment() // the others are made all the same
}

func TestAnInvalidSpecIsATerminalError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSite(func(s *v1alpha1.DrupalSite) { s.Spec.Update.Backup.Size = "much" }), secret())
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: shop})
	require.ErrorIs(t, err, reconcile.TerminalError(nil))
	require.Equal(t, "False ChildRejected", w.condition(v1alpha1.ConditionReady))
}
