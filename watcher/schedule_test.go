package watcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// fakeScheduler keeps one schedule, and answers with the errors of a script, one a call.
type fakeScheduler struct {
	client.ScheduleClient
	script
	options *client.ScheduleOptions
	kept    client.Schedule
}

func (f *fakeScheduler) Create(ctx context.Context, options client.ScheduleOptions) (client.ScheduleHandle, error) {
	if err := f.next(ctx); err != nil {
		return nil, err
	}
	f.options = &options
	return nil, nil //nolint:nilnil // nobody looks at the handle
}

func (f *fakeScheduler) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	return &fakeHandle{of: f, id: id}
}

type fakeHandle struct {
	client.ScheduleHandle
	of *fakeScheduler
	id string
}

func (h *fakeHandle) Delete(ctx context.Context) error { return h.of.next(ctx) }

func (h *fakeHandle) Describe(ctx context.Context) (*client.ScheduleDescription, error) {
	return &client.ScheduleDescription{}, h.of.next(ctx)
}

func (h *fakeHandle) Update(ctx context.Context, options client.ScheduleUpdateOptions) error {
	if err := h.of.next(ctx); err != nil {
		return err
	}
	changed, err := options.DoUpdate(client.ScheduleUpdateInput{Description: client.ScheduleDescription{Schedule: h.of.kept}})
	if err == nil {
		h.of.kept = *changed.Schedule
	}
	return err
}

var nightly = Plan{Cron: "0 3 * * *", Zone: "Europe/Zurich"}

func TestScheduleSkipsWhatOverlapsAndIsMadeOnce(t *testing.T) {
	t.Parallel()
	f := &fakeTemporal{}
	s := newStarter(f, "queue", untraced, logr.Discard())
	require.NoError(t, s.Schedule(t.Context(), shopSite, nightly))
	o := f.scheduler.options
	require.Equal(t, "backups/shops/shop/uid-shop", o.ID)
	require.Equal(t, client.ScheduleSpec{CronExpressions: []string{"0 3 * * *"}, TimeZoneName: "Europe/Zurich"}, o.Spec)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, o.Overlap)
	action, ok := o.Action.(*client.ScheduleWorkflowAction)
	require.True(t, ok)
	require.Equal(t, []string{"backup/shops/shop", "queue"}, []string{action.ID, action.TaskQueue})
	require.Equal(t, update.ScheduledBackupWorkflow, action.Workflow)
	require.Equal(t, []any{update.BackupRequest{Site: shopSite, Scheduled: true}}, action.Args)

	// One that is there is changed, and stays paused if an operator paused it.
	f.scheduler.errors = []error{temporal.ErrScheduleAlreadyRunning}
	f.scheduler.kept.State = &client.ScheduleState{Paused: true, Note: "by hand"}
	require.NoError(t, s.Schedule(t.Context(), shopSite, Plan{Cron: "@daily", Zone: "UTC"}))
	require.Equal(t, []string{"@daily"}, f.scheduler.kept.Spec.CronExpressions)
	require.True(t, f.scheduler.kept.State.Paused)
}

func TestAScheduleThatIsNotThereIsAnAnswer(t *testing.T) {
	t.Parallel()
	f := &fakeTemporal{}
	s := newStarter(f, "queue", untraced, logr.Discard())
	f.scheduler.errors = []error{serviceerror.NewNotFound("no"), serviceerror.NewUnavailable("down"), serviceerror.NewInvalidArgument("bad cron")}
	require.NoError(t, s.Unschedule(t.Context(), shopSite))
	require.ErrorIs(t, s.Unschedule(t.Context(), shopSite), ErrUnavailable)
	err := s.Schedule(t.Context(), shopSite, nightly)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnavailable)
}

func backedUp(plan Plan) siteEdit {
	return func(s *v1alpha1.DrupalSite) {
		s.Spec.Backups = &v1alpha1.BackupsSpec{Schedule: plan.Cron, TimeZone: plan.Zone, Keep: 7}
	}
}

const scheduleID = "backups/shops/shop/uid-shop"

func TestTheScheduleFollowsTheSpec(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, backedUp(nightly))
	w.reconcile()
	require.Equal(t, map[string]Plan{scheduleID: nightly}, w.temporal.schedules)
	require.Equal(t, "Europe/Zurich 0 3 * * *", w.site().Status.ObservedSchedule)

	w.writes, w.temporal.calls = 0, 0
	for range 5 {
		w.pass(time.Minute)
		w.reconcile()
	}
	require.Zero(t, w.writes)
	require.Zero(t, w.temporal.calls)

	w.edit(backedUp(Plan{Cron: "@hourly", Zone: "UTC"}))
	w.reconcile()
	require.Equal(t, map[string]Plan{scheduleID: {Cron: "@hourly", Zone: "UTC"}}, w.temporal.schedules)

	w.edit(func(s *v1alpha1.DrupalSite) { s.Spec.Backups = nil })
	w.reconcile()
	require.Empty(t, w.temporal.schedules)
	require.Empty(t, w.site().Status.ObservedSchedule)
}

