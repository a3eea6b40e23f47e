package workflows_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/workflows"
)

// failed is the reading of a site whose target r2 failed and which serves r1.
var failedOnR1 = update.Releases{Serving: "r1", Failsafe: "r1", Target: "r2", Failed: "r2"}

func TestUpdateSite(t *testing.T) {
	t.Parallel()
	bad := update.Answer{Outcome: update.Failed, Message: "broken container"}
	for _, tc := range []struct {
		name     string
		arrange  func(*world)
		phase    update.Phase
		releases update.Releases
		reasons  map[string]string
		history  []string
		lifted   bool
	}{
		{
			name: "a good release without database updates is verified and becomes the failsafe", arrange: func(*world) {},
			phase: update.PhaseSucceeded, releases: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"}, history: []string{"r2"},
		},
		{
			name: "pending database updates are applied by one operation",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
			},
			phase: update.PhaseSucceeded, releases: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"}, history: []string{"r2"},
		},
		{
			name: "a first cache rebuild that fails is tried again",
			arrange: func(w *world) {
				w.caches["r2"] = []update.Answer{bad, {Outcome: update.Succeeded}}
			},
			phase: update.PhaseSucceeded, releases: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"}, history: []string{"r2"},
		},
		{
			name:    "cache rebuilds that always fail roll back",
			arrange: func(w *world) { w.caches["r2"] = []update.Answer{bad} },
			phase:   update.PhaseRolledBack, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonCacheRebuildFailed},
		},
		{
			name: "a rollout that fails rolls back with its own reason",
			arrange: func(w *world) {
				w.rollouts["r2"] = update.Rollout{State: update.RolloutFailed, Reason: "ImagePullBackOff", Message: "no such image"}
			},
			phase: update.PhaseRolledBack, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: "ImagePullBackOff"},
		},
		{
			name: "a rollback that fails as well stops and says so",
			arrange: func(w *world) {
				w.caches["r2"], w.caches["r1"] = []update.Answer{bad}, []update.Answer{bad}
			},
			phase: update.PhaseRollbackFailed, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonRollbackFailed},
		},
		{
			name: "a rollback follows a Deployment that is deleted and made anew",
			arrange: func(w *world) {
				w.caches["r2"] = []update.Answer{bad}
				w.rollouts["r1"] = update.Rollout{State: update.RolloutReplaced, Message: "the Deployment was deleted or replaced"}
				w.nth("WaitRollout", 4, func() { delete(w.rollouts, "r1") })
			},
			phase: update.PhaseRolledBack, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonCacheRebuildFailed},
		},
		{
			name: "a rollback follows a Deployment that was made anew before its caches",
			arrange: func(w *world) {
				w.caches["r2"] = []update.Answer{bad}
				w.nth("WaitRollout", 2, func() { w.state.Workload.Release, w.failing["RebuildCaches"] = "r0", fatal(update.FailureReplaced) })
				w.nth("WaitRollout", 3, func() { delete(w.failing, "RebuildCaches") })
			},
			phase: update.PhaseRolledBack, releases: failedOnR1, history: []string{"r2", "r1", "r1"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonCacheRebuildFailed},
		},
		{
			name: "a rollback does not follow a Deployment for ever",
			arrange: func(w *world) {
				w.caches["r2"] = []update.Answer{bad}
				w.rollouts["r1"] = update.Rollout{State: update.RolloutReplaced, Message: "the Deployment was deleted or replaced"}
			},
			phase: update.PhaseRollbackFailed, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonRollbackFailed},
		},
		{
			name: "a run that was reset and finds its own rollback leaves no verdict of its other life",
			arrange: func(w *world) {
				w.before["RebuildCaches"] = func() {
					w.state.Releases.Failed, w.failing["RebuildCaches"] = "r2", fatal(update.FailureReplaced)
					w.conditions[update.ConditionCodeUpdateFailed] = update.Condition{Reason: update.ReasonCacheRebuildFailed}
				}
			},
			phase: update.PhaseSuperseded, releases: update.Releases{Serving: "r1", Failsafe: "r1", Target: "r2"}, history: []string{"r2"},
			reasons: map[string]string{},
		},
		{
			name: "a first release that fails has nothing to go back to",
			arrange: func(w *world) {
				w.state.Releases = update.Releases{}
				w.caches["r2"] = []update.Answer{bad}
			},
			phase: update.PhaseCodeFailed, releases: update.Releases{Target: "r2", Failed: "r2"}, history: []string{"r2"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonCacheRebuildFailed},
		},
		{
			name:    "an unknown answer about pending updates is a code failure, never none",
			arrange: func(w *world) { w.pending["r2"] = []update.Pending{{Message: "stream cut"}} },
			phase:   update.PhaseRolledBack, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{
				update.ConditionCodeUpdateFailed: update.ReasonDatabaseUnknown, update.ConditionDBUpdatesPending: update.ReasonProbeFailed,
			},
		},
		{
			name: "an unknown answer is asked for again",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{{}, {}, none()}
			},
			phase: update.PhaseSucceeded, releases: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"}, history: []string{"r2"},
		},
		{
			name: "a database update that fails is restored, then the code goes back, then maintenance is lifted",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1")}
				w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true, Step: "updatedb", Message: "hook threw"}
			},
			phase: update.PhaseRestored, releases: failedOnR1, history: []string{"r2", "r1"}, lifted: true,
			reasons: map[string]string{
				update.ConditionDBUpdatesFailed: update.ReasonRestored, update.ConditionDBUpdatesPending: update.ReasonUpdatesPending,
			},
		},
		{
			name: "an operation of unknown outcome is restored as well",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1")}
				w.ops[update.OperationUpdate] = update.OperationResult{Message: "the Job is gone"}
			},
			phase: update.PhaseRestored, releases: failedOnR1, history: []string{"r2", "r1"}, lifted: true,
			reasons: map[string]string{
				update.ConditionDBUpdatesFailed: update.ReasonRestored, update.ConditionDBUpdatesPending: update.ReasonUpdatesPending,
			},
		},
		{
			name: "a backup that fails touches nothing: the code goes back and nothing is restored",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1")}
				w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Step: "backup", Message: "dump truncated"}
				w.ops[update.OperationRestore] = update.OperationResult{Outcome: update.Failed, Message: "must not run"}
			},
			phase: update.PhaseRestored, releases: failedOnR1, history: []string{"r2", "r1"}, lifted: true,
			reasons: map[string]string{
				update.ConditionDBUpdatesFailed: update.ReasonUntouched, update.ConditionDBUpdatesPending: update.ReasonUpdatesPending,
			},
		},
		{
			name: "a restore that fails stops with maintenance mode on",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1")}
				w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true}
				w.ops[update.OperationRestore] = update.OperationResult{Outcome: update.Failed, Message: "no space"}
			},
			phase:    update.PhaseRestoreFailed,
			releases: update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}, history: []string{"r2"},
			reasons: map[string]string{
				update.ConditionDBUpdatesFailed: update.ReasonRestoreFailed, update.ConditionDBUpdatesPending: update.ReasonOutcomeUnknown,
			},
		},
		{
			name: "a backup volume that lost its notes is no proof that updatedb never began",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1")}
				w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true}
				w.ops[update.OperationRestore] = update.OperationResult{Outcome: update.Succeeded, Step: update.StepNothingToRestore}
			},
			phase:    update.PhaseRestoreFailed,
			releases: update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}, history: []string{"r2"},
			reasons: map[string]string{
				update.ConditionDBUpdatesFailed: update.ReasonRestoreFailed, update.ConditionDBUpdatesPending: update.ReasonOutcomeUnknown,
			},
		},
		{
			name: "an update whose verdict was lost after it finished is finished, not restored",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
				w.ops[update.OperationUpdate] = update.OperationResult{Message: "the Job is gone"}
				w.ops[update.OperationRestore] = update.OperationResult{Outcome: update.Failed, Step: update.StepTooLate}
			},
			phase: update.PhaseSucceeded, releases: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"}, history: []string{"r2"}, lifted: true,
		},
		{
			name: "freeze leaves code, database and maintenance mode",
			arrange: func(w *world) {
				w.state.Settings.Restore = false
				w.pending["r2"] = []update.Pending{some("m_update_1")}
				w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true}
			},
			phase:    update.PhaseFrozen,
			releases: update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}, history: []string{"r2"},
			reasons: map[string]string{
				update.ConditionDBUpdatesFailed: update.ReasonFrozen, update.ConditionDBUpdatesPending: update.ReasonOutcomeUnknown,
			},
		},
		{
			name: "freeze tells that updates are pending where it is known",
			arrange: func(w *world) {
				w.state.Settings.Restore = false
				w.pending["r2"] = []update.Pending{some("m_update_1")}
				w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true, Pending: 1}
			},
			phase:    update.PhaseFrozen,
			releases: update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}, history: []string{"r2"},
			reasons: map[string]string{
				update.ConditionDBUpdatesFailed: update.ReasonFrozen, update.ConditionDBUpdatesPending: update.ReasonUpdatesPending,
			},
		},
		{
			name: "a site that does not work after its database update is kept: its backup is older than what users wrote",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1")}
				w.verify["r2"] = update.Answer{Outcome: update.Failed, Message: "bootstrap failed"}
			},
			phase: update.PhaseCodeFailed, releases: update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}, history: []string{"r2"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonVerifyFailed},
		},
		{
			name:    "a site that does not work without database updates is rolled back",
			arrange: func(w *world) { w.verify["r2"] = update.Answer{Outcome: update.Failed, Message: "bootstrap failed"} },
			phase:   update.PhaseRolledBack, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonVerifyFailed},
		},
		{
			name: "a suspended Deployment judges nothing",
			arrange: func(w *world) {
				w.rollouts["r2"] = update.Rollout{State: update.RolloutSuspended, Message: "the Deployment asks for no replicas"}
			},
			phase: update.PhaseSuspended, releases: update.Releases{Serving: "r1", Failsafe: "r1", Target: "r2"}, history: []string{"r2", "r1"},
			reasons: map[string]string{},
		},
		{
			name: "an image that somebody else keeps setting is not fought over",
			arrange: func(w *world) {
				w.rollouts["r2"] = update.Rollout{State: update.RolloutOverruled, Message: "another manager sets the image"}
			},
			phase: update.PhaseCodeFailed, releases: failedOnR1, history: []string{"r2"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonOverruled},
		},
		{
			name: "a database that belongs to newer code is not updated, and the code goes back",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{{State: update.PendingAhead, Updates: []string{"m_update_9"}, Count: 1, Message: "m_update_9"}}
			},
			phase: update.PhaseRolledBack, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.ReasonDatabaseAhead},
		},
		{
			name: "a restored database that is still ahead of the old code stays in maintenance mode",
			arrange: func(w *world) {
				w.pending["r2"], w.ops[update.OperationUpdate] = []update.Pending{some("m_update_9")}, update.OperationResult{Outcome: update.Failed, Touched: true}
				w.pending["r1"] = []update.Pending{{State: update.PendingAhead, Message: "m_update_9"}}
			},
			phase: update.PhaseRestoreFailed, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{update.ConditionDBUpdatesFailed: update.ReasonRestoreFailed, update.ConditionDBUpdatesPending: update.ReasonUpdatesPending},
		},
		{
			name: "a replaced Deployment ends the run",
			arrange: func(w *world) {
				w.rollouts["r2"] = update.Rollout{State: update.RolloutReplaced}
			},
			phase: update.PhaseSuperseded, releases: update.Releases{Serving: "r1", Failsafe: "r1", Target: "r2"}, history: []string{"r2"},
			reasons: map[string]string{},
		},
		{
			name: "a Deployment that was made anew before the caches ends the run",
			arrange: func(w *world) {
				w.failing["RebuildCaches"] = fatal(update.FailureReplaced)
			},
			phase: update.PhaseSuperseded, releases: update.Releases{Serving: "r1", Failsafe: "r1", Target: "r2"}, history: []string{"r2"},
			reasons: map[string]string{},
		},
		{
			name: "a Deployment that was made anew before Drush is asked ends the run",
			arrange: func(w *world) {
				w.failing["PendingUpdates"] = fatal(update.FailureReplaced)
			},
			phase: update.PhaseSuperseded, releases: update.Releases{Serving: "r1", Failsafe: "r1", Target: "r2"}, history: []string{"r2"},
			reasons: map[string]string{},
		},
		{
			name: "a Deployment that was made anew before the last check ends the run",
			arrange: func(w *world) {
				w.failing["VerifySite"] = fatal(update.FailureReplaced)
			},
			phase: update.PhaseSuperseded, releases: update.Releases{Serving: "r1", Failsafe: "r1", Target: "r2"}, history: []string{"r2"},
			reasons: map[string]string{},
		},
		{
			name: "a Deployment that was made anew before the operation ends the run, and nothing is begun",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
				w.failing["RunOperation"] = fatal(update.FailureReplaced)
			},
			phase: update.PhaseSuperseded, releases: update.Releases{Serving: "r1", Failsafe: "r1", Target: "r2"}, history: []string{"r2"},
			reasons: map[string]string{update.ConditionDBUpdatesPending: update.ReasonUpdatesPending},
		},
		{
			name: "old code on an updated database is followed by the target's",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
				w.before["VerifySite"] = func() {
					w.state.Workload.Release, w.failing["VerifySite"] = "r1", fatal(update.FailureReplaced)
					w.before["WaitRollout"] = func() { delete(w.failing, "VerifySite") }
				}
			},
			phase: update.PhaseSucceeded, releases: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"}, history: []string{"r2", "r2"},
			reasons: map[string]string{},
		},
		{
			name: "an image that somebody keeps setting on an updated database is a failure that keeps the database",
			arrange: func(w *world) {
				w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
				w.failing["VerifySite"] = fatal(update.FailureReplaced)
			},
			phase: update.PhaseCodeFailed, releases: update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}, history: []string{"r2"},
			reasons: map[string]string{
				update.ConditionCodeUpdateFailed: update.FailureReplaced,
			},
		},
		{
			name: "a missing Drush is not tried twice and rolls back",
			arrange: func(w *world) {
				w.caches["r2"] = []update.Answer{{Outcome: update.Failed, Reason: update.FailureDrushMissing, Message: "drush: not found"}}
			},
			phase: update.PhaseRolledBack, releases: failedOnR1, history: []string{"r2", "r1"},
			reasons: map[string]string{update.ConditionCodeUpdateFailed: update.FailureDrushMissing},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			tc.arrange(w)
			summary, err := w.run(t)
			if err != nil {
				summary.Phase = phaseOf(t, err)
			}
			require.Equal(t, tc.phase, summary.Phase)
			require.Equal(t, tc.releases, w.state.Releases)
			require.Equal(t, tc.history, w.history)
			require.Equal(t, tc.lifted, w.lifted)
			if tc.reasons == nil {
				tc.reasons = map[string]string{}
			}
			require.Equal(t, tc.reasons, w.reasons())
			w.orderly(t)
		})
	}
}

func TestRunWithNothingToDoEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		arrange func(*world)
	}{
		{"the site is at its release", func(w *world) { w.state.Release = "r1" }},
		{"the target failed before and nobody asks again", func(w *world) {
			w.state.Releases.Failed = "r2"
			w.conditions[update.ConditionCodeUpdateFailed] = update.Condition{Reason: "x"}
		}},
		{"a frozen site waits for a person", func(w *world) {
			w.state.Release = "r3"
			w.state.Releases.Failed = "r2"
			w.conditions[update.ConditionDBUpdatesFailed] = update.Condition{Reason: update.ReasonFrozen}
		}},
		{"the site is not installed", func(w *world) { w.state.Initialized = false }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			tc.arrange(w)
			_, err := w.run(t)
			require.NoError(t, err)
			require.Equal(t, []string{"Inspect"}, w.calls)
		})
	}
}

func TestRetryAsksForAnotherAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.Releases = failedOnR1
	w.state.Retry = "again"
	w.conditions[update.ConditionCodeUpdateFailed] = update.Condition{Reason: "x"}
	summary, err := w.run(t)
	require.NoError(t, err)
	require.Equal(t, update.PhaseSucceeded, summary.Phase)
	require.Equal(t, "again", w.state.ObservedRetry)
	require.Empty(t, w.reasons())
}

