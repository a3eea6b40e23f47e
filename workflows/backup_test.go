package workflows_test

import (
	"errors"
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

// newSettledWorld is a site that runs what its owner wants.
func newSettledWorld() *world {
	w := newWorld()
	w.state.Release = "r1"
	return w
}

// after is what a workflow with the site's id came to.
type after struct {
	done update.Done
	// next is the update that it went on as; nil if it ended.
	next *update.Request
	err  error
}

func (w *world) execute(t *testing.T, name string, request any, prepare ...func(*testsuite.TestWorkflowEnvironment)) after {
	t.Helper()
	env := w.environment(time.Minute, prepare...)
	env.ExecuteWorkflow(name, request)
	require.True(t, env.IsWorkflowCompleted())
	a := after{err: env.GetWorkflowError()}
	var again *workflow.ContinueAsNewError
	var app *temporal.ApplicationError
	switch {
	case errors.As(a.err, &again):
		a.err, a.next = nil, &update.Request{}
		require.Equal(t, update.UpdateSiteWorkflow, again.WorkflowType.Name)
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, a.next))
		require.NotNil(t, a.next.After)
		a.done = *a.next.After
	case errors.As(a.err, &app):
		require.NoError(t, app.Details(&a.done))
		require.Equal(t, a.done.Failure, app.Type())
		require.True(t, app.NonRetryable())
	case a.err == nil && name != update.ScheduledBackupWorkflow:
		require.NoError(t, env.GetWorkflowResult(&a.done))
	}
	return a
}

func (w *world) backUp(t *testing.T, scheduled bool, prepare ...func(*testsuite.TestWorkflowEnvironment)) after {
	t.Helper()
	return w.execute(t, update.BackupSiteWorkflow, update.BackupRequest{Site: site(), Scheduled: scheduled}, prepare...)
}

func (w *world) reasonsOfEvents() []string {
	var reasons []string
	for _, e := range w.events {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}

func TestABackupIsTakenBesideTheRunningSite(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	w.conditions[update.ConditionBackupFailed] = update.Condition{Reason: update.ReasonBackupFailed}
	a := w.backUp(t, false)
	require.NoError(t, a.err)
	require.Nil(t, a.next)
	require.Equal(t, update.Succeeded, a.done.Outcome)
	require.Equal(t, "taken", a.done.Backup.Name)
	require.Equal(t, []string{"taken"}, []string{w.backups[0].Name})
	require.NotContains(t, w.conditions, update.ConditionBackupFailed)
	require.Equal(t, []string{"BackupTaken"}, w.reasonsOfEvents())
	require.Empty(t, w.state.LastPhase, "status.run tells of what changes the site, and a backup does not")
	require.NotContains(t, w.calls, "SuspendCron")
	require.NotContains(t, w.calls, "SetRelease")
	require.Len(t, w.ran, 1)
	require.Equal(t, []string{"r1", "r1"}, []string{w.ran[0].Release, w.ran[0].From})
	w.orderly(t)
}

func TestABackupThatIsLostIsAskedForAgainAndNeverReadAsTaken(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	w.lost[update.OperationBackup] = 1
	require.NoError(t, w.backUp(t, true).err)
	require.Len(t, w.ran, 2)
	require.True(t, w.ran[1].Scheduled)
	require.Equal(t, w.ran[0].BackupName, w.ran[1].BackupName)

	w = newSettledWorld()
	w.lost[update.OperationBackup] = 9
	a := w.backUp(t, true)
	require.Equal(t, update.FailureBackup, a.done.Failure)
	require.Empty(t, w.backups)
	require.Equal(t, update.ReasonBackupFailed, w.conditions[update.ConditionBackupFailed].Reason)
	require.Len(t, w.ran, 3)
}

func TestABackupThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		arrange func(*world)
	}{
		{"the dump fails", func(w *world) {
			w.ops[update.OperationBackup] = update.OperationResult{Outcome: update.Failed, Step: "backup", Message: "no space"}
		}},
		{"it cannot be carried out", func(w *world) { w.failing["RunOperation"] = fatal(update.FailureForbidden) }},
		{"it says that it is done, and names no backup", func(w *world) {
			w.ops[update.OperationBackup] = update.OperationResult{Outcome: update.Succeeded, Step: "done"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			tc.arrange(w)
			a := w.backUp(t, false)
			require.Equal(t, update.FailureBackup, a.done.Failure)
			require.Equal(t, a.done.Message, w.conditions[update.ConditionBackupFailed].Message)
			require.Equal(t, []string{update.ReasonBackupFailed}, w.reasonsOfEvents())
			w.orderly(t)
		})
	}
}

