package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// How often, and how fast, it is tried again to start a run for which another one makes room.
const (
	roomTries = 10
	roomPause = time.Second
)

// siteRun is a run that is started by name under the id of the site's updates.
type siteRun struct {
	workflow string
	request  any
	// summary is what Temporal shows, begun what is said here, with the site's name in it.
	summary, begun string
}

// runBeside starts a run and, where asked, waits for what it comes to.
func (s *session) runBeside(ctx context.Context, site *v1alpha1.DrupalSite, r siteRun, wait patience) error {
	t, err := s.temporal(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	run, err := s.start(ctx, t, site, r)
	if err != nil {
		return err
	}
	s.out.say(r.begun, site.Namespace+"/"+site.Name)
	if !wait.wait {
		return nil
	}
	done, err := s.done(ctx, run, wait)
	if err != nil {
		return err
	}
	if done.Outcome != update.Succeeded {
		return errors.New(lower(done.Message))
	}
	s.out.say("%s", done.Message)
	return nil
}

// start starts a run. One that is open has the id: it is asked to make room if it only waits, and else the start is refused.
func (s *session) start(ctx context.Context, t client.Client, site *v1alpha1.DrupalSite, r siteRun) (client.WorkflowRun, error) {
	options := client.StartWorkflowOptions{
		ID: siteOf(site).UpdateID(), TaskQueue: s.taskQueue, StaticSummary: r.summary,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			sdktemporal.NewSearchAttributeKeyKeyword(update.SearchSite).ValueSet(site.Name),
			sdktemporal.NewSearchAttributeKeyKeyword(update.SearchNamespace).ValueSet(site.Namespace),
		),
	}
	for range roomTries {
		run, err := s.startOnce(ctx, t, options, r)
		var invalid *serviceerror.InvalidArgument
		switch {
		case err == nil:
			return run, nil
		case errors.As(err, &invalid) && strings.Contains(strings.ToLower(invalid.Message), "search attribute"):
			options.TypedSearchAttributes = sdktemporal.SearchAttributes{} // the namespace does without
		case !sdktemporal.IsWorkflowExecutionAlreadyStartedError(err):
			return nil, s.temporalFault(err)
		default:
			if err := s.makeRoom(ctx, t, site); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("the run of %s/%s that waits for its window did not make room", site.Namespace, site.Name)
}

func (s *session) startOnce(ctx context.Context, t client.Client, options client.StartWorkflowOptions, r siteRun) (client.WorkflowRun, error) {
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	return t.ExecuteWorkflow(ctx, options, r.workflow, r.request)
}

// makeRoom asks a run that only waits to end, and waits a moment. Any other is the reason to refuse.
func (s *session) makeRoom(ctx context.Context, t client.Client, site *v1alpha1.DrupalSite) error {
	id := siteOf(site).UpdateID()
	within, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	var progress update.Progress
	value, err := t.QueryWorkflow(within, id, "", update.QueryState)
	if err == nil {
		err = value.Get(&progress)
	}
	if isNotFound(err) {
		return nil // it has ended meanwhile
	}
	if err == nil && progress.Phase.Ended() {
		return linger(ctx, roomPause) // it has written its end, and is about to close
	}
	if err != nil || progress.Phase != update.PhaseWaiting {
		does := ""
		if progress.Phase != "" {
			does = fmt.Sprintf(" (%s)", progress.Phase)
		}
		return fmt.Errorf("another run of %s/%s is open%s: wait until it has ended, see %s", site.Namespace, site.Name, does, s.command(site, "status"))
	}
	if err := t.SignalWorkflow(within, id, "", update.SignalYield, nil); err != nil && !isNotFound(err) {
		return s.temporalFault(err)
	}
	return linger(ctx, roomPause)
}

func linger(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// done waits for what a run comes to: its result, its failure, or what it handed on to the update that it goes on as.
func (s *session) done(ctx context.Context, run client.WorkflowRun, wait patience) (update.Done, error) {
	if wait.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait.timeout)
		defer cancel()
	}
	var done update.Done
	err := run.GetWithOptions(ctx, &done, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	var again *workflow.ContinueAsNewError
	var app *sdktemporal.ApplicationError
	switch {
	case err == nil:
		return done, nil
	case errors.As(err, &again):
		return s.handedOn(again)
	case errors.As(err, &app):
		return update.Done{Outcome: update.Failed, Failure: app.Type(), Message: app.Message()}, nil
	case sdktemporal.IsCanceledError(err):
		return done, errors.New("it was cancelled before it began")
	case ctx.Err() != nil:
		return done, errors.New("it goes on without being waited for")
	}
	return done, s.temporalFault(err)
}

func (s *session) handedOn(again *workflow.ContinueAsNewError) (update.Done, error) {
	options, err := s.cfg.Temporal()
	if err != nil {
		return update.Done{}, err
	}
	payloads := options.DataConverter
	if payloads == nil {
		payloads = converter.GetDefaultDataConverter()
	}
	var request update.Request
	if err := payloads.FromPayloads(again.Input, &request); err != nil {
		return update.Done{}, fmt.Errorf("the run goes on as an update, and what it came to cannot be read: %w", oneLine(err))
	}
	if request.After == nil {
		return update.Done{}, errors.New("the run goes on as an update, and does not say what it came to")
	}
	return *request.After, nil
}