func TestARetryOfAFrozenSitePutsItsCronJobsBack(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.Releases = update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}
	w.state.Workload.Release, w.state.Retry, w.cron = "r2", "mended", "suspended"
	w.conditions[update.ConditionDBUpdatesFailed] = update.Condition{Reason: update.ReasonFrozen}
	_, err := w.run(t)
	require.NoError(t, err)
	require.Equal(t, "resumed", w.cron)
	require.Empty(t, w.reasons())
}

// Every activity of a full update, in the order of the first call.
var everyStep = []string{
	"Inspect", "WriteReport", "SetRelease", "WaitRollout", "RebuildCaches", "PendingUpdates", "SuspendCron", "RunOperation", "ResumeCron", "VerifySite",
}

func TestEveryStepThatFailsForGoodLeavesOrder(t *testing.T) {
	t.Parallel()
	for _, step := range everyStep {
		for _, kind := range []string{update.FailureForbidden, update.FailureInvalid, update.FailureSiteGone} {
			t.Run(step+" "+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorld()
				w.pending["r2"] = []update.Pending{some("m_update_1")}
				w.before[step] = func() { w.failing[step] = fatal(kind) }
				_, err := w.run(t)
				if step == "WriteReport" || kind == update.FailureSiteGone {
					return // nothing can be written on a site that refuses writes or is gone; ending is all
				}
				require.Error(t, err)
				require.False(t, w.state.InProgress)
				require.NotEmpty(t, w.reasons())
			})
		}
	}
}

