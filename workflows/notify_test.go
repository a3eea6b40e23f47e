package workflows

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/drupdate/drupdate/internal/update"
)

// notified runs Notify against a webhook that refuses a number of times.
func notified(t *testing.T, refusals int) (env *testsuite.TestWorkflowEnvironment, sent *[]update.Notification) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env = suite.NewTestWorkflowEnvironment()
	Register(env)
	sent = &[]update.Notification{}
	env.RegisterActivityWithOptions(func(n update.Notification) (update.None, error) {
		*sent = append(*sent, n)
		if len(*sent) <= refusals {
			return update.None{}, errors.New("webhook: it answers with status 500")
		}
		return update.None{}, nil
	}, activity.RegisterOptions{Name: string(update.SendNotification)})
	env.ExecuteWorkflow(update.NotifyWorkflow, update.Notification{ID: "r1-5", Kind: update.NotifyFailed})
	return env, sent
}

func TestANotificationIsSentUntilItIsTaken(t *testing.T) {
	t.Parallel()
	env, sent := notified(t, 3)
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, *sent, 4)
	for _, n := range *sent {
		require.Equal(t, "r1-5", n.ID)
	}
}

func TestAWebhookThatIsDownForADayFailsNothing(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	Register(env)
	env.SetWorkflowRunTimeout(48 * time.Hour)
	began := env.Now()
	var last time.Time
	env.RegisterActivityWithOptions(func(update.Notification) (update.None, error) {
		return update.None{}, nil
	}, activity.RegisterOptions{Name: string(update.SendNotification)})
	attempts := 0
	env.OnActivity(string(update.SendNotification), mock.Anything, mock.Anything).Return(func(update.Notification) (update.None, error) {
		attempts++
		last = env.Now()
		return update.None{}, errors.New("webhook: it answers with status 500")
	})
	env.ExecuteWorkflow(update.NotifyWorkflow, update.Notification{ID: "r1-5", Kind: update.NotifyFailed})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	require.Greater(t, attempts, 100, "every ten minutes")
	require.Greater(t, last.Sub(began), 23*time.Hour)
	require.LessOrEqual(t, last.Sub(began), 24*time.Hour)
}
