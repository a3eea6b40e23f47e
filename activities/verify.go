package activities

import (
	"context"
	"errors"
	"time"

	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/update"
)

// A site that does not look well is looked at again before that counts: one lost connection is no verdict.
const (
	verifyLooks = 3
	verifyPause = 5 * time.Second
)

// errNotAvailable is transient: pods become available on their own, or the patience ends.
var errNotAvailable = errors.New("the Deployment has no available pod")

// VerifySite asks whether the site works at the release: the Deployment is available, Drupal bootstraps, no database
// update is pending, no enabled module is without code, and, where a prober is set and the site has a URI, a page is served.
func (a *Activities) VerifySite(ctx context.Context, q update.Question) (update.Answer, error) {
	waited := a.listen(ctx)
	for n := 1; ; n++ {
		answer, err := a.verify(ctx, q, waited)
		if err != nil || answer.Outcome == update.Succeeded || answer.Reason == update.FailureDrushMissing || n == verifyLooks || !timeToVerify(ctx) {
			return answer, err
		}
		stop := waited.beat(ctx, "looking again: "+answer.Message)
		err = a.pause(ctx, verifyPause)
		stop()
		if err != nil {
			return update.Answer{}, err
		}
	}
}

// timeToVerify tells whether another look can end before the attempt does. An attempt that is cut off leaves no verdict, and
// would be made again and again.
func timeToVerify(ctx context.Context) bool {
	ends, limited := ctx.Deadline()
	return !limited || time.Until(ends) > verifyPause+2*statusTimeout+pendingTimeout+probeTimeout
}

func (a *Activities) verify(ctx context.Context, q update.Question, waited *silence) (update.Answer, error) {
	site, err := a.site(ctx, q.Site)
	if err != nil {
		return update.Answer{}, err
	}
	d, err := a.deployment(ctx, site)
	if err != nil {
		return update.Answer{}, err
	}
	if d == nil || !available(d) {
		return update.Answer{}, waited.tooLong(ctx, errNotAvailable)
	}
	p, err := a.partner(ctx, q)
	if err != nil {
		return update.Answer{}, err
	}
	if answer, err := p.bootstraps(ctx); err != nil || answer.Outcome != update.Succeeded {
		return answer, err
	}
	if answer, err := p.nothingPending(ctx); err != nil || answer.Outcome != update.Succeeded {
		return answer, err
	}
	if p.lacksCode(ctx) {
		return unwell(update.Failed, "an enabled module or theme has no code in the image"), nil
	}
	return a.servesPage(ctx, site.Spec.Runtime.URI, waited)
}

// lacksCode asks for what Drush passes over in silence. An answer that does not come is no sign of anything, and keeps
// nobody waiting: the question asks every module, and some of those ask the world outside.
func (p *partner) lacksCode(ctx context.Context) bool {
	r, err := p.ask(ctx, "drush core:requirements", p.drush.Requirements(), statusTimeout)
	return err == nil && drush.ParseMissingCode(r)
}

// servesPage asks for a page, where there is somebody to ask and an address to ask for.
func (a *Activities) servesPage(ctx context.Context, uri string, waited *silence) (update.Answer, error) {
	if a.prober == nil || uri == "" {
		return update.Answer{Outcome: update.Succeeded}, nil
	}
	defer waited.beat(ctx, "asking for "+uri)()
	if err := a.prober.Probe(ctx, uri); err != nil {
		return unwell(update.Failed, err.Error()), ctx.Err()
	}
	return update.Answer{Outcome: update.Succeeded}, nil
}

func (p *partner) bootstraps(ctx context.Context) (update.Answer, error) {
	r, err := p.ask(ctx, "drush status", p.drush.Status(), statusTimeout)
	if err != nil {
		return update.Answer{}, err
	}
	if noDrush(r) {
		return drushMissing(r), nil
	}
	if b := drush.ParseBootstrap(r); !b.Healthy {
		return unwell(unproven(r), b.Reason), nil
	}
	return update.Answer{Outcome: update.Succeeded}, nil
}

// unproven is Failed for a command that failed, and Unknown for one that succeeded without its proof.
func unproven(r drush.Result) update.Outcome {
	if r.Outcome() == drush.Failed {
		return update.Failed
	}
	return update.Unknown
}

func (p *partner) nothingPending(ctx context.Context) (update.Answer, error) {
	pending, err := p.pending(ctx)
	if err != nil {
		return update.Answer{}, err
	}
	switch pending.State {
	case update.PendingNone:
		return update.Answer{Outcome: update.Succeeded}, nil
	case update.PendingSome:
		return unwell(update.Failed, "database updates are still pending: "+pending.Message), nil
	case update.PendingAhead:
		return unwell(update.Failed, pending.Message), nil
	case update.PendingUnknown:
	}
	return unwell(update.Unknown, "it cannot be told whether database updates are pending: "+pending.Message), nil
}

func unwell(outcome update.Outcome, why string) update.Answer {
	return update.Answer{Outcome: outcome, Reason: update.ReasonVerifyFailed, Message: clean(why)}
}