func TestEveryStepCancelledOrAborted(t *testing.T) {
	t.Parallel()
	for _, step := range everyStep {
		for _, how := range []string{"cancel", "abort"} {
			t.Run(how+" at "+step, func(t *testing.T) {
				t.Parallel()
				w := newWorld()
				w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
				summary, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
					w.after[step] = func() {
						if how == "cancel" {
							env.CancelWorkflow()
						} else {
							env.SignalWorkflow(update.SignalAbort, nil)
						}
					}
				})
				w.orderly(t)
				switch step {
				case "SuspendCron", "RunOperation", "ResumeCron", "VerifySite": // the operation is let finish, and succeeded
					require.NoError(t, err)
					require.Equal(t, update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"}, w.state.Releases)
				default:
					if how == "cancel" {
						require.True(t, temporal.IsCanceledError(err), "%v", err)
					} else {
						require.Equal(t, update.PhaseAborted, summary.Phase)
					}
					require.Equal(t, failedOnR1, w.state.Releases)
					require.Equal(t, "r1", w.state.Workload.Release)
					require.Empty(t, w.ran)
					require.Equal(t, update.ReasonAborted, w.conditions[update.ConditionCodeUpdateFailed].Reason)
				}
			})
		}
	}
}

func TestEveryStepRetargeted(t *testing.T) {
	t.Parallel()
	for _, step := range everyStep {
		t.Run("at "+step, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
			_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
				w.after[step] = func() {
					w.state.Release = "r3"
					env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r3"})
				}
			})
			require.NoError(t, err)
			require.Equal(t, update.Releases{Serving: "r3", Failsafe: "r3", Target: "r3"}, w.state.Releases)
			require.Equal(t, "r3", w.state.Workload.Release)
			w.orderly(t)
		})
	}
}