// refusals are states of a site in which nothing may be begun, each with a word of the sentence that says so.
var refusals = []struct {
	name, says string
	arrange    func(*world)
}{
	{"gone", "does not exist", func(w *world) { w.state.Gone = true }},
	{"not installed", "not installed", func(w *world) { w.state.Initialized = false }},
	{"without a volume", "no backup volume", func(w *world) { w.state.Settings.BackupVolume = false }},
	{"marked by a lost run", "not recovered yet", func(w *world) { w.state.InProgress = true }},
	{"with an unsettled operation", "not recovered yet", func(w *world) { w.state.Operation = "x" }},
	{"without a Deployment", "no Deployment", func(w *world) { w.state.Workload = update.Workload{} }},
	{"scaled to zero", "asks for no replicas", func(w *world) {
		w.state.Workload.Suspended, w.state.Workload.Available = "the Deployment asks for no replicas", false
	}},
	{"with an image set by hand", "an image that drupdate did not set", func(w *world) { w.state.Workload.Release = "" }},
}

func TestABackupIsRefusedInASentence(t *testing.T) {
	t.Parallel()
	for _, tc := range refusals {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			tc.arrange(w)
			a := w.backUp(t, false)
			require.Equal(t, update.FailureRefused, a.done.Failure)
			require.Contains(t, a.done.Message, tc.says)
			require.Empty(t, w.ran)
			require.NotContains(t, w.calls, "WriteReport")
		})
	}
}

func TestAScheduledBackupThatMayNotBeTakenIsSkippedAndNoFailure(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	w.conditions[update.ConditionDBUpdatesFailed] = update.Condition{Reason: update.ReasonFrozen}
	a := w.backUp(t, true)
	require.NoError(t, a.err)
	require.Contains(t, a.done.Message, "half updated")
	require.Empty(t, w.ran)
	require.Equal(t, []string{"BackupSkipped"}, w.reasonsOfEvents())

	a = w.backUp(t, false)
	require.NoError(t, a.err, "a person may want just that")
	require.Len(t, w.ran, 1)
}

func TestABackupGivenUpBeforeItBeginsIsNotTakenAndAfterwardsIsLetFinish(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancel", "abort"} {
		stop := func(env *testsuite.TestWorkflowEnvironment) func() {
			return func() {
				if how == "cancel" {
					env.CancelWorkflow()
				} else {
					env.SignalWorkflow(update.SignalAbort, nil)
				}
			}
		}
		t.Run(how+" before", func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			a := w.backUp(t, false, func(env *testsuite.TestWorkflowEnvironment) { w.after["Inspect"] = stop(env) })
			require.Error(t, a.err)
			require.Equal(t, how == "cancel", temporal.IsCanceledError(a.err))
			require.Empty(t, w.ran)
		})
		t.Run(how+" during", func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			a := w.backUp(t, false, func(env *testsuite.TestWorkflowEnvironment) { w.before["RunOperation"] = stop(env) })
			require.NoError(t, a.err)
			require.Len(t, w.backups, 1)
		})
	}
}

// The watcher's signal goes to whatever run has the id; the wish in it must be carried out, and at once.
func TestAnUpdateThatIsWantedMeanwhileGoesOnAsTheSameWorkflow(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"Inspect", "RunOperation", "WriteReport"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			a := w.backUp(t, false, func(env *testsuite.TestWorkflowEnvironment) {
				w.after[step] = func() {
					w.state.Release = "r2"
					env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r2"})
				}
			})
			require.NoError(t, a.err)
			require.NotNil(t, a.next)
			require.Equal(t, site(), a.next.Site)
			require.Equal(t, update.Succeeded, a.next.After.Outcome)
			require.Len(t, w.backups, 1)
			require.Empty(t, w.history, "the backup is of what ran before")
			summary, err := w.run(t)
			require.NoError(t, err)
			require.Equal(t, update.PhaseSucceeded, summary.Phase)
			require.Equal(t, []string{"r2"}, w.history)
		})
	}
	t.Run("a refused one hands on as well", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.state.Settings.BackupVolume = false
		require.NotNil(t, w.backUp(t, false).next)
	})
	t.Run("not while updates are paused", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.state.Paused = true
		require.Nil(t, w.backUp(t, false).next)
	})
}

