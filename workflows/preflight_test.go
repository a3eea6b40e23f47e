package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/drupdate/drupdate/internal/update"
)

// newAskingWorld is an installed site whose owner wants r2, and wants it asked first.
func newAskingWorld() *world {
	w := newWorld()
	w.state.Settings.Preflight = true
	return w
}

func (w *world) kinds() []update.OperationKind {
	var kinds []update.OperationKind
	for _, op := range w.ran {
		kinds = append(kinds, op.Kind)
	}
	return kinds
}

func TestAGoodPreflightGoesOnAndSaysWhatDrushSaid(t *testing.T) {
	t.Parallel()
	w := newAskingWorld()
	var serving string
	w.before["RunOperation"] = func() { serving = w.state.Workload.Release }
	var said string
	w.before["SetRelease"] = func() { said = w.state.LastMessage }
	summary, err := w.run(t)
	require.NoError(t, err)
	require.Equal(t, update.PhaseSucceeded, summary.Phase)
	require.Equal(t, "r1", serving, "it is asked before the image changes")
	require.Equal(t, []update.OperationKind{update.OperationPreflight}, w.kinds())
	require.Equal(t, "r2", w.ran[0].Release)
	require.Equal(t, "Moving to r2. Drush bootstraps with r2, and sees 1 pending update: m_update_1.", said)
	require.Contains(t, w.events, update.Event{Reason: "PreflightPassed", Message: "Drush bootstraps with r2, and sees 1 pending update: m_update_1."})
	w.orderly(t)
}

func TestAPreflightThatFailsCostsTheSiteNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		arrange func(*world)
		jobs    int
	}{
		{"Drush does not bootstrap", func(w *world) {
			w.ops[update.OperationPreflight] = update.OperationResult{Outcome: update.Failed, Step: "preflight", Message: "Drupal does not bootstrap"}
		}, 1},
		{"its outcome stays unknown", func(w *world) { w.lost[update.OperationPreflight] = 9 }, 3},
		{"it cannot be carried out", func(w *world) { w.failing["RunOperation"] = fatal(update.FailureContainerMissing) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newAskingWorld()
			tc.arrange(w)
			_, err := w.run(t)
			require.Equal(t, update.PhaseCodeFailed, phaseOf(t, err))
			require.Equal(t, map[string]string{update.ConditionCodeUpdateFailed: update.ReasonPreflightFailed}, w.reasons())
			require.Equal(t, failedOnR1, w.state.Releases)
			require.NotContains(t, w.calls, "SetRelease")
			require.NotContains(t, w.calls, "RebuildCaches")
			require.Len(t, w.ran, tc.jobs)
			w.orderly(t)
		})
	}
}

func TestAPreflightWhoseJobIsLostIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newAskingWorld()
	w.lost[update.OperationPreflight] = 2
	summary, err := w.run(t)
	require.NoError(t, err)
	require.Equal(t, update.PhaseSucceeded, summary.Phase)
	require.Len(t, w.ran, 3)
	require.Equal(t, []int{1, 2, 3}, []int{w.ran[0].Attempt, w.ran[1].Attempt, w.ran[2].Attempt})
	require.Equal(t, w.ran[0].RunID, w.ran[2].RunID)
}

func TestAPreflightCutShortChangesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancel", "abort"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newAskingWorld()
			summary, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
				w.before["RunOperation"] = func() {
					if how == "cancel" {
						env.CancelWorkflow()
					} else {
						env.SignalWorkflow(update.SignalAbort, nil)
					}
				}
			})
			if how == "cancel" {
				require.True(t, temporal.IsCanceledError(err), "%v", err)
			} else {
				require.Equal(t, update.PhaseAborted, summary.Phase)
			}
			require.NotContains(t, w.calls, "SetRelease")
			require.NotContains(t, w.calls, "RebuildCaches")
			require.Equal(t, failedOnR1, w.state.Releases)
			w.orderly(t)
		})
	}
}

func TestANewTargetDuringAPreflightIsAskedInItsPlace(t *testing.T) {
	t.Parallel()
	w := newAskingWorld()
	_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		w.before["RunOperation"] = func() {
			w.state.Release = "r3"
			env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r3"})
		}
	})
	require.NoError(t, err)
	require.Equal(t, []string{"r3"}, w.history)
	asked := w.ran[len(w.ran)-1]
	require.Equal(t, "r3", asked.Release)
	require.NotEqual(t, site().UID, asked.RunID)
	w.orderly(t)
}

func TestWhatHasTheImageAlreadyIsNotAskedFirst(t *testing.T) {
	t.Parallel()
	w := newAskingWorld()
	w.state.Workload.Release = "r2"
	_, err := w.run(t)
	require.NoError(t, err)
	require.Empty(t, w.ran)
}
