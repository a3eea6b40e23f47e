package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// patience is how a command waits for what it asked for.
type patience struct {
	wait    bool
	timeout time.Duration
	// wake is closed when what is waited for may have come without a change of the site; nil if it cannot.
	wake <-chan struct{}
}

func (p *patience) flags(c *cobra.Command, what string) { p.flagsFor(c, what, "the update") }

// flagsFor are the flags of a wait for something that fails if whose does.
func (p *patience) flagsFor(c *cobra.Command, what, whose string) {
	c.Flags().BoolVar(&p.wait, "wait", false, "wait until "+what+", and fail if "+whose+" does")
	c.Flags().Var(&positive{&p.timeout}, "timeout", "how long to wait, for example 30m; 0 means for ever")
}

// positive is a flag of a duration that is not below zero.
type positive struct{ *time.Duration }

// Set implements pflag.Value.
func (p *positive) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return err
	case d < 0:
		return errors.New("it must not be negative")
	}
	*p.Duration = d
	return nil
}

// Type implements pflag.Value.
func (*positive) Type() string { return "duration" }

// until waits for a site and limits the wait. What was asked for goes on whatever becomes of the wait.
func (s *session) until(ctx context.Context, p patience, key kube.ObjectKey, done func(*v1alpha1.DrupalSite) bool) (*v1alpha1.DrupalSite, error) {
	within := ctx
	if p.timeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	site, err := s.await(within, key, p.wake, done)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted; %s/%s goes on without being waited for", key.Namespace, key.Name)
	case errors.Is(within.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s/%s was not done within %s; it goes on without being waited for", key.Namespace, key.Name, lasting(p.timeout))
	case err != nil:
		return nil, err
	case site == nil:
		return nil, fmt.Errorf("%s/%s was deleted meanwhile", key.Namespace, key.Name)
	}
	return site, nil
}

// ended tells whether the run that a wish led to is over. before is the site as it was when the wish was written, after it.
func ended(before *v1alpha1.DrupalSite) func(*v1alpha1.DrupalSite) bool {
	return func(site *v1alpha1.DrupalSite) bool {
		switch {
		case site.InProgress(), site.RetryAsked():
			return false
		case site.Spec.Release != before.Spec.Release:
			return true // somebody asked for something else: this wish is history
		case superseded(site):
			return false // it judged nothing, and another run follows
		case newlyFinished(before.Status.Run, site.Status.Run):
			return site.Status.Release.Target == site.Spec.Release
		}
		// A wish for what is there already needs no run.
		return site.Status.ObservedGeneration >= before.Generation && before.Annotations[v1alpha1.AnnotationRetry] == before.Status.ObservedRetry &&
			site.Status.Release.Serving == site.Spec.Release && site.Status.Release.Failed == "" && !before.InProgress()
	}
}

// superseded tells whether the newest run gave way to what happened to the site, and left its target without a verdict.
func superseded(site *v1alpha1.DrupalSite) bool {
	run, r := site.Status.Run, site.Status.Release
	return run != nil && run.Phase == string(update.PhaseSuperseded) && r.Failed == "" && r.Serving != site.Spec.Release
}

// newlyFinished tells whether a run has ended since.
func newlyFinished(before, now *v1alpha1.RunStatus) bool {
	if now == nil || now.FinishedAt == nil {
		return false
	}
	return before == nil || before.RunID != now.RunID || before.FinishedAt == nil || !before.FinishedAt.Equal(now.FinishedAt)
}

// outcome is what the end of a wait is told as: nil if the site serves what it wants.
func (s *session) outcome(site *v1alpha1.DrupalSite, wanted string) error {
	name := site.Namespace + "/" + site.Name
	if site.Spec.Release != wanted {
		return fmt.Errorf("somebody asked %s for %s meanwhile", name, short(site.Spec.Release))
	}
	if site.Status.Release.Serving == wanted && site.Status.Release.Failed == "" {
		return nil
	}
	v := judge(site)
	s.next(s.advise(site, v))
	s.out.say("")
	phase := v.state
	if run := site.Status.Run; run != nil {
		phase = run.Phase
	}
	if phase == string(update.PhaseSuspended) {
		return fmt.Errorf("the update of %s to %s waits until its Deployment runs again", name, short(wanted))
	}
	return fmt.Errorf("the update of %s to %s failed (%s); it serves %s", name, short(wanted), phase, short(site.Status.Release.Serving))
}
