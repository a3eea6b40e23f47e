package activities

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/podexec"
	"github.com/drupdate/drupdate/internal/update"
)

// Clock tells the time and waits. Tests inject one that does not wait.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once d has passed.
	After(d time.Duration) <-chan time.Time
}

// Executor runs one question in a pod. Its implementation is *podexec.Executor.
type Executor interface {
	Run(ctx context.Context, r podexec.Request) (drush.Result, error)
}

// Prober asks a site for a page. An error says why the page is no proof of health.
type Prober interface {
	Probe(ctx context.Context, uri string) error
}

// Metrics counts and times. Its implementation is *metrics.Worker.
type Metrics interface {
	// UpdateEnded is told how an update ended, the reason of its failure, and how long after its mark; zero when it made none.
	UpdateEnded(end update.Phase, reason string, took time.Duration)
	// PhaseEnded is told that one phase of an open run followed another, and how long the first was.
	PhaseEnded(phase, next update.Phase, reason string, took time.Duration)
	// MaintenanceEnded is told how long a site was held in maintenance mode.
	MaintenanceEnded(took time.Duration)
	// BackupFailed is told that a database update was given up because its backup failed.
	BackupFailed()
	// DrushAnswered is told how long a question took, and what came of it.
	DrushAnswered(command, result string, took time.Duration)
	// NotificationSent is told whether a request to the webhook was accepted.
	NotificationSent(ok bool)
}

// uncounted is where nobody counts.
type uncounted struct{}

func (uncounted) UpdateEnded(update.Phase, string, time.Duration)              {}
func (uncounted) PhaseEnded(update.Phase, update.Phase, string, time.Duration) {}
func (uncounted) MaintenanceEnded(time.Duration)                               {}
func (uncounted) BackupFailed()                                                {}
func (uncounted) DrushAnswered(string, string, time.Duration)                  {}
func (uncounted) NotificationSent(bool)                                        {}

// Notifier starts the notification of a transition. Asking twice for one is asking once.
type Notifier interface {
	Notify(ctx context.Context, n update.Notification) error
}

// Schedules removes schedules from Temporal. Removing one that is not there is no error.
type Schedules interface {
	Remove(ctx context.Context, id string) error
}

// Webhook sends one notification. Calling it twice sends it twice, with one id.
type Webhook interface {
	Send(ctx context.Context, n update.Notification) error
}

// Deps are what the activities work with.
type Deps struct {
	// Client reads live: a cache would answer with what was true before our own write.
	Client client.Client
	Exec   Executor
	// Clock is nil for the real one.
	Clock Clock
	// Prober is nil where VerifySite must not send HTTP requests.
	Prober Prober
	// Metrics is nil where nobody counts.
	Metrics Metrics
	// Namespaces are those whose sites are served; none means all of them.
	Namespaces []string
	// Notifier is nil where nobody is told of transitions.
	Notifier Notifier
	// Webhook is nil where the worker sends no notifications.
	Webhook Webhook
	// RunsURL is the address of a namespace in Temporal's Web UI, as https://temporal.example.org/namespaces/default; empty
	// where it is not known.
	RunsURL string
	// Schedules is nil where schedules are left alone.
	Schedules Schedules
}

// Activities are the steps of the workflows. Its methods may be called from many goroutines.
type Activities struct {
	client   client.Client
	exec     Executor
	clock    Clock
	prober   Prober
	metrics  Metrics
	notifier Notifier
	webhook  Webhook
	// schedules is nil where schedules are left alone.
	schedules Schedules
	// namespaces are empty where every site is served.
	namespaces []string
	runsURL    string
	denials    denials
}

// New makes the activities.
func New(deps Deps) *Activities {
	if deps.Clock == nil {
		deps.Clock = realClock{}
	}
	if deps.Metrics == nil {
		deps.Metrics = uncounted{}
	}
	return &Activities{
		client: deps.Client, exec: deps.Exec, clock: deps.Clock, prober: deps.Prober, metrics: deps.Metrics,
		notifier: deps.Notifier, webhook: deps.Webhook, schedules: deps.Schedules, namespaces: deps.Namespaces,
		runsURL: strings.TrimSuffix(deps.RunsURL, "/"),
	}
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// errStopping hands a polling activity to another worker when this one is shutting down.
var errStopping = errors.New("this worker is stopping: another one goes on")

// pause waits for d. It returns early with an error when the activity is cancelled or the worker stops.
func (a *Activities) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-activity.GetWorkerStopChannel(ctx):
		return errStopping
	case <-a.clock.After(d):
		return nil
	}
}

// backoff returns the pause before look number n (from 0): from first, growing by half, up to most.
func backoff(n int, first, most time.Duration) time.Duration {
	d := first
	for range n {
		if d += d / 2; d >= most {
			return most
		}
	}
	return d
}

// heartbeatEvery is how often a blocking activity heartbeats; the SDK throttles to a share of the heartbeat timeout.
const heartbeatEvery = 5 * time.Second

// beat heartbeats until the returned function is called, for activities that block in one long call.
func beat(ctx context.Context, details any) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	activity.RecordHeartbeat(ctx, details)
	go func() {
		defer close(done)
		ticker := time.NewTicker(heartbeatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				activity.RecordHeartbeat(ctx, details)
			}
		}
	}()
	return func() { cancel(); <-done }
}
