package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/drupdate/drupdate/internal/update"
)

// starts remembers what was started and answers with an error.
type starts struct {
	err     error
	options client.StartWorkflowOptions
	args    []any
}

func (s *starts) ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	if _, limited := ctx.Deadline(); !limited {
		return nil, errors.New("an update would wait for ever")
	}
	s.options, s.args = options, append([]any{workflow}, args...)
	return nil, s.err
}

func TestANotificationIsStartedOnce(t *testing.T) {
	t.Parallel()
	what := update.Notification{ID: "r1-5", Kind: update.NotifyStarted, Site: update.Site{Namespace: "sites", Name: "blog"}}
	s := &starts{}
	n := &Notifier{client: s, taskQueue: "queue"}
	require.NoError(t, n.Notify(t.Context(), what))
	require.Equal(t, client.StartWorkflowOptions{
		ID: "notify/sites/blog/r1-5", TaskQueue: "queue", StaticSummary: "started: sites/blog",
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, s.options)
	require.Equal(t, []any{"Notify", what}, s.args)

	s.err = serviceerror.NewWorkflowExecutionAlreadyStarted("taken", "", "")
	require.NoError(t, n.Notify(t.Context(), what), "twice is once")
	s.err = serviceerror.NewUnavailable("away")
	require.ErrorIs(t, n.Notify(t.Context(), what), s.err)
}
