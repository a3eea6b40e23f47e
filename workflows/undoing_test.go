package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// hookThrew is how an update ends whose updatedb failed.
var hookThrew = update.OperationResult{Outcome: update.Failed, Touched: true, Step: "updatedb", Message: "hook threw"}

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

// lostAfterUpdate is a site whose database was updated by a run that could not go on after that.
func lostAfterUpdate(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
	w.failing["ResumeCron"] = fatal(update.FailureForbidden)
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestoreFailed, phaseOf(t, err))
	return w
}

func TestALostEndAfterAnUpdatedDatabaseLeavesNoReleaseToGoBackTo(t *testing.T) {
	t.Parallel()
	w := lostAfterUpdate(t)
	// The person mends the rights, and asks again: another release, which turns out to be broken.
	delete(w.failing, "ResumeCron")
	w.state.Release, w.state.Retry = "r3", "mended"
	w.caches["r3"] = []update.Answer{{Outcome: update.Failed, Message: "broken"}}
	_, _ = w.run(t)
	require.NotContains(t, w.history, "r1", "r1 does not fit the database of r2")
}

func TestALostEndAfterAnUpdatedDatabaseKeepsTheDeploymentAtTheTarget(t *testing.T) {
	t.Parallel()
	w := lostAfterUpdate(t)
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
	w.ops[update.OperationUpdate] = hookThrew
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
	w.ops[update.OperationUpdate] = hookThrew
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
	w.ops[update.OperationUpdate] = hookThrew
	env := w.environment(20 * time.Second)
	w.before["RunOperation"] = func() { env.SignalWorkflow(update.SignalPause, nil) }
	env.ExecuteWorkflow(update.UpdateSiteWorkflow, update.Request{Site: site()})
	require.True(t, w.lifted, "the site stays in maintenance mode until somebody sends resume")
}

// untouchedAt is how an update ends that its script gave up before updatedb.
func untouchedAt(step string) update.OperationResult {
	return update.OperationResult{Outcome: update.Failed, Step: step, Message: "the volume is full"}
}

func TestALostRunLiftsWhatAnUntouchedDatabaseLeftClosed(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.ops[update.OperationUpdate] = untouchedAt("backup")
	var lost update.State
	w.nth("WaitRollout", 2, func() { lost = w.state })
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestored, phaseOf(t, err))
	require.Equal(t, "r1", lost.Workload.Release, "looked at while the code went back")
	require.Equal(t, w.ran[0].RunID, lost.Lift)
	require.Empty(t, lost.Operation, "a worker of a version before knows no other meaning")
	require.Empty(t, w.state.Lift)
	require.Equal(t, []update.OperationKind{update.OperationUpdate, update.OperationLift}, w.kinds())

	// The same run, lost at that moment.
	again := newWorld()
	again.state = lost
	again.conditions[update.ConditionDBUpdatesFailed] = update.Condition{Type: update.ConditionDBUpdatesFailed, Reason: update.ReasonUntouched}
	_, err = again.run(t)
	require.Equal(t, update.PhaseRestored, phaseOf(t, err))
	require.Equal(t, []update.OperationKind{update.OperationLift}, again.kinds(), "neither updatedb nor a restore")
	require.Equal(t, lost.Lift, again.ran[0].RunID)
	require.Equal(t, map[string]string{update.ConditionDBUpdatesFailed: update.ReasonUntouched}, again.reasons())
	require.Equal(t, lost.LastMessage+" The site serves r1 on the database as it was before.", again.state.LastMessage)
	again.orderly(t)
}

func TestWhatWasRefusedBeforeItBeganNeedsNoJobToPutBack(t *testing.T) {
	t.Parallel()
	refused := untouchedAt(update.StepParameters)
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.ops[update.OperationUpdate], w.ops[update.OperationLift] = refused, refused
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestored, phaseOf(t, err))
	require.Equal(t, []update.OperationKind{update.OperationUpdate}, w.kinds())
	w.orderly(t)

	w = newSettledWorld()
	w.ops[update.OperationRewind], w.ops[update.OperationLift] = refused, refused
	a := w.restore(t, old)
	require.Equal(t, string(update.PhaseNotRewound), a.done.Failure)
	require.Equal(t, []update.OperationKind{update.OperationRewind}, w.kinds())
	require.Equal(t, "resumed", w.cron)
}

func TestWithoutBackupsTheScriptsRecordTellsWhetherTheSiteIsOpen(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, recorded, flag string
		end                  update.Phase
	}{
		{"it was open, and is", "0", "0", update.PhaseRestored},
		{"it was closed by its owner, and is", "1", "1", update.PhaseRestored},
		{"it was open, and could not be opened", "0", "1", update.PhaseRestoreFailed},
		{"it was open, and cannot be asked any more", "0", "", update.PhaseRestoreFailed},
		{"it was never closed", "", "", update.PhaseRestored},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.state.Settings.Backup = false
			w.pending["r2"] = []update.Pending{some("m_update_1")}
			result := untouchedAt("maintenance")
			result.Recorded, result.Maintenance = tc.recorded, tc.flag
			w.ops[update.OperationUpdate] = result
			_, err := w.run(t)
			require.Equal(t, tc.end, phaseOf(t, err))
		})
	}
}

