package workflows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/workflows"
)

// People send signals by hand, and mistype them.
func TestASignalThatCannotBeReadOnlyWakesTheRun(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]any{
		"a text":    "r3",
		"a number":  map[string]any{"release": 11},
		"a list":    []string{"r3"},
		"the right": update.Retarget{Release: "r2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
				w.before["WaitRollout"] = func() {
					env.SignalWorkflow(update.SignalRetarget, payload)
					env.SignalWorkflow(update.SignalAbort, nil)
				}
			})
			require.NoError(t, err)
			require.Equal(t, map[string]string{update.ConditionCodeUpdateFailed: update.ReasonAborted}, w.reasons(), "the signal after it is heard")
		})
	}
}

// The test environment forgives what a worker does not, so the same once more by the replayer.
func TestASignalThatCannotBeReadDoesNotStopTheRun(t *testing.T) {
	t.Parallel()
	pay := func(v any) *commonpb.Payloads {
		p, err := converter.GetDefaultDataConverter().ToPayloads(v)
		require.NoError(t, err)
		return p
	}
	started := &historypb.WorkflowExecutionStartedEventAttributes{
		WorkflowType: &commonpb.WorkflowType{Name: update.UpdateSiteWorkflow}, TaskQueue: &taskqueuepb.TaskQueue{Name: "drupdate"},
		Input: pay(update.Request{Site: site()}), OriginalExecutionRunId: "r", FirstExecutionRunId: "r", Attempt: 1,
	}
	signalled := &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: update.SignalRetarget, Input: pay(map[string]any{"release": 11})}
	scheduled := &historypb.ActivityTaskScheduledEventAttributes{
		ActivityId: "6", ActivityType: &commonpb.ActivityType{Name: string(update.Inspect)}, WorkflowTaskCompletedEventId: 5,
	}
	h := &historypb.History{Events: []*historypb.HistoryEvent{
		{
			EventId: 1, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{WorkflowExecutionStartedEventAttributes: started},
		},
		{
			EventId: 2, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{WorkflowExecutionSignaledEventAttributes: signalled},
		},
		{
			EventId: 3, EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
			Attributes: &historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes{WorkflowTaskScheduledEventAttributes: &historypb.WorkflowTaskScheduledEventAttributes{}},
		},
		{
			EventId: 4, EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED,
			Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
				WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: 3},
			},
		},
		{
			EventId: 5, EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
			Attributes: &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
				WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{ScheduledEventId: 3, StartedEventId: 4},
			},
		},
		{
			EventId: 6, EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
			Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{ActivityTaskScheduledEventAttributes: scheduled},
		},
	}}
	replayer := worker.NewWorkflowReplayer()
	workflows.Register(replayer)
	require.NoError(t, replayer.ReplayWorkflowHistory(quiet(), h))
}

// lateKey encrypts like a sender whose key the worker has not got yet.
type lateKey struct{ late *bool }

const late = "late"

func (k lateKey) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, p := range payloads {
		if *k.late {
			p.Metadata[late] = nil
		}
	}
	return payloads, nil
}

func (lateKey) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, p := range payloads {
		if _, unknown := p.Metadata[late]; unknown {
			return nil, errors.New("no such key")
		}
	}
	return payloads, nil
}

// The watcher has a new key already, and the worker gets it within a minute: until then the task fails, and is tried again.
func TestASignalUnderAKeyThatIsNotThereYetIsNotThrownAway(t *testing.T) {
	t.Parallel()
	w := newWorld()
	on := false
	env := w.environment(30*time.Second, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetDataConverter(converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), lateKey{&on}))
		w.state.Paused = true
		env.RegisterDelayedCallback(func() {
			on = true
			env.SignalWorkflow(update.SignalRetarget, update.Retarget{Release: "r3", Generation: 3})
			on = false
		}, time.Minute)
		env.RegisterDelayedCallback(env.CancelWorkflow, 3*time.Hour)
	})
	env.ExecuteWorkflow(update.UpdateSiteWorkflow, update.Request{Site: site()})
	require.ErrorContains(t, env.GetWorkflowError(), "cannot be decrypted")
}
