package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/drupdate/drupdate/internal/update"
)

func (w *world) restore(t *testing.T, request update.RestoreRequest, prepare ...func(*testsuite.TestWorkflowEnvironment)) after {
	t.Helper()
	request.Site = site()
	return w.execute(t, update.RestoreSiteWorkflow, request, prepare...)
}

var old = update.RestoreRequest{Backup: "old"}

func TestAChosenBackupIsPutBackAndTheSiteIsOpenedAgain(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	var marked update.State
	w.before["RunOperation"] = func() { marked = w.state }
	a := w.restore(t, old)
	require.NoError(t, a.err)
	require.Nil(t, a.next)
	require.Equal(t, update.Succeeded, a.done.Outcome)
	require.Equal(t, "safety", a.done.Backup.Name)
	require.Equal(t, []update.OperationKind{update.OperationRewind, update.OperationLift}, w.kinds())
	require.Equal(t, []string{"old", "r1"}, []string{w.ran[0].Source, w.ran[0].Release})
	require.False(t, w.ran[0].NoSafetyBackup)
	require.Equal(t, w.ran[0].RunID, w.ran[1].RunID)
	require.Equal(t, w.ran[0].BackupName, w.ran[1].BackupName, "the flag is in that journal")
	require.True(t, marked.InProgress, "it is marked before the database is touched")
	require.Equal(t, []string{"old", w.ran[0].RunID}, []string{marked.Restoring, marked.Operation})
	require.Equal(t, update.PhaseRewound, w.state.LastPhase)
	require.Equal(t, []string{"safety"}, []string{w.backups[0].Name})
	require.Equal(t, update.Releases{Serving: "r1", Failsafe: "r1", Target: "r1"}, w.state.Releases)
	require.Equal(t, "resumed", w.cron)
	require.Empty(t, w.reasons())
	require.Empty(t, w.history)
	w.orderly(t)
}

func TestARestoreIsRefusedInASentence(t *testing.T) {
	t.Parallel()
	for _, tc := range refusals {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			tc.arrange(w)
			a := w.restore(t, old)
			require.Equal(t, update.FailureRefused, a.done.Failure)
			require.Contains(t, a.done.Message, tc.says)
			require.NotContains(t, w.calls, "WriteReport")
			require.Empty(t, w.ran)
		})
	}
	for name, request := range map[string]update.RestoreRequest{
		"no such backup": {Backup: "nothing"}, "a backup of another release": {Backup: "older"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			a := w.restore(t, request)
			require.Equal(t, update.FailureRefused, a.done.Failure)
			require.Contains(t, a.done.Message, request.Backup)
			require.NotContains(t, w.calls, "WriteReport")
		})
	}
}

func TestABackupOfAnOlderReleaseLeavesPendingUpdatesToAnUpdate(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	w.pending["r1"] = []update.Pending{some("m_update_1")}
	a := w.restore(t, update.RestoreRequest{Backup: "older", OtherRelease: true})
	require.NoError(t, a.err)
	require.Equal(t, update.ReasonUpdatesConfirmed, w.conditions[update.ConditionDBUpdatesPending].Reason)
	require.Contains(t, a.done.Message, "1 pending database update, which an update applies.")
	require.True(t, w.lifted)
	require.NotNil(t, a.next, "and the update begins at once")
	w.pending["r1"] = []update.Pending{some("m_update_1"), none()}
	summary, err := w.run(t)
	require.NoError(t, err)
	require.Equal(t, update.PhaseSucceeded, summary.Phase)
	require.Empty(t, w.reasons())
}

func TestARestoreThatFailsBeforeTheDatabaseIsTouchedLeavesTheSiteAsItWas(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		arrange func(*world)
		lifted  bool
	}{
		{"the safety backup fails", func(w *world) {
			w.ops[update.OperationRewind] = update.OperationResult{Outcome: update.Failed, Step: "backup", Message: "no space"}
		}, true},
		{"the CronJobs do not rest", func(w *world) { w.failing["SuspendCron"] = fatal(update.FailureCronBusy) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			tc.arrange(w)
			a := w.restore(t, old)
			require.Equal(t, string(update.PhaseNotRewound), a.done.Failure)
			require.Equal(t, update.PhaseNotRewound, w.state.LastPhase)
			require.Empty(t, w.reasons())
			require.Equal(t, tc.lifted, w.lifted)
			require.Equal(t, "resumed", w.cron)
			w.orderly(t)
		})
	}
}