func TestARunThatOnlyWaitsMakesRoom(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.OpensIn = 9 * time.Hour
	summary, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(update.SignalYield, nil) }, time.Hour)
	})
	require.NoError(t, err)
	require.Equal(t, update.PhaseSuperseded, summary.Phase)
	require.Empty(t, w.history)
	require.NotContains(t, w.calls, "WriteReport")
	// The backup that it made room for goes on as that update.
	require.NotNil(t, w.backUp(t, false).next)
}

func TestARunThatWorksDoesNotMakeRoom(t *testing.T) {
	t.Parallel()
	w := newWorld()
	summary, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		w.before["WaitRollout"] = func() { env.SignalWorkflow(update.SignalYield, nil) }
	})
	require.NoError(t, err)
	require.Equal(t, update.PhaseSucceeded, summary.Phase)
}

func TestAScheduledRunBeginsABackup(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	var begun []string
	a := w.execute(t, update.ScheduledBackupWorkflow, update.BackupRequest{Site: site()}, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
			var request update.BackupRequest
			require.NoError(t, args.Get(&request))
			require.True(t, request.Scheduled)
			begun = append(begun, info.WorkflowExecution.ID+" "+info.WorkflowType.Name)
		})
	})
	require.NoError(t, a.err)
	require.Equal(t, []string{"site/prod/blog BackupSite"}, begun)
	require.Empty(t, w.unscheduled)
}

func TestAScheduledRunRemovesAScheduleThatNobodyWants(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]func(*update.State){
		"the site is gone":                  func(s *update.State) { s.Gone = true },
		"the site wants no schedule by now": func(s *update.State) { s.Unscheduled = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld()
			state(&w.state)
			require.NoError(t, w.execute(t, update.ScheduledBackupWorkflow, update.BackupRequest{Site: site()}).err)
			require.Equal(t, []string{"backups/prod/blog/u1"}, w.unscheduled)
			require.Empty(t, w.ran)
		})
	}
}

// occupied runs ScheduledBackup while another workflow has the site's id, and returns how often a backup was begun.
func (w *world) occupied(t *testing.T, occupant func(workflow.Context) error) (begun int) {
	t.Helper()
	env := w.environment(time.Minute)
	env.RegisterWorkflowWithOptions(occupant, workflow.RegisterOptions{Name: "occupant"})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: site().UpdateID()})
		if err := workflow.ExecuteChildWorkflow(child, "occupant").GetChildWorkflowExecution().Get(ctx, nil); err != nil {
			return err
		}
		return workflows.ScheduledBackup(ctx, update.BackupRequest{Site: site()})
	}, workflow.RegisterOptions{Name: "both"})
	env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		if info.WorkflowType.Name == update.BackupSiteWorkflow {
			begun++
		}
	})
	env.ExecuteWorkflow("both")
	require.NoError(t, env.GetWorkflowError())
	return begun
}

func TestAScheduledRunAsksWhoHasTheIDToMakeRoom(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	begun := w.occupied(t, func(ctx workflow.Context) error {
		workflow.GetSignalChannel(ctx, update.SignalYield).Receive(ctx, nil)
		return nil
	})
	require.Equal(t, 1, begun)
	require.NotContains(t, w.reasonsOfEvents(), "BackupSkipped")
}

func TestAScheduledRunThatMeetsAWorkingRunGivesUpInTheEnd(t *testing.T) {
	t.Parallel()
	w := newSettledWorld()
	require.Zero(t, w.occupied(t, func(ctx workflow.Context) error { return workflow.Sleep(ctx, 24*time.Hour) }))
	require.Equal(t, []string{"BackupSkipped"}, w.reasonsOfEvents())
}
