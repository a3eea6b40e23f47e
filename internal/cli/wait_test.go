package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

func TestAWaitDoesNotEndWithARunThatJudgedNothing(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	before := &v1alpha1.DrupalSite{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "shop", Generation: 2}}
	before.Spec.Release = "2"
	before.Status.Release = v1alpha1.ReleaseStatus{Serving: "1", Failsafe: "1", Target: "1"}
	after := before.DeepCopy()
	after.Status.ObservedGeneration = 2
	after.Status.Release = v1alpha1.ReleaseStatus{Serving: "1", Failsafe: "1", Target: "2"}
	after.Status.Run = &v1alpha1.RunStatus{RunID: "a", Phase: "Superseded", FinishedAt: &now}
	require.False(t, ended(before)(after), "it judged nothing, and another run follows")
	after.Status.Release.Failed = "2"
	require.True(t, ended(before)(after))
	after.Status.Release.Failed, after.Status.Run.Phase, after.Status.Release.Serving = "", "Succeeded", "2"
	require.True(t, ended(before)(after))
}
