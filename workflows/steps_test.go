package workflows

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// The test environment ends every cancelled activity as cancelled; a server does not, where its worker died.
func TestAStepWhoseWorkerDiedAfterItWasInterruptedWasCutShort(t *testing.T) {
	t.Parallel()
	timeout := temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil)
	for name, c := range map[string]struct {
		err         error
		interrupted bool
		want        bool
	}{
		"cancelled":                     {temporal.NewCanceledError(), true, true},
		"timed out":                     {timeout, true, true},
		"failed":                        {temporal.NewNonRetryableApplicationError("no", update.FailureNoAnswer, nil), true, true},
		"the site is gone":              {temporal.NewNonRetryableApplicationError("no", update.FailureSiteGone, nil), true, false},
		"the run is behind":             {temporal.NewNonRetryableApplicationError("no", update.FailureOperationOpen, nil), true, false},
		"done all the same":             {nil, true, false},
		"timed out, and nobody asked":   {timeout, false, false},
		"an error, and nobody asked":    {errors.New("broken"), false, false},
		"cancelled by the whole run":    {temporal.NewCanceledError(), false, true},
		"nothing happened at all there": {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.ExecuteWorkflow(func(ctx workflow.Context) (bool, error) {
				step, cancel := workflow.WithCancel(ctx)
				if c.interrupted {
					cancel()
				}
				return cutShort(step, c.err), nil
			})
			var got bool
			require.NoError(t, env.GetWorkflowResult(&got))
			require.Equal(t, c.want, got)
		})
	}
}
