package workflows_test

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/workflows"
)

// endings are the cases that must be among the recorded histories, each under its name.
var endings = []string{
	"success", "database", "rollback", "database-failure", "cancel", "check",
	"preflight-failure", "recovered", "backup", "restore", "scheduled-backup",
}

func recorded(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/histories/*.json.gz")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no history is recorded: run make histories")
	return files
}

func load(t *testing.T, file string) *history.History {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	raw, err := gzip.NewReader(f)
	require.NoError(t, err)
	h, err := client.HistoryFromJSON(raw, client.HistoryJSONOptions{})
	require.NoError(t, err)
	return h
}

func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	files := recorded(t)
	for _, ending := range endings {
		require.Contains(t, strings.Join(files, " "), "_"+ending+".json.gz", "no history of this ending is recorded")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			workflows.Register(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistory(quiet(), load(t, file)))
		})
	}
}

// The negative control: a replay that cannot fail would prove nothing.
func TestAChangedWorkflowFailsTheReplay(t *testing.T) {
	t.Parallel()
	for _, file := range recorded(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: []interceptor.WorkerInterceptor{&careless{}}})
			require.NoError(t, err)
			workflows.Register(replayer)
			require.ErrorContains(t, replayer.ReplayWorkflowHistory(quiet(), load(t, file)), "TMPRL1100")
		})
	}
}

// careless gives every workflow what a careless change would: a new first step, without a version.
type careless struct {
	interceptor.WorkerInterceptorBase
}

func (*careless) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &newFirstStep{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type newFirstStep struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (s *newFirstStep) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if err := workflow.Sleep(ctx, 1); err != nil {
		return nil, err
	}
	return s.Next.ExecuteWorkflow(ctx, in)
}

// A signal that comes together with the last activity's result must start another look, or the wish in it is lost.
func TestASignalInTheLastWorkflowTaskIsNotLost(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/histories/*_success.json.gz")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	h := load(t, files[len(files)-1])
	n := len(h.Events)
	last := h.Events[n-4:] // task scheduled, started, completed, workflow completed
	require.Equal(t, enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, last[0].EventType)
	require.Equal(t, enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, last[3].EventType)
	payload, err := converter.GetDefaultDataConverter().ToPayloads(update.Retarget{Release: "another"})
	require.NoError(t, err)
	signal := &history.HistoryEvent{
		EventId: last[1].EventId, EventTime: last[0].EventTime, EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
		Attributes: &history.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
			WorkflowExecutionSignaledEventAttributes: &history.WorkflowExecutionSignaledEventAttributes{SignalName: update.SignalRetarget, Input: payload},
		},
	}
	last[1].EventId++
	last[2].EventId++
	last[2].GetWorkflowTaskCompletedEventAttributes().StartedEventId++
	look := inspection(t, h)
	look.EventId, look.EventTime = last[2].EventId+1, last[3].EventTime
	look.GetActivityTaskScheduledEventAttributes().WorkflowTaskCompletedEventId = last[2].EventId
	look.GetActivityTaskScheduledEventAttributes().ActivityId = strconv.FormatInt(look.EventId, 10)
	h.Events = append(h.Events[:n-3:n-3], signal, last[1], last[2], look)
	replayer := worker.NewWorkflowReplayer()
	workflows.Register(replayer)
	require.NoError(t, replayer.ReplayWorkflowHistory(quiet(), h), "the run ends without another look")
}

// inspection is the event of the first look at the world.
func inspection(t *testing.T, h *history.History) *history.HistoryEvent {
	t.Helper()
	for _, event := range h.Events {
		if a := event.GetActivityTaskScheduledEventAttributes(); a != nil && a.ActivityType.Name == string(update.Inspect) {
			return proto.CloneOf(event)
		}
	}
	t.Fatal("no look at the world is recorded")
	return nil
}
