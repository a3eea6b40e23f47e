package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/update"
)

// mostUpdates is how many names of pending updates an answer carries, and nameLength how long each may be.
const (
	mostUpdates = 50
	nameLength  = 128
)

// PendingUpdates asks drush updatedb:status, and whether the database is ahead of the code, which that does not tell.
// "None" is answered by proof only, and so is "Ahead".
func (a *Activities) PendingUpdates(ctx context.Context, q update.Question) (update.Pending, error) {
	p, err := a.partner(ctx, q)
	if err != nil {
		return update.Pending{}, err
	}
	answer, err := p.pending(ctx)
	if err != nil || answer.State == update.PendingUnknown {
		return answer, err
	}
	return p.unlessAhead(ctx, answer)
}

// unlessAhead is the answer, unless it is proven that the database belongs to newer code. No proof is no obstacle: a site
// whose Drush cannot be asked this has been updated without the question all the time.
func (p *partner) unlessAhead(ctx context.Context, answer update.Pending) (update.Pending, error) {
	r, err := p.ask(ctx, "drush php:eval", p.drush.UpdatesAhead(), pendingTimeout)
	switch {
	case failureType(err) == update.FailureNoAnswer:
		return answer, nil
	case err != nil:
		return update.Pending{}, err
	}
	names, known := drush.ParseUpdatesAhead(r)
	if !known || len(names) == 0 {
		return answer, nil
	}
	ahead := update.Pending{State: update.PendingAhead, Count: len(names), Updates: bounded(names)}
	ahead.Message = fmt.Sprintf("the database has had %s that this release does not know, so it belongs to a newer one: %s",
		update.Count(ahead.Count, "update"), strings.Join(ahead.Updates, ", "))
	return ahead, nil
}

func (p *partner) pending(ctx context.Context) (update.Pending, error) {
	r, err := p.ask(ctx, "drush updatedb:status", p.drush.UpdateStatus(), pendingTimeout)
	if err != nil {
		return update.Pending{}, err
	}
	status := drush.ParseUpdateStatus(r)
	answer := update.Pending{Message: clean(status.Reason), Count: len(status.Pending)}
	switch status.Verdict {
	case drush.UpdatesNone:
		answer.State = update.PendingNone
	case drush.UpdatesPending:
		answer.State = update.PendingSome
	case drush.UpdatesUnknown:
	}
	names := make([]string, 0, len(status.Pending))
	for _, u := range status.Pending {
		names = append(names, u.String())
	}
	answer.Updates = bounded(names)
	return answer, nil
}

// bounded sorts names of updates and keeps what an answer may carry.
func bounded(names []string) []string {
	for i := range names {
		names[i] = cut(clean(names[i]), nameLength)
	}
	slices.Sort(names)
	return slices.Clip(names[:min(len(names), mostUpdates)])
}
