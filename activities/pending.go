package activities

import (
	"context"
	"slices"

	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/update"
)

// mostUpdates is how many names of pending updates an answer carries, and nameLength how long each may be.
const (
	mostUpdates = 50
	nameLength  = 128
)

// PendingUpdates asks drush updatedb:status. "None" is answered by proof only.
func (a *Activities) PendingUpdates(ctx context.Context, q update.Question) (update.Pending, error) {
	p, err := a.partner(ctx, q)
	if err != nil {
		return update.Pending{}, err
	}
	return p.pending(ctx)
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
	for _, u := range status.Pending {
		answer.Updates = append(answer.Updates, cut(clean(u.String()), nameLength))
	}
	slices.Sort(answer.Updates)
	answer.Updates = answer.Updates[:min(len(answer.Updates), mostUpdates)]
	return answer, nil
}
