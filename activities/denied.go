package activities

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// denialLasts is how long the API server must deny a step before that counts. One that has just started denies everybody
// until it has read the roles.
const denialLasts = 2 * time.Minute

// denialGap is how far apart two denials of a step may be to be one: in a longer time somebody else may have been answered, as
// another worker whose attempt it was.
const denialGap = 90 * time.Second

// denials remember since when a step is denied. The zero value is ready.
type denials struct {
	mu    sync.Mutex
	steps map[string]denial
}

// denial is one that has been met again and again, from since to last.
type denial struct{ since, last time.Time }

// lasts notes a denial of a step, and tells whether it stands for long enough to count.
func (d *denials) lasts(step string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.steps == nil {
		d.steps = map[string]denial{}
	}
	for other, met := range d.steps { // what another worker went on with is not asked for again here
		if now.Sub(met.last) > denialGap {
			delete(d.steps, other)
		}
	}
	met, again := d.steps[step]
	if !again {
		met.since = now
	}
	met.last = now
	d.steps[step] = met
	return now.Sub(met.since) >= denialLasts
}

// forget ends a step's denial: it was answered, or given up.
func (d *denials) forget(step string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.steps, step)
}

// denied tells whether the API server says that we have no right to a request, and not that it refuses the object. Of a
// denied question about the server itself (which kinds there are) only the code arrives: it is about no object at all.
func denied(err error) bool {
	if !apierrors.IsForbidden(err) {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Kind == "") {
		return true
	}
	return strings.Contains(err.Error(), ": User \"") && strings.Contains(err.Error(), "\" cannot ")
}

// classified is classify for a step that may be repeated: a denial is transient until it has lasted.
func (a *Activities) classified(ctx context.Context, op string, err error) error {
	step := stepOf(ctx, op)
	if denied(err) && !a.denials.lasts(step, a.clock.Now()) {
		return temporal.NewApplicationError(clean(op+": "+err.Error()), transientType)
	}
	a.denials.forget(step)
	return classify(ctx, op, err)
}

// stepOf is the same for every attempt of one step of one run, and another for every other.
func stepOf(ctx context.Context, op string) string {
	if !activity.IsActivity(ctx) {
		return op
	}
	info := activity.GetInfo(ctx)
	return info.WorkflowExecution.RunID + "/" + info.ActivityID
}