func TestASecondDatabaseStepInOneRunIsAnotherOperation(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.pending["r3"] = []update.Pending{some("m_update_2")}
	_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		w.after["RunOperation"] = func() {
			w.state.Release = "r3"
			env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r3"})
		}
	})
	require.NoError(t, err)
	require.Len(t, w.ran, 2)
	require.NotEqual(t, w.ran[0].RunID, w.ran[1].RunID)
	require.NotEqual(t, w.ran[0].BackupName, w.ran[1].BackupName)
	require.Equal(t, "r3", w.state.Releases.Serving)
}

func TestARunThatWasResetBehindItsOperationSettlesItFirst(t *testing.T) {
	t.Parallel()
	// What an earlier execution of the run did meanwhile appears in the world after a step, as it does after a reset.
	reset := func(w *world, after string) {
		w.after[after] = func() {
			w.state.Operation, w.state.LastPhase, w.state.InProgress, w.cron = "r-1", update.PhaseUpdatingDatabase, true, "suspended"
		}
	}
	for name, c := range map[string]struct {
		after  string
		signal string
		result update.OperationResult
		phase  update.Phase
		end    update.Releases
	}{
		"before the caches": {after: "WaitRollout", phase: update.PhaseSucceeded, end: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"}},
		"after the caches":  {after: "RebuildCaches", phase: update.PhaseSucceeded, end: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"}},
		"while nothing is pending any more": {
			after: "PendingUpdates", phase: update.PhaseSucceeded, end: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"},
		},
		"and aborted": {
			after: "WaitRollout", signal: update.SignalAbort, phase: update.PhaseSucceeded,
			end: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"},
		},
		"and the operation failed": {
			after: "VerifySite", result: update.OperationResult{Outcome: update.Failed, Touched: true, Message: "a hook threw"},
			phase: update.PhaseRestored, end: failedOnR1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			reset(w, c.after)
			if c.result.Outcome != "" {
				w.ops[update.OperationUpdate] = c.result
			}
			hook := w.after[c.after]
			_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
				w.after[c.after] = func() {
					hook()
					if c.signal != "" {
						env.SignalWorkflow(c.signal, nil)
					}
				}
			})
			if c.phase == update.PhaseSucceeded {
				require.NoError(t, err)
			} else {
				require.Equal(t, c.phase, phaseOf(t, err))
			}
			require.Equal(t, "r-1", w.ran[0].RunID)
			require.Equal(t, update.OperationUpdate, w.ran[0].Kind)
			require.Equal(t, c.end, w.state.Releases)
			require.Equal(t, "resumed", w.cron)
			if c.phase == update.PhaseSucceeded {
				require.NotContains(t, w.history, "r1", "the old code never meets the new database")
			}
			w.orderly(t)
		})
	}
}

func TestCronJobsThatCannotBeSuspendedLeaveTheDatabaseAlone(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.failing["SuspendCron"] = fatal("CronBusy")
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestored, phaseOf(t, err))
	require.Equal(t, update.ReasonUntouched, w.conditions[update.ConditionDBUpdatesFailed].Reason)
	require.Empty(t, w.ran)
	require.Equal(t, failedOnR1, w.state.Releases)
}

func TestAFailedTargetOnAFrozenDatabaseNeverMeetsTheOldCode(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.Settings.Restore = false
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true}
	_, err := w.run(t)
	require.Equal(t, update.PhaseFrozen, phaseOf(t, err))
	w.state.Release, w.state.Retry = "r3", "mended by hand"
	w.caches["r3"] = []update.Answer{{Outcome: update.Failed, Message: "broken"}}
	_, err = w.run(t)
	require.Equal(t, update.PhaseCodeFailed, phaseOf(t, err))
	require.Equal(t, []string{"r2", "r3"}, w.history, "r1 does not fit the database")
}

func TestADeletedSiteGetsItsCronJobsBack(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.before["RunOperation"] = func() { w.failing["RunOperation"] = fatal(update.FailureSiteGone) }
	summary, err := w.run(t)
	require.NoError(t, err)
	require.Equal(t, update.PhaseSuperseded, summary.Phase)
	require.Equal(t, "resumed", w.cron)
}

