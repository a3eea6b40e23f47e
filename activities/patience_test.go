package activities

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/internal/update"
)

// insisted runs an activity with attempts, as a workflow does, but for a limit to them.
func insisted[In, Out any](w *world, op update.Op[In, Out], in In) (out Out, err error) {
	w.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	Register(env, New(Deps{Client: w.client, Exec: w.exec, Clock: w.clock, Prober: w.prober}))
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Hour,
			RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumAttempts: 20},
		})
		return workflow.ExecuteActivity(ctx, string(op), in).Get(ctx, &out)
	})
	require.True(w.t, env.IsWorkflowCompleted())
	return out, env.GetWorkflowError()
}

func TestAnEventThatCannotBeRecordedForLongDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{
		"their store is down": apierrors.NewInternalError(errors.New("etcdserver: no leader")),
		"a quota counts them": apierrors.NewForbidden(corev1.Resource("events"), "e", errors.New("exceeded quota: objects, requested: count/events=1, used: count/events=100, limited: count/events=100")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testSite())
			tries := 0
			w.funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				tries++
				return fault
			}
			_, err := insisted(w, update.WriteReport, started())
			require.NoError(t, err)
			require.Equal(t, tellPatience, tries)
			require.Equal(t, "2.0", w.site().Status.Release.Target)
		})
	}
}