func TestARestartTellsTemporalNothingAndALostScheduleComesBackWithinTheHour(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, backedUp(nightly), func(s *v1alpha1.DrupalSite) { s.Status.ObservedSchedule = nightly.String() })
	require.Equal(t, scheduleLook, w.reconcile())
	require.Zero(t, w.temporal.calls)
	w.pass(scheduleLook)
	w.reconcile()
	require.Equal(t, map[string]Plan{scheduleID: nightly}, w.temporal.schedules)
	calls := w.temporal.calls
	w.pass(scheduleLook)
	w.reconcile()
	require.Equal(t, calls+1, w.temporal.calls, "one look, and nothing to do")
}

func TestAScheduleThatTemporalRefusesIsACondition(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, backedUp(Plan{Cron: "99 * * * *", Zone: "UTC"}))
	w.temporal.refused = errors.New("invalid schedule spec")
	require.Equal(t, refusedRetry, w.reconcile())
	require.Equal(t, "True ScheduleRefused", w.condition(v1alpha1.ConditionBackupsUnscheduled))
	w.writes = 0
	calls := w.temporal.calls
	w.pass(time.Second)
	w.reconcile()
	require.Equal(t, calls, w.temporal.calls, "it is not asked at each event")
	require.Zero(t, w.writes)
	w.temporal.refused = nil
	w.edit(backedUp(nightly))
	w.reconcile()
	require.Empty(t, w.condition(v1alpha1.ConditionBackupsUnscheduled))
	require.Len(t, w.temporal.schedules, 1)
}

func TestWithoutTemporalAScheduleWaits(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, backedUp(nightly))
	w.temporal.down()
	require.Equal(t, outageFirst, w.reconcile())
	require.Equal(t, "True TemporalUnreachable", w.condition(v1alpha1.ConditionOrchestratorUnavailable))
	require.Equal(t, "True PodsAvailable", w.condition(v1alpha1.ConditionReady))
	calls := w.temporal.calls
	w.reconcile()
	require.Equal(t, calls, w.temporal.calls, "the breaker holds")
	w.temporal.err = nil
	w.pass(outageMost)
	w.reconcile()
	require.Len(t, w.temporal.schedules, 1)
	require.Empty(t, w.condition(v1alpha1.ConditionOrchestratorUnavailable))
}

func TestTheScheduleGoesWithItsSite(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, backedUp(nightly))
	w.reconcile()
	require.NoError(t, w.client.Delete(t.Context(), w.site()))
	w.temporal.down()
	require.Positive(t, w.reconcile(), "the deletion is not held, and the schedule not forgotten")
	w.temporal.err = nil
	w.pass(outageMost)
	require.Zero(t, w.reconcile())
	require.Empty(t, w.temporal.schedules)
	calls := w.temporal.calls
	require.Zero(t, w.reconcile())
	require.Equal(t, calls, w.temporal.calls)
}

func TestASiteThatIsBeingDeletedLosesItsScheduleAtOnce(t *testing.T) {
	t.Parallel()
	w := servingWorld(t, verified, backedUp(nightly), func(s *v1alpha1.DrupalSite) { s.Finalizers = []string{"example.org/held"} })
	w.reconcile()
	require.NoError(t, w.client.Delete(t.Context(), w.site()))
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: shop})
	require.NoError(t, err)
	require.Empty(t, w.temporal.schedules)
}

func TestASiteWithAScheduleHasABackupVolumeWhateverThePolicy(t *testing.T) {
	t.Parallel()
	site := newSite(backedUp(nightly), func(s *v1alpha1.DrupalSite) { s.Spec.Update.Backup.Policy = v1alpha1.BackupNever })
	objects, err := children(site, nil)
	require.NoError(t, err)
	var names []string
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	require.Contains(t, names, "shop-backups")
}

func TestADeploymentThatIsDeletedDuringARestoreComesBackAsItWas(t *testing.T) {
	t.Parallel()
	site := newSite(rolledBack, func(s *v1alpha1.DrupalSite) {
		s.Annotations = map[string]string{v1alpha1.AnnotationUpdateInProgress: "true"}
		s.Status.Run = &v1alpha1.RunStatus{Phase: string(update.PhaseRewinding), Operation: "run", Restoring: "old", StartedAt: &metav1.Time{}}
	})
	require.Equal(t, "10.3.6", ensured(site))
}
