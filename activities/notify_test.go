package activities

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/metrics"
	"github.com/drupdate/drupdate/internal/metrics/metricstest"
	"github.com/drupdate/drupdate/internal/update"
)

// told remembers what it was told, and fails as often as it is asked to.
type outbox struct {
	failures int
	asked    []update.Notification
}

func (o *outbox) Notify(_ context.Context, n update.Notification) error {
	if o.failures > 0 {
		o.failures--
		return errors.New("temporal is away")
	}
	n.Time = time.Time{}
	o.asked = append(o.asked, n)
	return nil
}

func (o *outbox) Send(ctx context.Context, n update.Notification) error { return o.Notify(ctx, n) }

func TestEachTransitionIsToldUnderOneIDHoweverOftenItIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	box := &outbox{}
	w.notifier = box
	twice(w, update.WriteReport, started())
	twice(w, update.WriteReport, inPhase(update.PhaseRebuildingCaches))
	twice(w, update.WriteReport, rolledBack())
	require.Len(t, box.asked, 4)
	require.Equal(t, box.asked[0], box.asked[1])
	require.Equal(t, box.asked[2], box.asked[3])
	require.NotEmpty(t, box.asked[0].ID)
	id := box.asked[0].ID
	require.Equal(t, []update.Notification{
		{
			ID: id, Kind: update.NotifyStarted, Site: blog, Release: "2.0", From: "1.0", Phase: update.PhaseRollingOut,
			Message: "Moving to 2.0.", WorkflowID: "site/sites/blog", RunID: "r1",
		},
		{
			ID: box.asked[2].ID, Kind: update.NotifyFailed, Site: blog, Release: "2.0", From: "1.0", Phase: update.PhaseRolledBack,
			Reason: "CrashLoopBackOff", Message: "It crashed.", WorkflowID: "site/sites/blog", RunID: "r1",
		},
	}, []update.Notification{box.asked[0], box.asked[2]})
}

func TestAReportInsistsOnItsNotificationForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	w.notifier = &outbox{failures: 1}
	_, err := do(w, update.WriteReport, started())
	requireFailure(t, err, "")
	require.Equal(t, "r1", w.site().Status.Run.RunID, "the site is marked all the same")
	_, err = do(w, update.WriteReport, started())
	require.NoError(t, err)
}

func TestWhoIsTold(t *testing.T) {
	t.Parallel()
	for phase, kind := range map[update.Phase]update.NotificationKind{
		update.PhaseSucceeded: update.NotifyFinished, update.PhaseAborted: update.NotifyFinished, update.PhaseSuspended: update.NotifyFinished,
		update.PhaseSuperseded: update.NotifyFinished,
		update.PhaseRolledBack: update.NotifyFailed, update.PhaseCodeFailed: update.NotifyFailed, update.PhaseRestored: update.NotifyFailed,
		update.PhaseRollbackFailed: update.NotifyWaiting, update.PhaseFrozen: update.NotifyWaiting, update.PhaseRestoreFailed: update.NotifyWaiting,
	} {
		n, tells := update.NotificationOf(update.Report{Site: blog, RunID: "r1", Phase: phase, Finished: true})
		require.True(t, tells)
		require.Equal(t, kind, n.Kind, phase)
	}
	for name, r := range map[string]update.Report{
		"a step":                 inPhase(update.PhaseVerifying),
		"a check":                {Site: blog, OnlyIdle: true},
		"the mark of a lost run": {Site: blog, Finished: true, InProgress: update.MarkClear},
	} {
		_, tells := update.NotificationOf(r)
		require.False(t, tells, name)
	}
}

func TestSendingIsCountedByResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	w.metrics, w.webhook = metrics.NewWorker(registry), &outbox{failures: 2}
	for range 3 {
		_, _ = do(w, update.SendNotification, update.Notification{ID: "r1-5"})
	}
	require.Equal(t, map[string]float64{
		`drupdate_notifications_total{result="Failed"}`: 2, `drupdate_notifications_total{result="Succeeded"}`: 1,
	}, metricstest.Values(t, registry))
}

func TestAWorkerWithoutAWebhookLeavesANotificationToOthers(t *testing.T) {
	t.Parallel()
	_, err := do(newWorld(t), update.SendNotification, update.Notification{ID: "r1-5"})
	requireFailure(t, err, "")
}

func TestAnEventIsOneForEachTransition(t *testing.T) {
	t.Parallel()
	r := started()
	require.Equal(t, eventName("blog", "5", started()), eventName("blog", "5", r))
	require.NotEqual(t, eventName("blog", "5", r), eventName("blog", "29", r), "the same words, later in the run")
}
