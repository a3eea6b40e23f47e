package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drupdate/drupdate/internal/update"
)

// Bounds of the histograms, in seconds. An update takes from a minute to hours, a question to Drush at most minutes.
var (
	updateBuckets = []float64{5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400}
	drushBuckets  = []float64{0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
)

// Worker is what a worker counts and times. Its methods may be called from many goroutines.
type Worker struct {
	updates        *prometheus.CounterVec
	durations      *prometheus.HistogramVec
	maintenance    prometheus.Histogram
	backupFailures prometheus.Counter
	drush          *prometheus.HistogramVec
	notifications  *prometheus.CounterVec
}

// NewWorker makes the worker's metrics and registers them. Counters of what alerts and dashboards ask for begin at
// zero, so that the first failure is an increase.
func NewWorker(registry prometheus.Registerer) *Worker {
	w := &Worker{
		updates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drupdate_updates_total", Help: "Updates that ended, by how, and by the reason of the failure.",
		}, []string{"result", "reason"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drupdate_update_duration_seconds", Buckets: updateBuckets,
			Help: "Time that updates spent in a phase, and in all of them (phase Run, from the mark on the site to its end).",
		}, []string{"phase", "result"}),
		maintenance: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drupdate_maintenance_seconds", Buckets: updateBuckets,
			Help: "Time from the start of a database operation until the site was out of maintenance mode again.",
		}),
		backupFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drupdate_backup_failures_total", Help: "Database updates that were given up because their backup failed.",
		}),
		drush: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drupdate_drush_duration_seconds", Buckets: drushBuckets, Help: "Time that Drush took to answer a question, by exec.",
		}, []string{"command", "result"}),
		notifications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drupdate_notifications_total", Help: "Requests to the webhook, by result.",
		}, []string{"result"}),
	}
	registry.MustRegister(w.updates, w.durations, w.maintenance, w.backupFailures, w.drush, w.notifications)
	w.begin()
	return w
}

// begin makes the series that can be told beforehand.
func (w *Worker) begin() {
	for _, phase := range endPhases {
		switch phase {
		case update.PhaseRolledBack, update.PhaseCodeFailed:
			for _, reason := range codeReasons {
				w.updates.WithLabelValues(string(phase), reason)
			}
		case update.PhaseRestored:
			w.updates.WithLabelValues(string(phase), update.ReasonRestored)
			w.updates.WithLabelValues(string(phase), update.ReasonUntouched)
		case update.PhaseRollbackFailed, update.PhaseFrozen, update.PhaseRestoreFailed, update.PhaseAborted:
			w.updates.WithLabelValues(string(phase), string(phase)) // Their reasons have the phases' names.
		default:
			w.updates.WithLabelValues(string(phase), None)
		}
	}
	w.notifications.WithLabelValues(Succeeded)
	w.notifications.WithLabelValues(Failed)
}

// UpdateEnded counts an update by its last phase and the reason of its failure, empty for none, and times it unless
// took is zero.
func (w *Worker) UpdateEnded(end update.Phase, reason string, took time.Duration) {
	w.updates.WithLabelValues(Phase(string(end)), Reason(reason)).Inc()
	if took > 0 {
		w.durations.WithLabelValues(Run, resultOf(end)).Observe(took.Seconds())
	}
}

// PhaseEnded times a phase by how it ended; see PhaseResult.
func (w *Worker) PhaseEnded(phase, next update.Phase, reason string, took time.Duration) {
	w.durations.WithLabelValues(Phase(string(phase)), PhaseResult(phase, next, reason)).Observe(took.Seconds())
}

// MaintenanceEnded times how long a site was held in maintenance mode.
func (w *Worker) MaintenanceEnded(took time.Duration) { w.maintenance.Observe(took.Seconds()) }

// BackupFailed counts a database update that was given up because its backup failed.
func (w *Worker) BackupFailed() { w.backupFailures.Inc() }

// DrushAnswered times one command. The commands are words of the code, never of a site.
func (w *Worker) DrushAnswered(command, result string, took time.Duration) {
	w.drush.WithLabelValues(command, result).Observe(took.Seconds())
}

// NotificationSent counts one request to the webhook.
func (w *Worker) NotificationSent(ok bool) {
	if ok {
		w.notifications.WithLabelValues(Succeeded).Inc()
		return
	}
	w.notifications.WithLabelValues(Failed).Inc()
}
