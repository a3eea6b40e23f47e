package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/podexec"
	"github.com/drupdate/drupdate/internal/update"
)

var ask2 = update.Question{Site: blog, Release: "2.0"}

var (
	healthy     = said(0, `{"bootstrap":"Successful","db-status":"Connected"}`, "")
	unhealthy   = said(0, "[]", "")
	nonePending = said(0, "", " [success] No database updates required.")
	somePending = said(0, `{"system_update_10300":{"module":"system","update_id":10300,"type":"hook_update_n"}}`, "")
	missing     = said(127, "", "sh: 1: drush: not found")
	rebuilt     = said(0, "", " [success] Cache rebuild complete.")
)

// serving is a site whose Deployment runs 2.0 in one ready pod.
func serving(t *testing.T, extra ...client.Object) *world {
	t.Helper()
	d := testDeployment("2.0")
	old, fresh := testReplicaSet(testDeployment("1.0"), "blog-1", 1), testReplicaSet(d, "blog-2", 2)
	return newWorld(t, append([]client.Object{testSite(), d, old, fresh, testPod(old, "blog-1-a"), testPod(fresh, "blog-2-a")}, extra...)...)
}

func TestRebuildCaches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer drush.Result
		want   update.Answer
	}{
		{"done", rebuilt, update.Answer{Outcome: update.Succeeded, Output: "[success] Cache rebuild complete."}},
		{"failed", said(1, "", " [error]  password=hunter2 is wrong"), update.Answer{
			Outcome: update.Failed, Reason: update.ReasonCacheRebuildFailed, Message: "password=[redacted] is wrong", Output: "[error] password=[redacted] is wrong",
		}},
		{"exit 0 without proof", said(0, "", ""), update.Answer{
			Outcome: update.Unknown, Reason: update.ReasonCacheRebuildFailed, Message: `exit code 0 without the words "Cache rebuild complete"`,
		}},
		{"no Drush", missing, update.Answer{
			Outcome: update.Failed, Reason: update.FailureDrushMissing, Message: "Drush cannot be run: sh: 1: drush: not found", Output: "sh: 1: drush: not found",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := serving(t)
			w.exec.answers["cache:rebuild"] = []any{c.answer}
			require.Equal(t, c.want, twice(w, update.RebuildCaches, ask2))
			require.Equal(t, []string{"blog-2-a: drush --uri=https://blog.example cache:rebuild", "blog-2-a: drush --uri=https://blog.example cache:rebuild"}, w.exec.asked)
		})
	}
}

func TestWhatIsNoAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]any{
		"no end frame": drush.Result{Note: "the output was cut off"},
		"not started":  fmt.Errorf("%w: dialing backend", podexec.ErrNotStarted),
		"too late":     context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serving(t)
			w.exec.answers["cache:rebuild"] = []any{answer}
			w.exec.answers["updatedb:status"] = []any{answer}
			_, err := do(w, update.RebuildCaches, ask2)
			requireFailure(t, err, "")
			_, err = do(w, update.PendingUpdates, ask2)
			requireFailure(t, err, "")
		})
	}
}

func TestADatabaseThatBelongsToNewerCode(t *testing.T) {
	t.Parallel()
	ahead := said(0, `{"drupdate_ahead":["system_update_11000","node_post_update_x"]}`, "")
	for _, c := range []struct {
		name    string
		pending drush.Result
		answer  any
		want    update.PendingState
	}{
		{"ahead, and nothing is pending", nonePending, ahead, update.PendingAhead},
		{"ahead, though something is pending as well", somePending, ahead, update.PendingAhead},
		{"not ahead", nonePending, said(0, `{"drupdate_ahead":[]}`, ""), update.PendingNone},
		{"no proof is no obstacle", somePending, said(1, "", "php:eval is not allowed here"), update.PendingSome},
		{"not known whether anything is pending: it is not asked", said(0, "", ""), ahead, update.PendingUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := serving(t)
			w.exec.answers["updatedb:status"], w.exec.answers["php:eval"] = []any{c.pending}, []any{c.answer}
			got := twice(w, update.PendingUpdates, ask2)
			require.Equal(t, c.want, got.State)
			if c.want == update.PendingAhead {
				require.Equal(t, update.Pending{
					State: update.PendingAhead, Count: 2, Updates: []string{"node_post_update_x", "system_update_11000"},
					Message: "the database has had 2 updates that this release does not know, so it belongs to a newer one: node_post_update_x, system_update_11000",
				}, got)
			}
		})
	}
}