func TestARollbackOfASiteThatIsScaledToZero(t *testing.T) {
	t.Parallel()
	broken := []update.Answer{{Outcome: update.Failed, Message: "broken"}}
	for _, tc := range []struct {
		name    string
		prepare func(*world)
		phase   update.Phase
		reasons map[string]string
		failed  string
	}{
		{
			"the target was broken", func(w *world) { w.caches["r2"] = broken },
			update.PhaseRolledBack,
			map[string]string{update.ConditionCodeUpdateFailed: update.ReasonCacheRebuildFailed},
			"r2",
		},
		{
			"no pod was there to be asked", func(w *world) {
				w.before["RebuildCaches"] = func() { w.failing["RebuildCaches"] = fatal(update.FailureNoAnswer) }
			},
			update.PhaseSuspended,
			map[string]string{},
			"",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.rollouts["r1"] = update.Rollout{State: update.RolloutSuspended, Message: "the Deployment is scaled to zero"}
			tc.prepare(w)
			_, err := w.run(t)
			if tc.failed != "" {
				require.Equal(t, tc.phase, phaseOf(t, err))
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tc.phase, w.state.LastPhase)
			require.Equal(t, tc.reasons, w.reasons())
			require.Equal(t, tc.failed, w.state.Releases.Failed)
			require.Equal(t, []string{"r1", "r1"}, []string{w.state.Workload.Release, w.state.Releases.Serving})
			require.Contains(t, w.state.LastMessage, "scaled to zero")
			require.False(t, w.state.InProgress)
		})
	}
}

func TestARunThatCannotLookAtASiteHalfWayLeavesItsRecord(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.InProgress, w.state.LastPhase, w.state.LastMessage = true, update.PhaseRollingBack, "The update to r2 failed."
	w.state.Releases.Target, w.state.Releases.Failed, w.state.Workload.Release = "r2", "r2", "r2"
	w.conditions[update.ConditionCodeUpdateFailed] = update.Condition{Type: update.ConditionCodeUpdateFailed, Reason: update.ReasonVerifyFailed}
	w.failing["Inspect"] = fatal(update.FailureForbidden)
	_, err := w.run(t)
	require.Equal(t, update.PhaseCodeFailed, phaseOf(t, err))
	require.Equal(t, update.PhaseRollingBack, w.state.LastPhase)
	require.Equal(t, update.FailureForbidden, w.conditions[update.ConditionCodeUpdateFailed].Reason)
	delete(w.failing, "Inspect")
	_, err = w.run(t)
	require.Equal(t, update.PhaseRolledBack, phaseOf(t, err))
	require.Equal(t, "r1", w.state.Workload.Release)
}

// A run that was terminated is followed by another, and then reset: it comes back with what it knew before.
func TestARunThatIsResetAfterAnotherOneLooksAgain(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"WriteReport", "SetRelease"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.nth(step, 1, func() {
				w.state.Release, w.state.Workload.Release, w.state.LastRunID = "r3", "r3", "successor"
				w.state.Releases = update.Releases{Serving: "r3", Failsafe: "r3", Target: "r3"}
				w.state.InProgress, w.state.LastPhase = false, update.PhaseSucceeded
			})
			_, err := w.run(t)
			require.NoError(t, err)
			require.Empty(t, w.history, "r2 is older than the database by now")
			require.Equal(t, "r3", w.state.Releases.Serving)
			w.orderly(t)
		})
	}
}

func TestAnAbortWhileTheNextTargetWaitsForItsWindowChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, _ = w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		w.nth("VerifySite", 1, func() {
			w.state.Release, w.state.OpensIn = "r3", 3*time.Hour
			env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r3"})
			env.RegisterDelayedCallback(func() { env.SignalWorkflow(update.SignalAbort, nil) }, time.Hour)
		})
	})
	require.Equal(t, update.PhaseAborted, w.state.LastPhase)
	require.Equal(t, []string{"r2"}, w.history)
	require.Equal(t, "r2", w.state.Releases.Serving)
	require.NotContains(t, w.state.LastMessage, "Rolled back")
}

func TestAnInstallationWithoutAVerdictIsNoFailedOne(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.Initialized, w.state.InstallProfile, w.state.Release = false, "minimal", "r1"
	w.install = []update.Installed{{State: update.InstallEmpty}}
	w.ops[update.OperationInstall] = update.OperationResult{Message: "the Job vanished"}
	env := w.environment(20 * time.Second)
	env.ExecuteWorkflow(update.CheckSiteWorkflow, update.CheckRequest{Site: site()})
	c := w.conditions[update.ConditionInitialized]
	require.Equal(t, []string{update.Maybe, update.ReasonProbeFailed}, []string{c.Status, c.Reason})
}

func TestARunThatIsSentElsewhereAgainAndAgainGoesOnInAnotherExecution(t *testing.T) {
	t.Parallel()
	w := newWorld()
	env := w.environment(20 * time.Second)
	w.nth("WaitRollout", 1, func() {
		w.state.Release = "r3"
		env.SetContinueAsNewSuggested(true)
		env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r3"})
	})
	env.ExecuteWorkflow(update.UpdateSiteWorkflow, update.Request{Site: site()})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &again)
	require.True(t, w.state.InProgress, "the site says that a run is open")
	_, err := w.run(t)
	require.NoError(t, err)
	require.Equal(t, []string{"r2", "r3"}, w.history)
	w.orderly(t)
}

// Somebody sets another image while the restore is lost: its notes on the volume are those of the release that ran.
func TestALostRestoreKeepsItsNotes(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	var lost update.State
	w.before["RunOperation"] = func() { lost = w.state }
	a := w.restore(t, old)
	require.NoError(t, a.err)
	notes := w.ran[0].BackupName
	require.Equal(t, notes, lost.Journal)

	again := newSettledWorld()
	again.state = lost
	again.state.Workload.Release = "r9"
	_, _ = again.run(t)
	require.Equal(t, []update.OperationKind{update.OperationRewind, update.OperationLift}, again.kinds())
	for _, o := range again.ran {
		require.Equal(t, notes, o.BackupName)
	}
	require.Empty(t, again.state.Journal)
}
