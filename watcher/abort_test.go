package watcher

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func aborted(value string) siteEdit {
	return func(s *v1alpha1.DrupalSite) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[v1alpha1.AnnotationAbort] = value
	}
}

func TestANewValueOfTheAnnotationAbortsTheOpenRunOnce(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, updating(update.PhaseRollingOut))
	w.temporal.open = map[string]bool{shopSite.UpdateID(): true}
	w.edit(aborted("1"))
	w.reconcile()
	w.reconcile()
	require.Equal(t, 1, w.temporal.aborts)
	require.Equal(t, "1", w.site().Status.ObservedAbort)
	require.Equal(t, 1, count(w.events.seen, "AbortRequested"))
	w.edit(aborted("2"))
	w.reconcile()
	require.Equal(t, 2, w.temporal.aborts)
	require.Equal(t, "2", w.site().Status.ObservedAbort)
}

func TestAStaleCacheDoesNotAbortTheNextRun(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, updating(update.PhaseRollingOut), aborted("1"))
	w.temporal.open = map[string]bool{shopSite.UpdateID(): true}
	stale := w.site()
	w.reconcile()
	w.stale = stale
	w.reconcile()
	require.Equal(t, 1, w.temporal.aborts)
}

func TestAnAbortWithoutAnOpenRunDoesNothingAndIsOver(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, aborted("1"))
	w.reconcile()
	require.Equal(t, "1", w.site().Status.ObservedAbort)
	require.Zero(t, count(w.events.seen, "AbortRequested"))
	w.temporal.open = map[string]bool{shopSite.UpdateID(): true}
	calls := w.temporal.calls
	w.reconcile()
	require.Zero(t, w.temporal.aborts)
	require.Equal(t, calls, w.temporal.calls, "an idle reconcile calls nobody")
}

func TestAnAbortWaitsForTemporal(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, updating(update.PhaseRollingOut), aborted("1"))
	w.temporal.open = map[string]bool{shopSite.UpdateID(): true}
	w.temporal.down()
	after := w.reconcile()
	require.NotZero(t, after)
	require.Empty(t, w.site().Status.ObservedAbort)
	require.Equal(t, "True TemporalUnreachable", w.condition(v1alpha1.ConditionOrchestratorUnavailable))
	w.temporal.err = nil
	w.pass(after)
	w.reconcile()
	require.Equal(t, 1, w.temporal.aborts)
	require.Equal(t, "1", w.site().Status.ObservedAbort)
}

func TestAnAbortGoesBeforeANewTarget(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, updating(update.PhaseRollingOut))
	w.temporal.open = map[string]bool{shopSite.UpdateID(): true}
	w.edit(aborted("1"))
	w.edit(wants("10.3.9"))
	w.reconcile()
	require.Equal(t, 1, w.temporal.aborts)
	require.Zero(t, w.temporal.abortedAfter)
	require.Len(t, w.temporal.retargets, 1)
}