func TestARestoreThatFailsStopsInMaintenanceModeAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		arrange func(*world)
	}{
		{"the restore fails", func(w *world) {
			w.ops[update.OperationRewind] = update.OperationResult{Outcome: update.Failed, Touched: true, Step: "restore", Message: "ERROR 1064"}
		}},
		{"its Job is lost again and again", func(w *world) { w.lost[update.OperationRewind] = 9 }},
		{"it cannot be carried out", func(w *world) { w.failing["RunOperation"] = fatal(update.FailureForbidden) }},
		{"the caches cannot be rebuilt on it", func(w *world) {
			w.caches["r1"] = []update.Answer{{Outcome: update.Failed, Message: "broken"}}
		}},
		{"it belongs to newer code", func(w *world) {
			w.pending["r1"] = []update.Pending{{State: update.PendingAhead, Message: "m_update_9"}}
		}},
		{"Drush does not answer on it", func(w *world) { w.pending["r1"] = []update.Pending{{Message: "cut"}} }},
		{"Drush cannot be asked", func(w *world) { w.failing["PendingUpdates"] = fatal(update.FailureNoAnswer) }},
		{"maintenance mode cannot be ended", func(w *world) {
			w.ops[update.OperationLift] = update.OperationResult{Outcome: update.Failed, Message: "maint:set"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			tc.arrange(w)
			a := w.restore(t, old)
			require.Equal(t, string(update.PhaseRestoreFailed), a.done.Failure)
			require.Nil(t, a.next)
			require.Equal(t, map[string]string{
				update.ConditionDBUpdatesFailed: update.ReasonRestoreFailed, update.ConditionDBUpdatesPending: update.ReasonOutcomeUnknown,
			}, w.reasons())
			require.Equal(t, update.PhaseRestoreFailed, w.state.LastPhase)
			require.Equal(t, update.Releases{Serving: "r1", Failsafe: "r1", Target: "r1"}, w.state.Releases)
			require.Contains(t, a.done.Message, "old")
			require.Equal(t, "suspended", w.cron)
			w.orderly(t)
		})
	}
}

func TestARestoreUnderAFailedReleaseSaysWhatToAskFor(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	w.state.Releases.Failed = "r1"
	w.pending["r1"] = []update.Pending{some("m_update_1")}
	req := update.RestoreRequest{Backup: "older", OtherRelease: true}
	require.NoError(t, w.restore(t, req).err)
	require.Contains(t, w.conditions[update.ConditionDBUpdatesPending].Message, "That release failed, so that no update follows: ask for r0, which it is of.")
}

func TestARestoreThatStumblesIsBegunAgainUnlessNothingWasTouched(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		touched bool
		ran     int
		phase   update.Phase
	}{{true, 2, update.PhaseRewound}, {false, 1, update.PhaseNotRewound}} {
		w := newSettledWorld()
		w.stumbles[update.OperationRewind] = failures{1, update.OperationResult{Outcome: update.Failed, Touched: tc.touched, Step: update.StepRestore, Message: "gone away"}}
		w.restore(t, old)
		require.Equal(t, tc.phase, w.state.LastPhase)
		ran := 0
		for _, op := range w.ran {
			if op.Kind == update.OperationRewind {
				ran++
			}
		}
		require.Equal(t, tc.ran, ran)
		w.orderly(t)
	}
}

func TestALostJobOfARestoreBeginsAgain(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	w.lost[update.OperationRewind] = 2
	require.NoError(t, w.restore(t, old).err)
	require.Equal(t, []update.OperationKind{update.OperationRewind, update.OperationRewind, update.OperationRewind, update.OperationLift}, w.kinds())
	require.Equal(t, w.ran[0].RunID, w.ran[2].RunID)
}

