//go:build integration

package worker

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// builds are two builds of one workflow, on a queue of their own: the second one has a step more, behind a version. That is
// the only way in which the workflows of this project change.
type builds struct {
	*testing.T
	client client.Client
	queue  string
}

func newBuilds(t *testing.T) *builds {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS")})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &builds{T: t, client: c, queue: "builds-" + uuid.NewString()}
}

// start runs a worker of one build, with the options of the real one, and returns what stops it.
func (b *builds) start(id string, second bool) (stop func()) {
	b.Helper()
	options := Config{Client: b.client, TaskQueue: b.queue, BuildID: id}.options()
	w := sdkworker.New(b.client, b.queue, options)
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) (string, error) { return story(ctx, second) }, workflow.RegisterOptions{Name: "Story"})
	for name, fn := range map[string]func(context.Context) error{
		"First": func(context.Context) error { return nil },
		"Extra": func(context.Context) error { return nil },
		"Last":  func(context.Context) error { return nil },
	} {
		w.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
	require.NoError(b, w.Start())
	return w.Stop
}

func story(ctx workflow.Context, second bool) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	if err := workflow.ExecuteActivity(ctx, "First").Get(ctx, nil); err != nil {
		return "", err
	}
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
	told := "as it began"
	if second && workflow.GetVersion(ctx, "extra", workflow.DefaultVersion, 1) == 1 {
		told = "with the step more"
		if err := workflow.ExecuteActivity(ctx, "Extra").Get(ctx, nil); err != nil {
			return "", err
		}
		workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	}
	if err := workflow.ExecuteActivity(ctx, "Last").Get(ctx, nil); err != nil {
		return "", err
	}
	return told, workflow.Sleep(ctx, time.Millisecond) // as UpdateSite ends: see its lastTask
}

func (b *builds) begin() client.WorkflowRun {
	b.Helper()
	run, err := b.client.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{ID: "story/" + uuid.NewString(), TaskQueue: b.queue}, "Story")
	require.NoError(b, err)
	return run
}

func (b *builds) signal(run client.WorkflowRun, names ...string) {
	b.Helper()
	for _, name := range names {
		require.NoError(b, b.client.SignalWorkflow(b.Context(), run.GetID(), run.GetRunID(), name, nil))
	}
}

// reaches waits until a history has an event of a kind.
func (b *builds) reaches(run client.WorkflowRun, kind enums.EventType) {
	b.Helper()
	require.Eventually(b, func() bool {
		events := b.client.GetWorkflowHistory(b.Context(), run.GetID(), run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			require.NoError(b, err)
			if event.EventType == kind {
				return true
			}
		}
		return false
	}, time.Minute, 200*time.Millisecond, kind.String())
}

func (b *builds) told(run client.WorkflowRun) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	var told string
	require.NoError(b, run.Get(ctx, &told))
	return told
}

func TestARunThatBeganWithOneBuildEndsWithTheNext(t *testing.T) {
	t.Parallel()
	b := newBuilds(t)
	stop := b.start("one", false)
	run := b.begin()
	b.reaches(run, enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	stop()
	defer b.start("two", true)()
	b.signal(run, "go", "end")
	require.Equal(t, "with the step more", b.told(run), "the version is asked for after the change of builds")
}

// The older build cannot go on with what the newer one began. It must leave the run alone, and not end it.
func TestABuildThatDoesNotKnowAStepLeavesTheRunToOneThatDoes(t *testing.T) {
	t.Parallel()
	b := newBuilds(t)
	stop := b.start("two", true)
	run := b.begin()
	b.signal(run, "go")
	b.reaches(run, enums.EVENT_TYPE_MARKER_RECORDED)
	stop()
	stopOld := b.start("one", false)
	b.signal(run, "end")
	require.Eventually(t, func() bool { // the first attempt was for the build that is gone; later ones are in no history
		description, err := b.client.DescribeWorkflow(t.Context(), run.GetID(), run.GetRunID())
		require.NoError(t, err)
		require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, description.Status)
		return description.RawResponse.GetPendingWorkflowTask().GetAttempt() >= 3
	}, 2*time.Minute, 200*time.Millisecond)
	stopOld()
	defer b.start("two", true)()
	require.Equal(t, "with the step more", b.told(run))
}

func TestRunsEndWhileTwoBuildsPollSideBySide(t *testing.T) {
	t.Parallel()
	b := newBuilds(t)
	defer b.start("one", false)()
	defer b.start("two", true)()
	var runs []client.WorkflowRun
	for range 20 {
		runs = append(runs, b.begin())
	}
	for _, run := range runs {
		b.signal(run, "go", "end")
	}
	for _, run := range runs {
		require.Contains(t, []string{"as it began", "with the step more"}, b.told(run))
	}
}
