package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/metrics"
	"github.com/drupdate/drupdate/internal/metrics/metricstest"
	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/internal/updatetest"
)

func TestHowAPhaseEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		phase, next update.Phase
		reason      string
		want        string
	}{
		"the next step follows":                      {update.PhaseRollingOut, update.PhaseRebuildingCaches, "", metrics.Succeeded},
		"the target's Drush answers":                 {update.PhasePreflight, update.PhaseRollingOut, "", metrics.Succeeded},
		"the target's Drush fails":                   {update.PhasePreflight, update.PhaseCodeFailed, update.ReasonPreflightFailed, metrics.Failed},
		"another target is asked":                    {update.PhaseCheckingDatabase, update.PhasePreflight, "", metrics.Interrupted},
		"the last step succeeds":                     {update.PhaseVerifying, update.PhaseSucceeded, "", metrics.Succeeded},
		"it is rolled back":                          {update.PhaseRollingOut, update.PhaseRollingBack, "CrashLoopBackOff", metrics.Failed},
		"a person aborts it":                         {update.PhaseRollingOut, update.PhaseRollingBack, update.ReasonAborted, metrics.Interrupted},
		"a person aborts it, nothing to go back to":  {update.PhaseRollingOut, update.PhaseAborted, update.ReasonAborted, metrics.Interrupted},
		"another target comes":                       {update.PhaseCheckingDatabase, update.PhaseRollingOut, "", metrics.Interrupted},
		"the Deployment is scaled down":              {update.PhaseRollingOut, update.PhaseSuspended, "", metrics.Interrupted},
		"the database update fails":                  {update.PhaseUpdatingDatabase, update.PhaseRestoring, update.ReasonRestoring, metrics.Failed},
		"the database update fails and stays":        {update.PhaseUpdatingDatabase, update.PhaseFrozen, update.ReasonFrozen, metrics.Failed},
		"the rollback succeeds":                      {update.PhaseRollingBack, update.PhaseRolledBack, "CrashLoopBackOff", metrics.Succeeded},
		"the rollback of an aborted update succeeds": {update.PhaseRollingBack, update.PhaseAborted, update.ReasonAborted, metrics.Succeeded},
		"the rollback fails":                         {update.PhaseRollingBack, update.PhaseRollbackFailed, update.ReasonRollbackFailed, metrics.Failed},
		"the restore succeeds":                       {update.PhaseRestoring, update.PhaseRestored, update.ReasonRestored, metrics.Succeeded},
		"the restore fails":                          {update.PhaseRestoring, update.PhaseRestoreFailed, update.ReasonRestoreFailed, metrics.Failed},
		"the site does not work":                     {update.PhaseVerifying, update.PhaseCodeFailed, update.ReasonVerifyFailed, metrics.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, metrics.PhaseResult(c.phase, c.next, c.reason))
		})
	}
}

// A reason that is added to the contract must not become Other in metrics and alerts.
func TestEveryReasonOfTheContractIsKnown(t *testing.T) {
	t.Parallel()
	for _, reason := range updatetest.Reasons(t) {
		require.Equal(t, reason, metrics.Reason(reason))
	}
}

func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"None", "RollingOut", "Other"}, []string{metrics.Phase(""), metrics.Phase("RollingOut"), metrics.Phase("by hand")})
	require.Equal(t, []string{"None", "Frozen", "Other"}, []string{metrics.Reason(""), metrics.Reason("Frozen"), metrics.Reason("by hand")})
	for _, phase := range metrics.Phases() {
		if phase != metrics.None && phase != metrics.Other {
			require.Equal(t, phase, metrics.Phase(phase))
		}
	}
	registry := prometheus.NewRegistry()
	w := metrics.NewWorker(registry)
	for i := range 100 {
		word := string(rune('a'+i%26)) + string(rune('a'+i/26))
		w.UpdateEnded(update.Phase(word), word, time.Second)
		w.PhaseEnded(update.Phase(word), update.Phase(word), word, time.Second)
	}
	require.Equal(t, map[string]float64{
		`drupdate_updates_total{reason="Other",result="Other"}`:                    100,
		`drupdate_update_duration_seconds_count{phase="Run",result="Failed"}`:      100,
		`drupdate_update_duration_seconds_sum{phase="Run",result="Failed"}`:        100,
		`drupdate_update_duration_seconds_count{phase="Other",result="Succeeded"}`: 100,
		`drupdate_update_duration_seconds_sum{phase="Other",result="Succeeded"}`:   100,
	}, metricstest.Values(t, registry))
}

// What the first failure is compared with is there from the start.
func TestFailuresBeginAtZero(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics.NewWorker(registry)
	families, err := registry.Gather()
	require.NoError(t, err)
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
	}
	require.Greater(t, series["drupdate_updates_total"], 40)
	require.Equal(t, 1, series["drupdate_backup_failures_total"])
	require.Equal(t, 1, series["drupdate_maintenance_seconds"])
}

func TestTheSDKsMetricsHaveTheSDKsNames(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	handler, err := metrics.Temporal(registry)
	require.NoError(t, err)
	tagged := handler.WithTags(map[string]string{"task_queue": "drupdate"})
	tagged.Counter("temporal_request").Inc(2)
	tagged.Gauge("temporal_num_pollers").Update(3)
	tagged.Timer("temporal_request_latency").Record(1500 * time.Millisecond)
	require.Equal(t, map[string]float64{
		`temporal_request_total{task_queue="drupdate"}`:                 2,
		`temporal_num_pollers{task_queue="drupdate"}`:                   3,
		`temporal_request_latency_seconds_count{task_queue="drupdate"}`: 1,
		`temporal_request_latency_seconds_sum{task_queue="drupdate"}`:   1.5,
	}, metricstest.Values(t, registry))
}