func TestWhomToAsk(t *testing.T) {
	t.Parallel()
	d := testDeployment("2.0")
	fresh := testReplicaSet(d, "blog-2", 2)
	notReady := testPod(fresh, "blog-2-a", func(p *corev1.Pod) { p.Status.Conditions = nil })
	for _, c := range []struct {
		name     string
		question update.Question
		objects  []client.Object
		kind     string
		ok       bool
	}{
		{"no Deployment yet", ask2, []client.Object{testSite()}, "", false},
		{
			"another release",
			update.Question{Site: blog, Release: "3.0"},
			[]client.Object{testSite(), d, fresh, testPod(fresh, "blog-2-a")},
			update.FailureReplaced, false,
		},
		{"no pod", ask2, []client.Object{testSite(), d, fresh}, "", false},
		{"a pod that is not ready", ask2, []client.Object{testSite(), d, fresh, notReady}, "", false},
		{"a pod that need not be ready", update.Question{Site: blog, Release: "2.0", AllowNotReady: true}, []client.Object{testSite(), d, fresh, notReady}, "", true},
		{"no site", ask2, nil, update.FailureSiteGone, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.objects...)
			w.exec.answers["updatedb:status"] = []any{nonePending}
			_, err := do(w, update.PendingUpdates, c.question)
			if c.ok {
				require.NoError(t, err)
				return
			}
			requireFailure(t, err, c.kind)
			require.Empty(t, w.exec.asked)
		})
	}
}

// mostAsked is how often outlast asks, fifteen seconds apart.
const mostAsked = 120

// outlast asks until the answer is final, as a workflow does, and returns the error that ends it.
func outlast[In, Out any](w *world, op update.Op[In, Out], in In) error {
	w.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) { w.clock.After(15 * time.Second) })
	Register(env, New(Deps{Client: w.client, Exec: w.exec, Clock: w.clock, Prober: w.prober}))
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Hour,
			RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1, MaximumAttempts: mostAsked},
		})
		return workflow.ExecuteActivity(ctx, string(op), in).Get(ctx, nil)
	})
	require.True(w.t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

// A site that can be asked no more is found out in the end: a run that waited for ever would hold the site half way.
func TestASiteThatStaysSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	d := testDeployment("2.0")
	down := testDeployment("2.0", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
	fresh := testReplicaSet(d, "blog-2", 2)
	late := testReplicaSet(testDeployment("1.0"), "blog-1", 1)
	late.OwnerReferences = fresh.OwnerReferences
	for _, c := range []struct {
		name    string
		objects []client.Object
	}{
		{"the Deployment is gone", nil},
		{"its controller makes no ReplicaSet", []client.Object{d}},
		{"there is no pod", []client.Object{d, fresh}},
		{"its controller makes no ReplicaSet of the new release", []client.Object{d, late, testPod(late, "blog-1-a")}},
		{"no pod is available", []client.Object{down, fresh}},
		{"no answer arrives whole", []client.Object{d, fresh, testPod(fresh, "blog-2-a")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(c.objects, testSite())...)
			cut := []any{drush.Result{Note: "the output was cut off"}}
			w.exec.answers = map[string][]any{"cache:rebuild": cut, "updatedb:status": cut, "--fields=bootstrap": cut}
			requireFailure(t, outlast(w, update.VerifySite, ask2), update.FailureNoAnswer)
			if c.name == "no pod is available" {
				return // only the verification asks for that
			}
			requireFailure(t, outlast(w, update.RebuildCaches, ask2), update.FailureNoAnswer)
			requireFailure(t, outlast(w, update.PendingUpdates, ask2), update.FailureNoAnswer)
		})
	}
}

func TestAnAbsentAPIServerIsNoSilenceOfTheSite(t *testing.T) {
	t.Parallel()
	w := serving(t)
	w.funcs.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return apierrors.NewServiceUnavailable("away")
	}
	requireFailure(t, outlast(w, update.VerifySite, ask2), "")
}

