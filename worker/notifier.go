package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/drupdate/drupdate/internal/update"
)

// notifyTimeout limits the start of one notification: an update waits for it.
const notifyTimeout = 5 * time.Second

// starter is what Notifier calls of client.Client.
type starter interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
}

// Notifier starts the workflow that delivers a notification, once for each id.
type Notifier struct {
	client    starter
	taskQueue string
}

// NewNotifier makes a notifier that puts its workflows on a task queue; empty means update.TaskQueue.
func NewNotifier(c client.Client, taskQueue string) *Notifier {
	return &Notifier{client: c, taskQueue: Config{TaskQueue: taskQueue}.taskQueue()}
}

// Notify implements activities.Notifier. It returns when Temporal has taken the notification, not when it is sent.
func (n *Notifier) Notify(ctx context.Context, what update.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	_, err := n.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: what.NotifyID(), TaskQueue: n.taskQueue,
		// One that was delivered, or given up, is not begun again for as long as the server remembers it.
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		StaticSummary:         fmt.Sprintf("%s: %s", what.Kind, what.Site),
	}, update.NotifyWorkflow, what)
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if err == nil || errors.As(err, &already) {
		return nil
	}
	return fmt.Errorf("start workflow %q: %w", what.NotifyID(), err)
}
