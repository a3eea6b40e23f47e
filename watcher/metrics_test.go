package watcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/metrics/metricstest"
)

// gathered are the metrics of a collector over sites.
func gathered(t *testing.T, elected <-chan struct{}, now time.Time, sites ...client.Object) map[string]float64 {
	t.Helper()
	c := newSiteCollector(fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(sites...).Build(), elected)
	c.now = func() time.Time { return now }
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	return metricstest.Values(t, registry)
}

func measured(name string, edit func(*v1alpha1.DrupalSite)) *v1alpha1.DrupalSite {
	s := &v1alpha1.DrupalSite{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: name}}
	s.Status.Release.Serving = "1.0"
	edit(s)
	return s
}

func TestSitesAreCountedFromTheCache(t *testing.T) {
	t.Parallel()
	elected := make(chan struct{})
	close(elected)
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	then := metav1.NewTime(now.Add(-90 * time.Second))
	require.Equal(t, map[string]float64{
		`drupdate_sites{phase="None"}`:                                                                    1,
		`drupdate_sites{phase="Succeeded"}`:                                                               1,
		`drupdate_sites{phase="UpdatingDatabase"}`:                                                        1,
		`drupdate_sites{phase="Frozen"}`:                                                                  1,
		`drupdate_sites{phase="Other"}`:                                                                   1,
		`drupdate_open_runs`:                                                                              1,
		`drupdate_site_info{name="new",namespace="shops",release="1.0"}`:                                  1,
		`drupdate_site_info{name="good",namespace="shops",release="2.0"}`:                                 1,
		`drupdate_site_info{name="busy",namespace="shops",release="1.0"}`:                                 1,
		`drupdate_site_info{name="cold",namespace="shops",release="1.0"}`:                                 1,
		`drupdate_site_info{name="odd",namespace="shops",release="1.0"}`:                                  1,
		`drupdate_site_phase_seconds{name="busy",namespace="shops",phase="UpdatingDatabase"}`:             90,
		`drupdate_site_failed{condition="DBUpdatesFailed",name="cold",namespace="shops",reason="Frozen"}`: 1,
		`drupdate_site_failed{condition="CodeUpdateFailed",name="odd",namespace="shops",reason="Other"}`:  1,
	}, gathered(t, elected, now,
		measured("new", func(*v1alpha1.DrupalSite) {}),
		measured("good", func(s *v1alpha1.DrupalSite) {
			s.Status.Release.Serving = "2.0"
			s.Status.Run = &v1alpha1.RunStatus{Phase: "Succeeded", PhaseStartedAt: &then}
			s.Status.Conditions = []metav1.Condition{{Type: "CodeUpdateFailed", Status: "False", Reason: "x"}}
		}),
		measured("busy", func(s *v1alpha1.DrupalSite) {
			s.Annotations = map[string]string{v1alpha1.AnnotationUpdateInProgress: "true"}
			s.Status.Run = &v1alpha1.RunStatus{Phase: "UpdatingDatabase", PhaseStartedAt: &then}
		}),
		measured("cold", func(s *v1alpha1.DrupalSite) {
			s.Status.Run = &v1alpha1.RunStatus{Phase: "Frozen"}
			s.Status.Conditions = []metav1.Condition{{Type: "DBUpdatesFailed", Status: "True", Reason: "Frozen"}}
		}),
		measured("odd", func(s *v1alpha1.DrupalSite) {
			s.Status.Run = &v1alpha1.RunStatus{Phase: "ByHand"}
			s.Status.Conditions = []metav1.Condition{{Type: "CodeUpdateFailed", Status: "True", Reason: "ByHand"}}
		}),
	))
}

// The sites of two watchers would be counted twice.
func TestAWatcherThatDoesNotLeadHasNoSites(t *testing.T) {
	t.Parallel()
	require.Empty(t, gathered(t, make(chan struct{}), time.Now(), measured("new", func(*v1alpha1.DrupalSite) {})))
}

func TestTheOrchestratorIsUpWhenItAnswered(t *testing.T) {
	t.Parallel()
	starter := &fakeStarter{}
	p := newProbe(starter)
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.up)
	up := func() float64 { return metricstest.Values(t, registry)["drupdate_orchestrator_up"] }
	p.ask(t.Context())
	require.InDelta(t, 1, up(), 0)
	starter.err = errors.New("away")
	p.ask(t.Context())
	require.InDelta(t, 0, up(), 0)
	starter.err = nil
	p.ask(t.Context())

	stopping, stop := context.WithCancel(t.Context())
	stop()
	starter.err = context.Canceled
	require.NoError(t, p.Start(stopping))
	require.InDelta(t, 1, up(), 0, "a watcher that stops learns nothing about Temporal")
}