func TestPauseHoldsTheRunBetweenSteps(t *testing.T) {
	t.Parallel()
	w := newWorld()
	summary, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		w.after["WaitRollout"] = func() { env.SignalWorkflow(update.SignalPause, nil) }
		env.RegisterDelayedCallback(func() {
			require.NotContains(t, w.calls, "RebuildCaches")
			value, err := env.QueryWorkflow(update.QueryState)
			require.NoError(t, err)
			var progress update.Progress
			require.NoError(t, value.Get(&progress))
			require.True(t, progress.Paused)
			require.Equal(t, "r2", progress.Target)
			env.SignalWorkflow(update.SignalResume, nil)
		}, time.Hour)
	})
	require.NoError(t, err)
	require.Equal(t, update.PhaseSucceeded, summary.Phase)
}

func TestTheLastOutputOfARunIsNotThatOfItsRollback(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.caches["r2"] = []update.Answer{{Outcome: update.Failed, Output: "[error] of r2"}, {Outcome: update.Failed, Output: "[error] of r2"}}
	w.caches["r1"] = []update.Answer{{Outcome: update.Succeeded, Output: "[success] Cache rebuild complete."}}
	_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		t.Cleanup(func() {
			value, err := env.QueryWorkflow(update.QueryState)
			require.NoError(t, err)
			var progress update.Progress
			require.NoError(t, value.Get(&progress))
			require.Equal(t, "[error] of r2", progress.LastOutput)
		})
	})
	require.Equal(t, update.PhaseRolledBack, phaseOf(t, err))
	require.Contains(t, w.calls, "RebuildCaches")
}

func TestClosedWindowAndPausedSpecAreWaitedForUnmarked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		arrange, open func(*world)
	}{
		{
			"window", func(w *world) { w.state.OpensIn = 3 * time.Hour },
			func(w *world) { w.state.OpensIn = 0 },
		},
		{"paused", func(w *world) { w.state.Paused = true }, func(w *world) { w.state.Paused = false }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			tc.arrange(w)
			summary, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() {
					require.False(t, w.state.InProgress)
					require.Empty(t, w.history)
					tc.open(w)
					env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r2"})
				}, 2*time.Hour)
			})
			require.NoError(t, err)
			require.Equal(t, update.PhaseSucceeded, summary.Phase)
		})
	}
}

// A wait for months outgrows a history: it goes on in a new execution, and what was signalled is not forgotten.
func TestALongWaitGoesOnInANewExecution(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		signal string
		paused bool
	}{
		{"nothing was signalled", "", false},
		{"a pause is carried along", update.SignalPause, true},
		{"a pause that was ended is not", update.SignalResume, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.state.Paused = true
			_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
				if tc.signal != "" {
					env.RegisterDelayedCallback(func() { env.SignalWorkflow(update.SignalPause, nil) }, time.Hour)
				}
				env.RegisterDelayedCallback(func() {
					env.SetContinueAsNewSuggested(true)
					if tc.signal == update.SignalResume {
						env.SignalWorkflow(update.SignalResume, nil)
					}
				}, 2*time.Hour)
			})
			var again *workflow.ContinueAsNewError
			require.ErrorAs(t, err, &again)
			var request update.Request
			require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &request))
			require.Equal(t, update.Request{Site: site(), Paused: tc.paused}, request)
			require.Empty(t, w.history)
		})
	}
}

func TestARunThatGoesOnStaysPaused(t *testing.T) {
	t.Parallel()
	w := newWorld()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet())
	env := suite.NewTestWorkflowEnvironment()
	workflows.Register(env)
	w.register(env)
	env.RegisterDelayedCallback(func() {
		require.Empty(t, w.history, "it was paused before it went on")
		env.SignalWorkflow(update.SignalResume, nil)
	}, time.Hour)
	env.ExecuteWorkflow(update.UpdateSiteWorkflow, update.Request{Site: site(), Paused: true})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"r2"}, w.history)
}

