package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/workflows"
)

func (w *world) check(t *testing.T, prepare ...func(*testsuite.TestWorkflowEnvironment)) error {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet())
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	workflows.Register(env)
	w.register(env)
	for _, p := range prepare {
		p(env)
	}
	env.ExecuteWorkflow(update.CheckSiteWorkflow, update.CheckRequest{Site: site()})
	require.True(t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

func TestCheckSite(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		arrange func(*world)
		kind    string
		status  string
		reason  string
		ran     int
	}{
		{
			"an installed site is initialized", func(w *world) { w.install = []update.Installed{{State: update.InstallDone}} },
			update.ConditionInitialized, update.True, update.ReasonInstalled, 0,
		},
		{
			"an answer that is no proof stays unknown and installs nothing", func(w *world) { w.state.InstallProfile = "minimal" },
			update.ConditionInitialized, update.Maybe, update.ReasonProbeFailed, 0,
		},
		{
			"an empty database waits for its owner", func(w *world) { w.install = []update.Installed{{State: update.InstallEmpty}} },
			update.ConditionInitialized, update.False, update.ReasonNotInstalled, 0,
		},
		{
			"an empty database is installed once where the spec asks", func(w *world) {
				w.install = []update.Installed{{State: update.InstallEmpty}}
				w.state.InstallProfile = "minimal"
			},
			update.ConditionInitialized, update.True, update.ReasonInstalled, 1,
		},
		{
			"a half installed site is not touched", func(w *world) {
				w.install = []update.Installed{{State: update.InstallHalf}}
				w.state.InstallProfile = "minimal"
			},
			update.ConditionInitialized, update.False, update.ReasonHalfInstalled, 0,
		},
		{
			"pending updates are confirmed", func(w *world) {
				w.state.Initialized = true
				w.conditions[update.ConditionDBUpdatesPending] = update.Condition{Reason: update.ReasonUpdatesPending}
				w.pending["r1"] = []update.Pending{some("m_update_1")}
			},
			update.ConditionDBUpdatesPending, update.True, update.ReasonUpdatesConfirmed, 0,
		},
		{
			"an unknown answer keeps the condition", func(w *world) {
				w.state.Initialized = true
				w.conditions[update.ConditionDBUpdatesPending] = update.Condition{Reason: update.ReasonUpdatesPending}
				w.pending["r1"] = []update.Pending{{Message: "cut"}}
			},
			update.ConditionDBUpdatesPending, update.Maybe, update.ReasonProbeFailed, 0,
		},
		{
			"nothing pending removes the condition", func(w *world) {
				w.state.Initialized = true
				w.conditions[update.ConditionDBUpdatesPending] = update.Condition{Reason: update.ReasonUpdatesPending}
			},
			update.ConditionDBUpdatesPending, "", "", 0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.state.Initialized, w.state.Release = false, "r1"
			tc.arrange(w)
			require.NoError(t, w.check(t))
			got := w.conditions[tc.kind]
			require.Equal(t, [2]string{tc.status, tc.reason}, [2]string{got.Status, got.Reason})
			for _, op := range w.ran {
				require.Equal(t, site().UID, op.RunID, "the installation is named after the resource: once per site")
			}
			require.Len(t, w.ran, tc.ran)
		})
	}
}

func TestCheckNeverOverrulesARun(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.InProgress = true
	w.conditions[update.ConditionDBUpdatesPending] = update.Condition{Reason: update.ReasonUpdatesPending}
	require.NoError(t, w.check(t))
	require.Equal(t, []string{"Inspect"}, w.calls)
}
