package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/drupdate/drupdate/internal/update"
)

func TestARecoveryThatCannotSuspendCronLooksAtTheJob(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.InProgress, w.state.Operation, w.state.LastPhase = true, "lost-run", update.PhaseUpdatingDatabase
	w.state.Releases.Target, w.state.Workload.Release = "r2", "r2"
	w.failing["SuspendCron"] = fatal(update.FailureCronBusy)
	_, _ = w.run(t)
	require.NotEqual(t, update.ReasonUntouched, w.conditions[update.ConditionDBUpdatesFailed].Reason, "nobody looked at the Job of the lost run")
	require.NotContains(t, w.history, "r1", "the old code meets a database that is being updated")
}

func TestARecoveredRestoreThatCannotSuspendCronLooksAtTheJob(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	w.state.InProgress, w.state.Operation, w.state.Restoring, w.state.LastPhase = true, "lost-run", "old", update.PhaseRewinding
	w.failing["SuspendCron"] = fatal(update.FailureCronBusy)
	_, _ = w.run(t)
	require.NotEmpty(t, w.ran, "nobody looked at the Job of the lost restore")
	require.Equal(t, update.OperationRewind, w.ran[0].Kind)
	for _, e := range w.events {
		require.NotEqual(t, string(update.PhaseNotRewound), e.Reason, "the database may have been dropped")
	}
}

func TestALostEndAfterAnUpdatedDatabaseLeavesNoReleaseToGoBackTo(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
	w.failing["ResumeCron"] = fatal(update.FailureForbidden)
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestoreFailed, phaseOf(t, err))
	// The person mends the rights, and asks again: another release, which turns out to be broken.
	delete(w.failing, "ResumeCron")
	w.state.Release, w.state.Retry = "r3", "mended"
	w.caches["r3"] = []update.Answer{{Outcome: update.Failed, Message: "broken"}}
	_, _ = w.run(t)
	require.NotContains(t, w.history, "r1", "r1 does not fit the database of r2")
}

func TestALostEndAfterAnUpdatedDatabaseKeepsTheDeploymentAtTheTarget(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
	w.failing["ResumeCron"] = fatal(update.FailureForbidden)
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestoreFailed, phaseOf(t, err))
	require.Equal(t, update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}, w.state.Releases)
	require.NotEmpty(t, w.backups, "the backup that the person needs is listed")
}

func TestCronJobsOfAMendedSiteComeBackThoughTheTargetFails(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.Releases = update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}
	w.state.Workload.Release, w.state.Retry, w.cron = "r2", "mended", "suspended"
	w.state.Release = "r3"
	w.conditions[update.ConditionDBUpdatesFailed] = update.Condition{Reason: update.ReasonFrozen}
	w.caches["r3"] = []update.Answer{{Outcome: update.Failed, Message: "broken"}}
	_, err := w.run(t)
	require.Equal(t, update.PhaseCodeFailed, phaseOf(t, err))
	w.state.Release = "r4"
	_, err = w.run(t)
	require.NoError(t, err)
	require.Empty(t, w.reasons())
	require.Equal(t, "resumed", w.cron)
}

func TestCronJobsOfAMendedSiteComeBackAfterARetarget(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.Releases = update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}
	w.state.Workload.Release, w.state.Retry, w.cron = "r2", "mended", "suspended"
	w.conditions[update.ConditionDBUpdatesFailed] = update.Condition{Reason: update.ReasonFrozen}
	_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		w.before["WaitRollout"] = func() {
			w.state.Release = "r3"
			env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r3"})
		}
	})
	require.NoError(t, err)
	require.Empty(t, w.reasons())
	require.Equal(t, "resumed", w.cron)
}

func TestAPreflightThatFailsAfterARetargetGoesBack(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"fails", "is aborted"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newAskingWorld()
			_, _ = w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
				w.before["WaitRollout"] = func() {
					w.state.Release = "r3"
					w.ops[update.OperationPreflight] = update.OperationResult{Outcome: update.Failed, Step: "preflight", Message: "Drupal does not bootstrap"}
					if how == "is aborted" {
						w.before["RunOperation"] = func() { env.SignalWorkflow(update.SignalAbort, nil) }
					}
					env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r3"})
				}
			})
			require.Equal(t, "r1", w.state.Workload.Release, "the Deployment has r2, which nobody verified and nobody wants")
		})
	}
}

func TestADeploymentThatIsMadeAnewAfterARestoreIsNoFailedRestore(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true, Step: "updatedb", Message: "hook threw"}
	w.rollouts["r1"] = update.Rollout{State: update.RolloutReplaced, Message: "the Deployment was deleted or replaced"}
	w.after["WaitRollout"] = func() {
		w.after["WaitRollout"] = func() { delete(w.rollouts, "r1"); w.state.Workload.UID = "d2" }
	}
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestored, phaseOf(t, err))
}

func TestAnUnknownAnswerOnARestoredDatabaseIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.pending["r1"] = []update.Pending{{Message: "SQLSTATE gone away"}, none()}
	w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true, Step: "updatedb", Message: "hook threw"}
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestored, phaseOf(t, err))
}

func TestAnUnknownAnswerAfterAChosenRestoreIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	w.pending["r1"] = []update.Pending{{Message: "SQLSTATE gone away"}, none()}
	a := w.restore(t, old)
	require.NoError(t, a.err)
	require.Equal(t, update.PhaseRewound, w.state.LastPhase)
}

func TestEveryConditionHasAReason(t *testing.T) {
	t.Parallel()
	for _, state := range []update.RolloutState{update.RolloutSuspended, update.RolloutReplaced} {
		w := newWorld()
		w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
		w.before["VerifySite"] = func() {
			w.failing["VerifySite"] = fatal(update.FailureReplaced)
			w.rollouts["r2"] = update.Rollout{State: state, Message: "the Deployment is scaled to zero"}
		}
		_, _ = w.run(t)
		require.NotEmpty(t, w.conditions[update.ConditionCodeUpdateFailed].Reason, "the schema asks for a reason: %+v", w.conditions)
	}
}

func TestNoConditionSaysRestoringWhenTheRunHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
	w.lost[update.OperationUpdate] = 9
	w.ops[update.OperationRestore] = update.OperationResult{Outcome: update.Failed, Step: update.StepTooLate, Touched: true, Message: "too late"}
	w.verify["r2"] = update.Answer{Outcome: update.Failed, Message: "status 500"}
	_, err := w.run(t)
	require.Equal(t, update.PhaseCodeFailed, phaseOf(t, err))
	require.NotEqual(t, update.ReasonRestoring, w.conditions[update.ConditionDBUpdatesFailed].Reason)
}

func TestAnAbortOfAPausedRunRollsBack(t *testing.T) {
	t.Parallel()
	w := newWorld()
	env := w.environment(20 * time.Second)
	w.after["WaitRollout"] = func() {
		env.SignalWorkflow(update.SignalPause, nil)
		env.SignalWorkflow(update.SignalAbort, nil)
	}
	env.ExecuteWorkflow(update.UpdateSiteWorkflow, update.Request{Site: site()})
	require.False(t, w.state.InProgress)
}

func TestAPauseDuringTheDatabaseUpdateDoesNotHoldItsUndoing(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true, Step: "updatedb", Message: "hook threw"}
	env := w.environment(20 * time.Second)
	w.before["RunOperation"] = func() { env.SignalWorkflow(update.SignalPause, nil) }
	env.ExecuteWorkflow(update.UpdateSiteWorkflow, update.Request{Site: site()})
	require.True(t, w.lifted, "the site stays in maintenance mode until somebody sends resume")
}