func TestARestoreOfASiteThatWaitsForAPersonPutsItInOrder(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{update.ReasonFrozen, update.ReasonRestoreFailed} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			w.conditions[update.ConditionDBUpdatesFailed] = update.Condition{Reason: reason}
			a := w.restore(t, update.RestoreRequest{Backup: "old", NoSafetyBackup: true})
			require.NoError(t, a.err)
			require.True(t, w.ran[0].Held, "the flag of today is not the site's own")
			require.True(t, w.ran[0].NoSafetyBackup)
			require.Empty(t, w.reasons())
		})
	}
	w := newSettledWorld()
	w.conditions[update.ConditionDBUpdatesFailed] = update.Condition{Reason: update.ReasonFrozen}
	w.ops[update.OperationRewind] = update.OperationResult{Outcome: update.Failed, Step: "backup", Message: "no space"}
	a := w.restore(t, old)
	require.Equal(t, string(update.PhaseNotRewound), a.done.Failure)
	require.False(t, w.lifted, "what an earlier failure left on stays on")
	require.Equal(t, update.ReasonFrozen, w.conditions[update.ConditionDBUpdatesFailed].Reason)
}

func TestARestoreCutShort(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancel", "abort"} {
		for _, step := range []string{"FindBackup", "SuspendCron", "RunOperation", "RebuildCaches", "PendingUpdates"} {
			t.Run(how+" at "+step, func(t *testing.T) {
				t.Parallel()
				w := newSettledWorld()
				a := w.restore(t, old, func(env *testsuite.TestWorkflowEnvironment) {
					w.after[step] = func() {
						if how == "cancel" {
							env.CancelWorkflow()
						} else {
							env.SignalWorkflow(update.SignalAbort, nil)
						}
					}
				})
				w.orderly(t)
				if step == "FindBackup" {
					require.Error(t, a.err)
					require.Equal(t, how == "cancel", temporal.IsCanceledError(a.err))
					require.Empty(t, w.ran)
					return
				}
				require.NoError(t, a.err, "what has begun is let finish")
				require.Equal(t, update.PhaseRewound, w.state.LastPhase)
			})
		}
	}
}

func TestEveryStepOfARestoreThatFailsForGoodLeavesOrder(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"Inspect", "FindBackup", "SuspendCron", "RunOperation", "RebuildCaches", "PendingUpdates", "ResumeCron"} {
		for _, kind := range []string{update.FailureForbidden, update.FailureSiteGone} {
			t.Run(step+" "+kind, func(t *testing.T) {
				t.Parallel()
				w := newSettledWorld()
				w.before[step] = func() {
					w.failing[step] = fatal(kind)
					w.state.Gone = kind == update.FailureSiteGone
				}
				a := w.restore(t, old)
				require.Error(t, a.err)
				require.NotEqual(t, update.Succeeded, a.done.Outcome)
				if kind != update.FailureSiteGone {
					w.orderly(t)
				}
			})
		}
	}
}

func TestALostRestoreIsGoneOnWith(t *testing.T) {
	t.Parallel()
	lost := func() *world {
		w := newSettledWorld()
		w.state.InProgress, w.state.Operation, w.state.Restoring, w.state.LastPhase = true, "lost-run", "old", update.PhaseRewinding
		return w
	}
	t.Run("it goes well", func(t *testing.T) {
		t.Parallel()
		w := lost()
		_, err := w.run(t)
		require.NoError(t, err)
		require.Equal(t, []update.OperationKind{update.OperationRewind, update.OperationLift}, w.kinds())
		require.Equal(t, []string{"lost-run", "old"}, []string{w.ran[0].RunID, w.ran[0].Source}, "the Job is found by its name")
		require.Empty(t, w.reasons())
		require.NotContains(t, w.kinds(), update.OperationUpdate)
		w.orderly(t)
	})
	t.Run("it fails", func(t *testing.T) {
		t.Parallel()
		w := lost()
		w.ops[update.OperationRewind] = update.OperationResult{Outcome: update.Failed, Touched: true, Message: "broken"}
		_, err := w.run(t)
		require.Equal(t, update.PhaseRestoreFailed, phaseOf(t, err))
		require.Equal(t, update.ReasonRestoreFailed, w.conditions[update.ConditionDBUpdatesFailed].Reason)
		w.orderly(t)
	})
	t.Run("an update that is wanted by now follows", func(t *testing.T) {
		t.Parallel()
		w := lost()
		w.state.Release = "r2"
		summary, err := w.run(t)
		require.NoError(t, err)
		require.Equal(t, update.PhaseSucceeded, summary.Phase)
		require.Equal(t, []string{"r2"}, w.history)
		require.Equal(t, "r1", w.ran[0].Release, "the backup is put back with the image that runs")
	})
}