func TestLostRunsAreRecovered(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		arrange  func(*world)
		phase    update.Phase
		releases update.Releases
		ran      []update.OperationKind
	}{
		{
			name: "while rolling out: it goes on to the wanted release",
			arrange: func(w *world) {
				w.state.LastPhase, w.state.Releases.Target, w.state.Workload.Release = update.PhaseRollingOut, "r2", "r2"
			},
			phase: update.PhaseSucceeded, releases: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"},
		},
		{
			name: "while rolling back: the rollback is finished, and the failed target is not tried again",
			arrange: func(w *world) {
				w.state.LastPhase, w.state.Releases, w.state.Workload.Release = update.PhaseRollingBack, failedOnR1, "r2"
				w.conditions[update.ConditionCodeUpdateFailed] = update.Condition{Reason: "ImagePullBackOff"}
			},
			phase: update.PhaseRolledBack, releases: failedOnR1,
		},
		{
			name: "while the database operation ran: its Job is found again and its verdict counts",
			arrange: func(w *world) {
				w.state.LastPhase, w.state.Releases.Target, w.state.Workload.Release = update.PhaseUpdatingDatabase, "r2", "r2"
				w.state.Operation = "lost-run"
			},
			phase: update.PhaseSucceeded, releases: update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"},
			ran: []update.OperationKind{update.OperationUpdate},
		},
		{
			name: "while restoring: the restore is finished",
			arrange: func(w *world) {
				w.state.LastPhase, w.state.Releases, w.state.Workload.Release = update.PhaseRestoring, failedOnR1, "r2"
				w.state.Operation = "lost-run"
				w.conditions[update.ConditionDBUpdatesFailed] = update.Condition{Reason: update.ReasonRestoring}
			},
			phase: update.PhaseRestored, releases: failedOnR1,
			ran: []update.OperationKind{update.OperationRestore, update.OperationLift},
		},
		{
			name: "and the target moved on meanwhile: the operation is settled first, then the new target is reached",
			arrange: func(w *world) {
				w.state.LastPhase, w.state.Releases.Target, w.state.Workload.Release = update.PhaseUpdatingDatabase, "r2", "r2"
				w.state.Operation, w.state.Release = "lost-run", "r3"
			},
			phase: update.PhaseSucceeded, releases: update.Releases{Serving: "r3", Failsafe: "r3", Target: "r3"},
			ran: []update.OperationKind{update.OperationUpdate},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.state.InProgress, w.state.LastRunID = true, "lost-run"
			tc.arrange(w)
			summary, err := w.run(t)
			if err != nil {
				summary.Phase = phaseOf(t, err)
			}
			require.Equal(t, tc.phase, summary.Phase)
			require.Equal(t, tc.releases, w.state.Releases)
			var kinds []update.OperationKind
			for _, op := range w.ran {
				require.Equal(t, "lost-run", op.RunID, "the operation keeps the name of the run that began it")
				kinds = append(kinds, op.Kind)
			}
			require.Equal(t, tc.ran, kinds)
			w.orderly(t)
		})
	}
}

// The policy at the time of the loss decides: with the new one there would be no journal to trust, and no backup to restore.
func TestAnOperationThatTookNoBackupIsNeverRepeatedNorRestored(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.InProgress, w.state.LastRunID, w.state.LastPhase = true, "lost-run", update.PhaseUpdatingDatabase
	w.state.Operation, w.state.Unsecured = "lost-run", true
	w.state.Releases.Target, w.state.Workload.Release = "r2", "r2"
	w.ops[update.OperationUpdate] = update.OperationResult{Message: "the Job vanished"}
	_, err := w.run(t)
	require.Equal(t, update.PhaseFrozen, phaseOf(t, err))
	require.Len(t, w.ran, 1)
	require.True(t, w.ran[0].MustExist)
	require.True(t, w.ran[0].Unsecured)
	require.Equal(t, update.Releases{Serving: "r2", Target: "r2", Failed: "r2"}, w.state.Releases)
	w.orderly(t)
}

func TestAnOperationIsMarkedAsOneWithoutBackup(t *testing.T) {
	t.Parallel()
	for _, backup := range []bool{true, false} {
		w := newWorld()
		w.state.Settings.Backup, w.state.Settings.Restore = backup, backup
		w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
		var unsecured bool
		w.before["RunOperation"] = func() { unsecured = w.state.Unsecured }
		_, err := w.run(t)
		require.NoError(t, err)
		require.Equal(t, !backup, unsecured)
		require.Equal(t, !backup, w.ran[0].Unsecured)
		require.False(t, w.state.Unsecured, "the mark goes with the operation")
	}
}

func TestARestoreWhoseJobIsLostIsRepeated(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		restores, lifts int
		phase           update.Phase
	}{
		{1, 0, update.PhaseRestored},
		{2, 2, update.PhaseRestored},
		{3, 0, update.PhaseRestoreFailed},
		{0, 3, update.PhaseRestoreFailed},
	} {
		w := newWorld()
		w.pending["r2"] = []update.Pending{some("m_update_1")}
		w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true}
		w.lost[update.OperationRestore], w.lost[update.OperationLift] = tc.restores, tc.lifts
		_, err := w.run(t)
		require.Equal(t, tc.phase, phaseOf(t, err))
		seen := map[string]bool{}
		for _, op := range w.ran {
			name := fmt.Sprint(op.Kind, op.Attempt)
			require.False(t, seen[name], "each attempt has a Job of its own")
			seen[name] = true
		}
		w.orderly(t)
	}
}

