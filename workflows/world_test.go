package workflows_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/workflows"
)

// world plays the cluster: activities read and change it, tests look at what is left.
type world struct {
	state      update.State
	conditions map[string]update.Condition
	finished   bool
	backups    []update.Backup
	// listed are the backups of the resource, unscheduled the schedules that were removed.
	listed      map[string]update.Backup
	unscheduled []string
	events      []update.Event
	// image is the Deployment's release; history every release that it was set to.
	history []string
	cron    string
	lifted  bool

	rollouts map[string]update.Rollout
	caches   map[string][]update.Answer
	pending  map[string][]update.Pending
	verify   map[string]update.Answer
	ops      map[update.OperationKind]update.OperationResult
	ran      []update.Operation
	// lost is how often the Job of an operation vanishes.
	lost map[update.OperationKind]int
	// stumbles are how an operation ends first.
	stumbles map[update.OperationKind]failures
	install  []update.Installed
	failing  map[string]error
	before   map[string]func()
	after    map[string]func()
	calls    []string
}

// newWorld is an installed site that serves r1 and whose owner wants r2.
func newWorld() *world {
	w := &world{
		state: update.State{
			Site: site(), Release: "r2", Generation: 2, Initialized: true,
			Settings: update.Settings{
				RolloutTimeout: 10 * time.Minute, DatabaseTimeout: time.Hour, CacheRebuildAttempts: 2, Backup: true, BackupVolume: true, Restore: true,
			},
			Releases: update.Releases{Serving: "r1", Failsafe: "r1", Target: "r1"},
			Workload: update.Workload{Exists: true, UID: "d1", Release: "r1", Available: true},
		},
		conditions: map[string]update.Condition{},
		listed:     map[string]update.Backup{"old": {Name: "old", Release: "r1", Bytes: 9, SHA256: "ab"}, "older": {Name: "older", Release: "r0", Bytes: 9, SHA256: "ab"}},
		rollouts:   map[string]update.Rollout{},
		caches:     map[string][]update.Answer{},
		pending:    map[string][]update.Pending{},
		verify:     map[string]update.Answer{},
		failing:    map[string]error{},
		lost:       map[update.OperationKind]int{},
		stumbles:   map[update.OperationKind]failures{},
		before:     map[string]func(){},
		after:      map[string]func(){},
	}
	w.ops = map[update.OperationKind]update.OperationResult{
		update.OperationUpdate: {
			Outcome: update.Succeeded, Step: "done", Touched: true, Maintenance: "0",
			Backup: &update.Backup{Name: "b", Release: "r1", Bytes: 9, SHA256: "ab"},
		},
		update.OperationRestore: {Outcome: update.Succeeded, Step: "done", Touched: true, Maintenance: "1"},
		update.OperationLift:    {Outcome: update.Succeeded, Step: "done", Maintenance: "0"},
		update.OperationInstall: {Outcome: update.Succeeded, Step: "done"},
		update.OperationBackup: {
			Outcome: update.Succeeded, Step: "done", Backup: &update.Backup{Name: "taken", Release: "r1", Bytes: 9, SHA256: "cd"},
		},
		update.OperationRewind: {
			Outcome: update.Succeeded, Step: "done", Touched: true, Maintenance: "1", Backup: &update.Backup{Name: "safety", Release: "r1", Bytes: 9, SHA256: "ef"},
		},
		update.OperationPreflight: {Outcome: update.Succeeded, Step: "done", Message: "m_update_1", Pending: 1},
	}
	return w
}

func site() update.Site { return update.Site{Namespace: "prod", Name: "blog", UID: "u1"} }

func some(names ...string) update.Pending {
	return update.Pending{State: update.PendingSome, Updates: names, Count: len(names)}
}

func none() update.Pending { return update.Pending{State: update.PendingNone} }

