package watcher

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/drupdate/drupdate/internal/update"
)

var shopSite = update.Site{Namespace: "shops", Name: "shop", UID: "uid-shop"}

// fakeTemporal answers with the errors of a script, one a call, and then with success.
type fakeTemporal struct {
	script
	status enumspb.WorkflowExecutionStatus
	// started is what was started last, as workflow, options, arguments.
	workflow any
	options  client.StartWorkflowOptions
	args     []any
	signal   any
	// scheduler is the part of it that keeps schedules.
	scheduler fakeScheduler
}

func (f *fakeTemporal) ScheduleClient() client.ScheduleClient { return &f.scheduler }

// script is what a fake server answers, an error for each call; then it answers well.
type script struct {
	errors []error
	calls  int
}

func (s *script) next(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		return errors.New("a call without a deadline")
	}
	s.calls++
	if len(s.errors) == 0 {
		return nil
	}
	err := s.errors[0]
	s.errors = s.errors[1:]
	return err
}

func (f *fakeTemporal) SignalWithStartWorkflow(ctx context.Context, id, name string, arg any, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	f.workflow, f.options, f.args, f.signal = workflow, options, args, map[string]any{"id": id, "name": name, "arg": arg}
	return nil, f.next(ctx)
}

func (f *fakeTemporal) ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	f.workflow, f.options, f.args = workflow, options, args
	return nil, f.next(ctx)
}

func (f *fakeTemporal) SignalWorkflow(ctx context.Context, id, runID, name string, arg any) error {
	f.signal = map[string]any{"id": id, "run": runID, "name": name, "arg": arg}
	return f.next(ctx)
}

func (f *fakeTemporal) DescribeWorkflow(ctx context.Context, _, _ string) (*client.WorkflowExecutionDescription, error) {
	d := &client.WorkflowExecutionDescription{}
	d.Status = f.status
	return d, f.next(ctx)
}

func (f *fakeTemporal) CheckHealth(ctx context.Context, _ *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return nil, f.next(ctx)
}

func TestRetargetSignalsOrStartsTheRunOfTheSite(t *testing.T) {
	t.Parallel()
	f := &fakeTemporal{}
	target := update.Retarget{Release: "10.3.7", Generation: 4, Retry: "1"}
	require.NoError(t, newStarter(f, "queue", untraced, logr.Discard()).Retarget(t.Context(), shopSite, target))
	require.Equal(t, update.UpdateSiteWorkflow, f.workflow)
	require.Equal(t, []any{update.Request{Site: shopSite}}, f.args)
	require.Equal(t, map[string]any{"id": "site/shops/shop", "name": update.SignalRetarget, "arg": target}, f.signal)
	require.Equal(t, "site/shops/shop", f.options.ID)
	require.Equal(t, "queue", f.options.TaskQueue)
	require.Equal(t, "updates of shops/shop", f.options.StaticSummary)
	require.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, f.options.WorkflowIDConflictPolicy)
	require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, f.options.WorkflowIDReusePolicy)
	require.Equal(t, attributes(shopSite, "10.3.7"), f.options.TypedSearchAttributes)
}

func TestAbortSignalsTheOpenRunAndNeverStartsOne(t *testing.T) {
	t.Parallel()
	f := &fakeTemporal{script: script{errors: []error{nil, serviceerror.NewNotFound("workflow execution already completed"), serviceerror.NewUnavailable("down")}}}
	starter := newStarter(f, "queue", untraced, logr.Discard())
	open, err := starter.Abort(t.Context(), shopSite)
	require.NoError(t, err)
	require.True(t, open)
	require.Equal(t, map[string]any{"id": "site/shops/shop", "run": "", "name": update.SignalAbort, "arg": nil}, f.signal)
	open, err = starter.Abort(t.Context(), shopSite)
	require.NoError(t, err)
	require.False(t, open)
	_, err = starter.Abort(t.Context(), shopSite)
	require.ErrorIs(t, err, ErrUnavailable)
	require.Nil(t, f.workflow)
}

func TestCheckThatIsUnderWayCountsAsStarted(t *testing.T) {
	t.Parallel()
	f := &fakeTemporal{script: script{errors: []error{serviceerror.NewWorkflowExecutionAlreadyStarted("started", "", "")}}}
	require.NoError(t, newStarter(f, "queue", untraced, logr.Discard()).Check(t.Context(), shopSite))
	require.Equal(t, update.CheckSiteWorkflow, f.workflow)
	require.Equal(t, []any{update.CheckRequest{Site: shopSite}}, f.args)
	require.Equal(t, "check/shops/shop", f.options.ID)
	require.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, f.options.WorkflowIDConflictPolicy)
}

func TestSearchAttributesThatAreNotRegisteredAreLoggedOnceAndLeftOut(t *testing.T) {
	t.Parallel()
	unknown := serviceerror.NewInvalidArgument("Namespace default has no mapping defined for search attribute DrupalSite")
	f := &fakeTemporal{script: script{errors: []error{unknown}}}
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	s := newStarter(f, "queue", untraced, log)
	require.NoError(t, s.Retarget(t.Context(), shopSite, update.Retarget{Release: "1"}))
	require.Zero(t, f.options.TypedSearchAttributes.Size())
	require.NoError(t, s.Check(t.Context(), shopSite))
	require.Zero(t, f.options.TypedSearchAttributes.Size())
	require.Equal(t, 3, f.calls)
	require.Len(t, lines, 1)
}

func TestOpenIsTrueOnlyOfARunningWorkflow(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		status enumspb.WorkflowExecutionStatus
		err    error
		want   bool
	}{
		{"running", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil, true},
		{"completed", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil, false},
		{"terminated", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, nil, false},
		{"unknown to the server", 0, serviceerror.NewNotFound("no such workflow"), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeTemporal{status: c.status}
			if c.err != nil {
				f.errors = []error{c.err}
			}
			open, err := newStarter(f, "queue", untraced, logr.Discard()).Open(t.Context(), "site/shops/shop")
			require.NoError(t, err)
			require.Equal(t, c.want, open)
		})
	}
}

func TestErrorsThatAreNotAboutTheRequestAreOutages(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		serviceerror.NewUnavailable("connection refused"),
		serviceerror.NewDeadlineExceeded("too slow"),
		serviceerror.NewNamespaceNotFound("drupal"),
		serviceerror.NewPermissionDenied("no", ""),
		context.DeadlineExceeded,
		errors.New("anything else"),
	} {
		s := newStarter(&fakeTemporal{script: script{errors: []error{err, err, err, err}}}, "queue", untraced, logr.Discard())
		require.ErrorIs(t, s.Retarget(t.Context(), shopSite, update.Retarget{}), ErrUnavailable, err)
		require.ErrorIs(t, s.Check(t.Context(), shopSite), ErrUnavailable, err)
		_, got := s.Open(t.Context(), "id")
		require.ErrorIs(t, got, ErrUnavailable, err)
		require.ErrorIs(t, s.Healthy(t.Context()), ErrUnavailable, err)
	}
	s := newStarter(&fakeTemporal{script: script{errors: []error{serviceerror.NewInvalidArgument("task queue is too long")}}}, "queue", untraced, logr.Discard())
	err := s.Retarget(t.Context(), shopSite, update.Retarget{})
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnavailable)
	require.NoError(t, s.Healthy(t.Context()))
}
