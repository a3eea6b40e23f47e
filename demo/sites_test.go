package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestANamespaceThatNoDemoMadeIsLeftAlone(t *testing.T) {
	t.Parallel()
	theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	s := &stack{kube: fake.NewClientBuilder().WithObjects(theirs).Build()}
	require.ErrorContains(t, s.emptyNamespace(t.Context()), "that no demo made")
	require.NoError(t, s.kube.Get(t.Context(), client.ObjectKey{Name: namespace}, theirs))

	theirs.Labels = map[string]string{labelDemo: "true"}
	require.NoError(t, s.kube.Update(t.Context(), theirs))
	require.NoError(t, s.emptyNamespace(t.Context()))
}