// step records a call, lets a test interfere, and fails where it asks for that.
func (w *world) step(ctx context.Context, name string) error {
	w.calls = append(w.calls, name)
	if hook := w.before[name]; hook != nil {
		delete(w.before, name)
		hook()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return w.failing[name]
}

// nth lets a test interfere before the nth call of an activity, beside others of its kind.
func (w *world) nth(name string, n int, hook func()) {
	earlier, calls := w.before[name], 0
	var count func()
	count = func() {
		if earlier != nil {
			earlier()
			earlier = w.before[name]
		}
		if calls++; calls == n {
			hook()
			return
		}
		w.before[name] = count
	}
	w.before[name] = count
}

func (w *world) done(name string) {
	if hook := w.after[name]; hook != nil {
		delete(w.after, name)
		hook()
	}
}

// next takes the first of a queue of answers; the last one stays.
func next[T any](queues map[string][]T, key string, otherwise T) T {
	queue := queues[key]
	if len(queue) == 0 {
		return otherwise
	}
	if len(queue) > 1 {
		queues[key] = queue[1:]
	}
	return queue[0]
}

func bind[In, Out any](env *testsuite.TestWorkflowEnvironment, w *world, op update.Op[In, Out], fn func(context.Context, In) (Out, error)) {
	name := string(op)
	env.RegisterActivityWithOptions(func(ctx context.Context, in In) (Out, error) {
		if err := w.step(ctx, name); err != nil {
			var zero Out
			return zero, err
		}
		out, err := fn(ctx, in)
		w.done(name)
		return out, err
	}, activity.RegisterOptions{Name: name})
}

func (w *world) register(env *testsuite.TestWorkflowEnvironment) {
	bind(env, w, update.Inspect, func(context.Context, update.Site) (update.State, error) { return w.inspect(), nil })
	bind(env, w, update.WriteReport, func(_ context.Context, r update.Report) (update.None, error) {
		if err := w.known(r.Known, r.Operation, r.KnownRuns); err != nil {
			return update.None{}, err
		}
		w.report(r)
		return update.None{}, nil
	})
	bind(env, w, update.SetRelease, func(_ context.Context, c update.Change) (update.Change, error) {
		if err := w.known(c.Known, nil, c.KnownRuns); err != nil {
			return c, err
		}
		return w.set(c), nil
	})
	bind(env, w, update.WaitRollout, func(_ context.Context, r update.RolloutWait) (update.Rollout, error) {
		if rollout, ok := w.rollouts[r.Change.Release]; ok {
			return rollout, nil
		}
		return update.Rollout{State: update.RolloutComplete}, nil
	})
	bind(env, w, update.RebuildCaches, func(_ context.Context, q update.Question) (update.Answer, error) {
		return next(w.caches, q.Release, update.Answer{Outcome: update.Succeeded}), nil
	})
	bind(env, w, update.PendingUpdates, func(_ context.Context, q update.Question) (update.Pending, error) {
		return next(w.pending, q.Release, none()), nil
	})
	bind(env, w, update.VerifySite, func(_ context.Context, q update.Question) (update.Answer, error) {
		if answer, ok := w.verify[q.Release]; ok {
			return answer, nil
		}
		return update.Answer{Outcome: update.Succeeded}, nil
	})
	bind(env, w, update.CheckInstalled, func(context.Context, update.Question) (update.Installed, error) {
		return next(map[string][]update.Installed{"": w.install}, "", update.Installed{}), nil
	})
	bind(env, w, update.SuspendCron, func(context.Context, update.Site) (update.None, error) {
		w.cron = "suspended"
		return update.None{}, nil
	})
	bind(env, w, update.ResumeCron, func(context.Context, update.Site) (update.None, error) {
		w.cron = "resumed"
		return update.None{}, nil
	})
	bind(env, w, update.FindBackup, func(_ context.Context, q update.BackupQuery) (update.Backup, error) { return w.listed[q.Name], nil })
	bind(env, w, update.RemoveSchedule, func(_ context.Context, s update.Site) (update.None, error) {
		w.unscheduled = append(w.unscheduled, s.ScheduleID())
		return update.None{}, nil
	})
	bind(env, w, update.RunOperation, func(_ context.Context, op update.Operation) (update.OperationResult, error) {
		w.ran = append(w.ran, op)
		if op.Kind == update.OperationLift {
			w.lifted = true
		}
		if w.lost[op.Kind] > 0 {
			w.lost[op.Kind]--
			return update.OperationResult{Message: "the Job vanished"}, nil
		}
		if f := w.stumbles[op.Kind]; f.left > 0 {
			w.stumbles[op.Kind] = failures{f.left - 1, f.result}
			return f.result, nil
		}
		return w.ops[op.Kind], nil
	})
}

// failures are the first so many ends of an operation.
type failures struct {
	left   int
	result update.OperationResult
}

func (w *world) inspect() update.State {
	state := w.state
	state.CodeFailed = w.conditions[update.ConditionCodeUpdateFailed].Reason
	state.DatabaseFailed = w.conditions[update.ConditionDBUpdatesFailed].Reason
	state.Pending = w.conditions[update.ConditionDBUpdatesPending].Reason
	return state
}

// known refuses as the activities do.
func (w *world) known(operation, next *string, runs []string) error {
	open := w.state.Operation
	if open != "" && operation != nil && *operation != open && (next == nil || *next != open) {
		return fatal(update.FailureOperationOpen)
	}
	if w.state.LastRunID != "" && len(runs) > 0 && !slices.Contains(runs, w.state.LastRunID) {
		return fatal(update.FailureOperationOpen)
	}
	return nil
}

func (w *world) set(c update.Change) update.Change {
	if c.UID != "" && c.UID != w.state.Workload.UID {
		return update.Change{Site: c.Site, Release: c.Release, Replaced: true}
	}
	if w.state.Workload.Release != c.Release {
		w.history = append(w.history, c.Release)
	}
	w.state.Workload.Release = c.Release
	c.UID = w.state.Workload.UID
	return c
}

func (w *world) report(r update.Report) {
	if r.OnlyIdle && w.state.InProgress {
		return
	}
	for _, c := range r.Set {
		w.conditions[c.Type] = c
	}
	if r.Blind && w.state.InProgress {
		r.Phase, r.Finished = "", false
	}
	for _, kind := range r.Remove {
		delete(w.conditions, kind)
	}
	if r.Releases != nil {
		w.state.Releases = *r.Releases
	}
	if r.Unjudged != "" && w.state.Releases.Failed == r.Unjudged { // the activity spares what a person must look at
		w.state.Releases.Failed = ""
		delete(w.conditions, update.ConditionCodeUpdateFailed)
		delete(w.conditions, update.ConditionDBUpdatesFailed)
	}
	if r.Operation != nil {
		w.state.Operation, w.state.Unsecured, w.state.Restoring, w.state.Journal = *r.Operation, r.Unsecured, r.Restoring, r.Journal
		w.state.Lift = r.Lift
	}
	if r.ObservedRetry != nil {
		w.state.ObservedRetry = *r.ObservedRetry
	}
	if r.Backup != nil {
		w.backups = append(w.backups, *r.Backup)
	}
	if r.Event != nil {
		w.events = append(w.events, *r.Event)
	}
	if r.Phase != "" {
		w.state.LastPhase, w.state.LastMessage, w.state.LastRunID = r.Phase, r.Message, r.RunID
	}
	switch r.InProgress {
	case update.MarkSet:
		w.state.InProgress = true
	case update.MarkClear:
		w.state.InProgress = false
	case update.MarkKeep:
	}
	w.finished = r.Finished
}

// environment is Temporal's test environment with our workflows and the activities of this world.
func (w *world) environment(limit time.Duration, prepare ...func(*testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet())
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(limit)
	workflows.Register(env)
	w.register(env)
	for _, p := range prepare {
		p(env)
	}
	return env
}

// run executes UpdateSite in this world to its end.
func (w *world) run(t *testing.T, prepare ...func(*testsuite.TestWorkflowEnvironment)) (update.Summary, error) {
	t.Helper()
	env := w.environment(30*time.Second, prepare...)
	env.ExecuteWorkflow(update.UpdateSiteWorkflow, update.Request{Site: site()})
	require.True(t, env.IsWorkflowCompleted())
	if err := env.GetWorkflowError(); err != nil {
		return update.Summary{}, err
	}
	var summary update.Summary
	require.NoError(t, env.GetWorkflowResult(&summary))
	return summary, nil
}

// reasons are the reasons of the failure conditions, by type.
func (w *world) reasons() map[string]string {
	out := map[string]string{}
	for _, kind := range []string{update.ConditionCodeUpdateFailed, update.ConditionDBUpdatesFailed, update.ConditionDBUpdatesPending} {
		if c, ok := w.conditions[kind]; ok {
			out[kind] = c.Reason
		}
	}
	return out
}

// orderly holds after every run, whatever happened.
func (w *world) orderly(t *testing.T) {
	t.Helper()
	require.False(t, w.state.InProgress, "the annotation updateInProgress is left behind")
	require.Empty(t, w.state.Operation, "an operation is left unsettled")
	asked := map[string]bool{}
	for _, op := range w.ran {
		if op.Kind == update.OperationUpdate {
			require.False(t, asked[op.RunID], "one operation was asked for twice: %v", w.ran)
			asked[op.RunID] = true
		}
	}
	if w.cron == "suspended" {
		require.Contains(t, w.conditions, update.ConditionDBUpdatesFailed, "CronJobs stay suspended and no condition says why")
	}
}

// quiet drops what the test environment logs of the faults that tests make on purpose.
func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

func phaseOf(t *testing.T, err error) update.Phase {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	return update.Phase(app.Type())
}

func fatal(kind string) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf("cannot: %s", kind), kind, nil)
}