// A site is silent for a minute, then its API server is away for hours, and after that the pods have yet to start again.
func TestTheHoursOfAnAbsentAPIServerAreNoSilenceOfTheSite(t *testing.T) {
	t.Parallel()
	w := serving(t)
	cut := drush.Result{Note: "the output was cut off"}
	w.exec.answers["cache:rebuild"] = []any{cut, cut, cut, cut, rebuilt}
	looks := 0
	w.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, site := o.(*v1alpha1.DrupalSite); site {
			looks++
		}
		if looks > 2 && looks < mostAsked-20 {
			w.clock.After(time.Minute)
			return apierrors.NewServiceUnavailable("away")
		}
		return c.Get(ctx, key, o, opts...)
	}
	require.NoError(t, outlast(w, update.RebuildCaches, ask2))
	require.Greater(t, w.clock.Now().Sub(noon), time.Hour)
}

func TestADeploymentThatIsMissingWhileTheAPIServerIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	looks := 0
	w.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, site := o.(*v1alpha1.DrupalSite); !site {
			return c.Get(ctx, key, o, opts...)
		}
		if looks++; looks < mostAsked-3 {
			return apierrors.NewServiceUnavailable("away")
		}
		if looks == mostAsked-1 {
			require.NoError(t, c.Create(ctx, testDeployment("1.0")))
		}
		return c.Get(ctx, key, o, opts...)
	}
	require.NoError(t, outlast(w, update.SetRelease, to("2.0", "")))
}

func TestATallyCountsOnlyWhereSomebodyLooked(t *testing.T) {
	t.Parallel()
	now := noon
	next := func(d time.Duration) time.Time { now = now.Add(d); return now }
	count := tally{}.seen(noon, next(10*time.Second))
	require.Equal(t, 10*time.Second, count.Lasted, "what the attempt itself took")
	began := next(15 * time.Second)
	count = count.seen(began, began)
	require.Equal(t, 25*time.Second, count.Lasted, "and the pause between two")
	began = next(time.Hour)
	count = count.seen(began, began)
	require.Equal(t, 25*time.Second+mostGap, count.Lasted, "but not an hour without anybody")
}

func TestTheQuestionWhetherADatabaseIsAheadKeepsNobodyForEver(t *testing.T) {
	t.Parallel()
	w := serving(t)
	w.exec.answers["updatedb:status"] = []any{somePending}
	w.exec.answers["php:eval"] = []any{drush.Result{Note: "the output was cut off"}}
	require.NoError(t, outlast(w, update.PendingUpdates, ask2))
	require.Greater(t, w.clock.Now().Sub(noon), patience-time.Minute)
}

func TestAVerificationEndsBeforeItsAttemptDoes(t *testing.T) {
	t.Parallel()
	w := serving(t)
	w.exec.answers = map[string][]any{"--fields=bootstrap": {unhealthy}}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	require.False(t, timeToVerify(ctx), "a look that takes its time would be cut off")
	ctx, cancel = context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	require.True(t, timeToVerify(ctx))
	require.True(t, timeToVerify(t.Context()))
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	Register(env, New(Deps{Client: w.client, Exec: w.exec, Clock: w.clock}))
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 4 * time.Minute})
		return workflow.ExecuteActivity(ctx, string(update.VerifySite), ask2).Get(ctx, nil)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Zero(t, w.clock.waits, "it does not look again")
}

func TestAContainerWithoutAShellIsPermanent(t *testing.T) {
	t.Parallel()
	w := serving(t)
	w.exec.answers["updatedb:status"] = []any{fmt.Errorf("%w: exec", podexec.ErrNoShell)}
	_, err := do(w, update.PendingUpdates, ask2)
	requireFailure(t, err, update.FailureDrushMissing)
}

func TestPendingUpdates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer drush.Result
		want   update.Pending
	}{
		{"none", nonePending, update.Pending{State: update.PendingNone, Message: "Drush says that no updates are pending"}},
		{"some", somePending, update.Pending{State: update.PendingSome, Count: 1, Updates: []string{"system_update_10300"}, Message: "1 update is pending"}},
		{"no proof", said(0, "", ""), update.Pending{Message: `empty answer without the words "No database updates required"`}},
		{"no database", said(1, "", " [error]  Bootstrap failed."), update.Pending{Message: "Bootstrap failed."}},
		{"no Drush", missing, update.Pending{Message: "sh: 1: drush: not found"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := serving(t)
			w.exec.answers["updatedb:status"] = []any{c.answer}
			require.Equal(t, c.want, twice(w, update.PendingUpdates, ask2))
		})
	}
}

