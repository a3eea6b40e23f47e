package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestNothingOfTheUsersEnvironmentLeadsTheDemoElsewhere(t *testing.T) {
	for _, name := range []string{"KUBECONFIG", "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_PROFILE", "DRUPDATE_TASK_QUEUE"} {
		t.Setenv(name, "theirs")
	}
	s := &stack{env: map[string]string{"KUBECONFIG": "ours", "TEMPORAL_ADDRESS": "ours"}}
	got := strings.Join(s.environment(), "\n")
	require.NotContains(t, got, "theirs")
	require.Contains(t, got, "KUBECONFIG=ours")
	require.Contains(t, got, "TEMPORAL_CONFIG_FILE=/dev/null")
	require.Contains(t, got, "PATH=")
}

func TestTheDemoEndsWithWhatDrupdateAndKubectlNeed(t *testing.T) {
	t.Parallel()
	s := &stack{state: "/s", env: map[string]string{"KUBECONFIG": "/s/kubeconfig", "TEMPORAL_ADDRESS": "127.0.0.1:1", "TEMPORAL_UI": "http://127.0.0.1:2"}}
	told := s.whereIsWhat()
	require.Contains(t, told, "export KUBECONFIG=/s/kubeconfig TEMPORAL_ADDRESS=127.0.0.1:1 PATH=/s/bin:$PATH\n")
	require.NotContains(t, told, "%!")
}

func TestTwoDemosDoNotRunInOneFolder(t *testing.T) {
	t.Parallel()
	first, second := &stack{state: t.TempDir()}, &stack{}
	second.state = first.state
	unlock, err := first.lock()
	require.NoError(t, err)
	_, err = second.lock()
	require.ErrorContains(t, err, "another demo runs")
	unlock()
	unlock, err = second.lock()
	require.NoError(t, err)
	unlock()
}

func TestAProcessThatEndsIsNoticedWithItsLastWords(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	for _, dir := range []string{"bin", "logs", "run"} {
		require.NoError(t, os.Mkdir(filepath.Join(state, dir), 0o700))
	}
	s := &stack{state: state}
	require.NoError(t, os.WriteFile(s.binary(), []byte("#!/bin/sh\necho 'the port is taken' >&2\nexit 1\n"), 0o700))
	err := s.startRole(t.Context(), role{name: "worker", port: 1})
	require.ErrorContains(t, err, "the worker has ended")
	require.ErrorContains(t, err, "the port is taken")
}

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
