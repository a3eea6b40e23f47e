package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// What pause and resume are about.
const (
	onlyRun     = "run"
	onlyUpdates = "updates"
)

func pauseCommand(cfg Config) *cobra.Command {
	return holdCommand(cfg, hold{
		use: "pause SITE", short: "Let no update start, and hold an open run between two steps", paused: true, signal: update.SignalPause,
		updates: "No update of %s starts.", run: "The open run of %s holds before its next step.",
	})
}

func resumeCommand(cfg Config) *cobra.Command {
	return holdCommand(cfg, hold{
		use: "resume SITE", short: "Let updates start again, and a held run go on", signal: update.SignalResume,
		updates: "Updates of %s may start.", run: "The open run of %s goes on.",
	})
}

// hold is pause, or resume.
type hold struct {
	use, short, signal string
	paused             bool
	updates, run       string
}

func holdCommand(cfg Config, h hold) *cobra.Command {
	s := newSession(cfg)
	var only string
	c := &cobra.Command{
		Use:   h.use,
		Short: h.short,
		Long: h.short + ".\n\nThis writes spec.update.paused, which concerns updates that have not begun, and sends the open run, if there is one, the signal " +
			h.signal + ". --only does one of both.",
		Args:              exactly("SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	c.Flags().StringVar(&only, "only", "", "run: only the open run; updates: only those that have not begun")
	s.complete(c, "only", func(context.Context) []string { return []string{onlyRun, onlyUpdates} })
	c.RunE = s.does(func(ctx context.Context, args []string) error {
		if !slices.Contains([]string{"", onlyRun, onlyUpdates}, only) {
			return Usage(fmt.Errorf("--only is %s or %s, not %q", onlyRun, onlyUpdates, only))
		}
		return s.hold(ctx, args[0], h, only)
	})
	return c
}

func (s *session) hold(ctx context.Context, name string, h hold, only string) error {
	c, site, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	full := site.Namespace + "/" + site.Name
	if only != onlyRun {
		if err := patch(ctx, c, site, map[string]any{"spec": map[string]any{"update": map[string]any{"paused": h.paused}}}); err != nil {
			return err
		}
		s.out.say(h.updates, full)
		if keeper := keptBy(site); keeper != "" {
			s.out.say("%s The resource is kept by %s, which may put spec.update.paused back: change it at the source too.", s.out.paint("·", yellow), keeper)
		}
	}
	if only == onlyUpdates {
		return nil
	}
	open, err := s.signal(ctx, siteOf(site), h.signal)
	switch {
	case err != nil && only == "":
		return fmt.Errorf("whether a run is open is not known, and it was told nothing: %w", err)
	case err != nil:
		return err
	case open:
		s.out.say(h.run, full)
	case only == onlyRun:
		return fmt.Errorf("no run of %s is open", full)
	}
	return nil
}

func abortCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	var byAnnotation bool
	var wait patience
	c := &cobra.Command{
		Use:   "abort SITE",
		Short: "Give the open run up: the site goes back to its failsafe release",
		Long: "Give the open run up. Before the database step the site goes back to its failsafe release; a database step that has begun is let finish,\n" +
			"and if it succeeds so does the run. The release counts as failed and is not tried again before a retry.\n\n" +
			"This sends the run the signal abort. With --by-annotation the watcher sends it: for those who reach the cluster and not Temporal.",
		Args:              exactly("SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	c.Flags().BoolVar(&byAnnotation, "by-annotation", false, "set the annotation "+v1alpha1.AnnotationAbort+" instead of sending the signal")
	wait.flagsFor(c, "the run has ended", "the way back")
	c.RunE = s.does(func(ctx context.Context, args []string) error {
		return s.abort(ctx, args[0], byAnnotation, wait)
	})
	return c
}

func (s *session) abort(ctx context.Context, name string, byAnnotation bool, wait patience) error {
	c, site, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	full := site.Namespace + "/" + site.Name
	if byAnnotation {
		if err := patch(ctx, c, site, map[string]any{"metadata": annotation(v1alpha1.AnnotationAbort, s.wish())}); err != nil {
			return err
		}
		s.out.say("The watcher is asked to give up the run of %s, if one is open.", full)
	} else if err := s.abortBySignal(ctx, site); err != nil {
		return err
	}
	if !wait.wait {
		return nil
	}
	end, err := s.runOver(ctx, c, site, byAnnotation, wait)
	if err != nil {
		return err
	}
	return s.givenUp(site, end)
}

// runOver waits until the run that was asked to give up has ended, and returns the site as it is then. Who reaches Temporal is
// told by it: a run that waits, or has only just begun, has not marked the site.
func (s *session) runOver(ctx context.Context, c kube.Client, site *v1alpha1.DrupalSite, byAnnotation bool, wait patience) (*v1alpha1.DrupalSite, error) {
	key := kube.ObjectKeyFromObject(site)
	if byAnnotation {
		return s.until(ctx, wait, key, func(now *v1alpha1.DrupalSite) bool {
			heard := now.Annotations[v1alpha1.AnnotationAbort] == now.Status.ObservedAbort
			return !now.InProgress() && heard && (!site.InProgress() || newlyFinished(site.Status.Run, now.Status.Run))
		})
	}
	t, err := s.temporal(ctx)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := make(chan struct{})
	wait.wake = closed
	var fault error
	go func() {
		defer close(closed)
		fault = s.closes(asking, t.GetWorkflow(asking, siteOf(site).UpdateID(), ""))
	}()
	_, err = s.until(ctx, wait, key, func(*v1alpha1.DrupalSite) bool {
		select {
		case <-closed:
			return true
		default:
			return false
		}
	})
	switch {
	case err != nil:
		return nil, err
	case fault != nil:
		return nil, fault
	}
	end := &v1alpha1.DrupalSite{} // live: what was watched may be older than the run's end
	return end, c.Get(ctx, key, end)
}

// closes waits until a run has closed, however it ended. Its error is that Temporal did not say so.
func (s *session) closes(ctx context.Context, run client.WorkflowRun) error {
	err := run.Get(ctx, nil)
	var ended *sdktemporal.WorkflowExecutionError
	if err == nil || errors.As(err, &ended) || isNotFound(err) {
		return nil
	}
	return s.temporalFault(err)
}

// givenUp is what the end of an aborted run is told as: nil if nobody has to mend the site.
func (s *session) givenUp(before, site *v1alpha1.DrupalSite) error {
	name, serving, phase := site.Namespace+"/"+site.Name, short(site.Status.Release.Serving), ""
	if run := site.Status.Run; run != nil {
		phase = run.Phase
	}
	switch v := judge(site); {
	case v.health == person:
		s.next(s.advise(site, v))
		s.out.say("")
		return fmt.Errorf("the run of %s ended, and the site needs a person (%s)", name, v.state)
	case !newlyFinished(before.Status.Run, site.Status.Run):
		s.out.say("No run of %s is open; the site serves %s.", name, serving)
	case phase == string(update.PhaseAborted):
		s.out.say("The run of %s is given up; the site serves %s.", name, serving)
	case phase == string(update.PhaseSucceeded):
		s.out.say("The run of %s came to its end before it could be given up; the site serves %s.", name, serving)
	default:
		s.out.say("The run of %s has ended (%s); the site serves %s.", name, v.state, serving)
	}
	return nil
}

func (s *session) abortBySignal(ctx context.Context, site *v1alpha1.DrupalSite) error {
	full := site.Namespace + "/" + site.Name
	open, err := s.signal(ctx, siteOf(site), update.SignalAbort)
	switch {
	case err != nil:
		return fmt.Errorf("%w; --by-annotation lets the watcher do it", err)
	case !open:
		return fmt.Errorf("no run of %s is open", full)
	}
	s.out.say("The run of %s is asked to give up.", full)
	if run := site.Status.Run; site.InProgress() && run != nil && update.Phase(run.Phase).DatabasePhase() {
		s.out.say("%s The database step has begun: it is let finish first.", s.out.paint("·", yellow))
	}
	return nil
}

func retryCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	var wait patience
	c := &cobra.Command{
		Use:   "retry SITE",
		Short: "Ask for another attempt at the release that failed",
		Long: "Ask for another attempt at spec.release. On a site that needed a person it also says that the site is in order again.\n\n" +
			"This sets the annotation " + v1alpha1.AnnotationRetry + " to a new value.",
		Args:              exactly("SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	wait.flags(c, "the attempt has ended")
	c.RunE = s.does(func(ctx context.Context, args []string) error {
		return s.retry(ctx, args[0], wait)
	})
	return c
}

func (s *session) retry(ctx context.Context, name string, wait patience) error {
	c, site, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	if err := patch(ctx, c, site, map[string]any{"metadata": annotation(v1alpha1.AnnotationRetry, s.wish())}); err != nil {
		return err
	}
	s.out.say("Another attempt at %s is asked for on %s/%s.", short(site.Spec.Release), site.Namespace, site.Name)
	for _, obstacle := range s.obstacles(site) {
		s.out.say("%s %s", s.out.paint("·", yellow), obstacle)
	}
	if !wait.wait {
		return nil
	}
	end, err := s.until(ctx, wait, kube.ObjectKeyFromObject(site), ended(site))
	if err != nil {
		return err
	}
	return s.outcome(end, site.Spec.Release)
}
