package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drupdate/drupdate/internal/update"
)

// runMetrics counts and times runs by how they ended. No site is a label: there may be thousands.
type runMetrics struct {
	ended *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newRunMetrics() *runMetrics {
	m := &runMetrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drupdate_runs_total", Help: "Runs that ended, by result.",
		}, []string{"result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drupdate_run_duration_seconds", Help: "Time from the mark on a site to the end of its run, by result.",
			Buckets: []float64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400},
		}, []string{"result"}),
	}
	ctrlmetrics.Registry.MustRegister(m.ended, m.took)
	return m
}

// RunEnded implements activities.Metrics.
func (m *runMetrics) RunEnded(result update.Phase, took time.Duration) {
	m.ended.WithLabelValues(string(result)).Inc()
	if took > 0 {
		m.took.WithLabelValues(string(result)).Observe(took.Seconds())
	}
}
