package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drupdate/drupdate/internal/update"
)

// patience is for how long a site may be found without an answer before it counts as one that gives none.
const patience = 15 * time.Minute

// mostGap is how much of the time between two looks counts as if somebody had looked all the while. Attempts follow one
// another within half a minute; what is longer is a worker, or an API server, that was away, and says nothing of the site.
const mostGap = time.Minute

// tally is for how long something has been seen, look by look. It travels in heartbeats from one attempt to the next.
type tally struct {
	Lasted time.Duration `json:"lasted,omitempty"`
	// At is when it was seen last.
	At time.Time `json:"at,omitzero"`
}

// seen notes that it is seen at now, and was since began: the time before that counts as far as anybody looked.
func (t tally) seen(began, now time.Time) tally {
	if gap := began.Sub(t.At); !t.At.IsZero() && gap > 0 {
		t.Lasted += min(gap, mostGap)
	}
	if took := now.Sub(began); took > 0 {
		t.Lasted += took
	}
	t.At = now
	return t
}

// askBeat is what a question tells by heartbeat, and remembers by it from one attempt to the next.
type askBeat struct {
	Text   string `json:"text"`
	Silent tally  `json:"silent,omitzero"`
}

// silence is for how long the attempts of one question got no answer.
type silence struct {
	clock Clock
	began time.Time
	beats askBeat
}

// listen begins an attempt of a question.
func (a *Activities) listen(ctx context.Context) *silence {
	s := &silence{clock: a.clock, began: a.clock.Now()}
	if activity.IsActivity(ctx) && activity.HasHeartbeatDetails(ctx) {
		if activity.GetHeartbeatDetails(ctx, &s.beats) != nil {
			s.beats = askBeat{} // Unreadable details only make the patience begin anew.
		}
	}
	return s
}

// beat heartbeats while a question is under way, until the returned function is called.
func (s *silence) beat(ctx context.Context, what string) (stop func()) {
	beats := s.beats
	beats.Text = what
	return beat(ctx, beats)
}

// tooLong makes a site's silence permanent when the patience is over. A fault of the API server never passes here: while
// it is away nobody can tell how the site does, and the run waits. Time in which no worker asked does not count either.
func (s *silence) tooLong(ctx context.Context, err error) error {
	if ctx.Err() != nil || !activity.IsActivity(ctx) {
		return err
	}
	beats := askBeat{Text: clean(err.Error()), Silent: s.beats.Silent.seen(s.began, s.clock.Now())}
	if beats.Silent.Lasted >= patience {
		return permanent(update.FailureNoAnswer, "%w", err)
	}
	activity.RecordHeartbeat(ctx, beats)
	return err
}
