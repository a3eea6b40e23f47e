package activities

import (
	"context"

	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/update"
)

// RebuildCaches runs drush cache:rebuild once. An attempt that did not start, or whose answer is incomplete, is
// repeated; Drush's own failure is the answer.
func (a *Activities) RebuildCaches(ctx context.Context, q update.Question) (update.Answer, error) {
	p, err := a.partner(ctx, q)
	if err != nil {
		return update.Answer{}, err
	}
	r, err := p.ask(ctx, "drush cache:rebuild", p.drush.CacheRebuild(), cacheTimeout)
	if err != nil {
		return update.Answer{}, err
	}
	if noDrush(r) {
		return drushMissing(r), nil
	}
	outcome, why := drush.ParseCacheRebuild(r)
	answer := update.Answer{Outcome: outcomeOf(outcome), Message: clean(why), Output: lastOutput(r)}
	if answer.Outcome != update.Succeeded {
		answer.Reason = update.ReasonCacheRebuildFailed
	}
	return answer, nil
}