func TestWhatPutsASiteInOrderIsTriedAgainWhenItFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		kind  update.OperationKind
		step  string
		times int
		ran   int
		phase update.Phase
	}{
		{"a database server that is away while it is asked", update.OperationRestore, update.StepPreflight, 1, 2, update.PhaseRestored},
		{"and for longer, in the middle of the restore", update.OperationRestore, update.StepRestore, 2, 3, update.PhaseRestored},
		{"a restore that cannot be made", update.OperationRestore, update.StepRestore, 3, 3, update.PhaseRestoreFailed},
		{"a backup that is not sound stays so", update.OperationRestore, update.StepBackup, 1, 1, update.PhaseRestoreFailed},
		{"a flag that cannot be put back at once", update.OperationLift, update.StepLift, 2, 3, update.PhaseRestored},
		{"a flag that cannot be put back", update.OperationLift, update.StepLift, 3, 3, update.PhaseRestoreFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.pending["r2"] = []update.Pending{some("m_update_1")}
			w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true}
			w.stumbles[tc.kind] = failures{tc.times, update.OperationResult{Outcome: update.Failed, Touched: true, Step: tc.step, Message: "no connection"}}
			_, err := w.run(t)
			require.Equal(t, tc.phase, phaseOf(t, err))
			ran := 0
			for _, op := range w.ran {
				if op.Kind == tc.kind {
					ran++
					require.Equal(t, ran, op.Attempt)
				}
			}
			require.Equal(t, tc.ran, ran)
			w.orderly(t)
		})
	}
}

func TestAFreezeLooksFirstWhetherAnythingHasBegun(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		lift     update.OperationResult
		phase    update.Phase
		reason   string
		releases update.Releases
	}{
		{"nothing has", update.OperationResult{Outcome: update.Succeeded, Step: "done", Maintenance: "0"}, update.PhaseRestored, update.ReasonUntouched, failedOnR1},
		{
			"updatedb has",
			update.OperationResult{Outcome: update.Failed, Step: "not-restored", Touched: true},
			update.PhaseFrozen, update.ReasonFrozen,
			update.Releases{Serving: "r2", Target: "r2", Failed: "r2"},
		},
		{
			"all is done",
			update.OperationResult{Outcome: update.Succeeded, Step: "done", Touched: true},
			update.PhaseSucceeded, "",
			update.Releases{Serving: "r2", Failsafe: "r2", Target: "r2"},
		},
	} {
		for said, result := range map[string]update.OperationResult{
			"its Job vanished":            {Message: "the Job vanished"},
			"it says that it was started": {Outcome: update.Failed, Step: update.StepAlreadyStarted, Touched: true, Message: "never twice"},
		} {
			t.Run(tc.name+", "+said, func(t *testing.T) {
				t.Parallel()
				w := newWorld()
				w.state.Settings.Restore = false
				w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
				w.ops[update.OperationUpdate], w.ops[update.OperationLift] = result, tc.lift
				summary, err := w.run(t)
				if err != nil {
					summary.Phase = phaseOf(t, err)
				}
				require.Equal(t, tc.phase, summary.Phase)
				require.Equal(t, tc.reason, w.conditions[update.ConditionDBUpdatesFailed].Reason)
				require.Equal(t, tc.releases, w.state.Releases)
				w.orderly(t)
			})
		}
	}
}

func TestMaintenanceModeThatCannotBePutBackIsNotCalledRestored(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true}
	w.ops[update.OperationLift] = update.OperationResult{Outcome: update.Succeeded, Step: update.StepNothingRecorded}
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestoreFailed, phaseOf(t, err))
	require.Contains(t, w.conditions[update.ConditionDBUpdatesFailed].Message, "does not hold its notes any more")
}

func TestABackupIsListedHoweverTheUpdateEnds(t *testing.T) {
	t.Parallel()
	for _, restore := range []bool{true, false} {
		w := newWorld()
		w.state.Settings.Restore = restore
		w.pending["r2"] = []update.Pending{some("m_update_1")}
		result := w.ops[update.OperationUpdate]
		result.Outcome = update.Failed
		w.ops[update.OperationUpdate] = result
		_, err := w.run(t)
		require.Error(t, err)
		require.Contains(t, w.backups, *result.Backup)
		if !restore {
			require.Contains(t, w.conditions[update.ConditionDBUpdatesFailed].Message, "The backup is b, on the volume blog-backups.")
		}
	}
}

func TestTransientErrorsNeverFailASite(t *testing.T) {
	t.Parallel()
	for _, step := range everyStep {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
			failures := 0
			var again func()
			again = func() {
				failures++
				w.failing[step] = temporal.NewApplicationError("the API server is away", "")
				if failures < 5 {
					w.before[step] = again
					return
				}
				w.failing[step] = nil
			}
			w.before[step] = again
			summary, err := w.run(t)
			require.NoError(t, err)
			require.Equal(t, update.PhaseSucceeded, summary.Phase)
			w.orderly(t)
		})
	}
}