func TestCheckInstalled(t *testing.T) {
	t.Parallel()
	done, half := said(0, `s:4:"done";`, ""), said(0, `s:15:"install_profile";`, "")
	noTable := said(1, "", "ERROR 1146 (42S02) at line 1: Table 'x.key_value' doesn't exist")
	down := said(1, "", "ERROR 2002 (HY000): Can't connect to server on 'db'")
	for _, c := range []struct {
		name                         string
		status, task, driver, tables drush.Result
		want                         update.InstallState
	}{
		{"installed", healthy, done, drush.Result{}, drush.Result{}, update.InstallDone},
		{"half installed", healthy, half, drush.Result{}, drush.Result{}, update.InstallHalf},
		{"proven to be empty", unhealthy, noTable, said(0, "mysql", ""), said(0, "0", ""), update.InstallEmpty},
		{"tables of somebody else", unhealthy, noTable, said(0, "mysql", ""), said(0, "7", ""), update.InstallUnknown},
		{"a driver that cannot be told", unhealthy, noTable, said(0, "", ""), said(0, "0", ""), update.InstallUnknown},
		{"a database that is down", unhealthy, down, said(0, "mysql", ""), said(0, "0", ""), update.InstallUnknown},
		{"no Drush", missing, missing, missing, missing, update.InstallUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := serving(t)
			w.exec.answers = map[string][]any{
				"--fields=bootstrap": {c.status}, "install_task": {c.task}, "db-driver": {c.driver}, "COUNT": {c.tables},
			}
			got := twice(w, update.CheckInstalled, ask2)
			require.Equal(t, c.want, got.State)
			require.NotEmpty(t, got.Message)
		})
	}
}

type testProber struct{ err error }

func (p testProber) Probe(context.Context, string) error { return p.err }

func TestVerifySite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		status, pending []any
		prober          Prober
		want            update.Answer
		waits           int
	}{
		{"well", []any{healthy}, []any{nonePending}, nil, update.Answer{Outcome: update.Succeeded}, 0},
		{"well, and serving a page", []any{healthy}, []any{nonePending}, testProber{}, update.Answer{Outcome: update.Succeeded}, 0},
		{"well at the second look", []any{unhealthy, healthy}, []any{nonePending}, nil, update.Answer{Outcome: update.Succeeded}, 1},
		{
			"not bootstrapping",
			[]any{unhealthy},
			[]any{nonePending},
			nil,
			update.Answer{Outcome: update.Unknown, Reason: update.ReasonVerifyFailed, Message: "Drush does not say that Drupal bootstraps"},
			2,
		},
		{
			"updates left",
			[]any{healthy},
			[]any{somePending},
			nil,
			update.Answer{Outcome: update.Failed, Reason: update.ReasonVerifyFailed, Message: "database updates are still pending: 1 update is pending"},
			2,
		},
		{
			"an enabled module without code",
			[]any{healthy},
			[]any{nonePending},
			nil,
			update.Answer{Outcome: update.Failed, Reason: update.ReasonVerifyFailed, Message: "an enabled module or theme has no code in the image"},
			2,
		},
		{
			"no page",
			[]any{healthy},
			[]any{nonePending},
			testProber{errors.New("it answers with status 503")},
			update.Answer{Outcome: update.Failed, Reason: update.ReasonVerifyFailed, Message: "it answers with status 503"},
			2,
		},
		{"no Drush", []any{missing}, nil, nil, drushMissing(missing), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := serving(t)
			w.prober = c.prober
			w.exec.answers = map[string][]any{"--fields=bootstrap": c.status, "updatedb:status": c.pending}
			if c.name == "an enabled module without code" {
				w.exec.answers["core:requirements"] = []any{said(0, `{"invalid_module":{"title":"Invalid module"}}`, "")}
			} // else nobody answers, and that is no sign
			got, err := do(w, update.VerifySite, ask2)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Equal(t, c.waits, w.clock.waits)
		})
	}
}

func TestVerifySiteWaitsForAnAvailablePod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(), testDeployment("2.0", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }))
	_, err := do(w, update.VerifySite, ask2)
	requireFailure(t, err, "")
}
