package watcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/drupdate/drupdate/internal/codec"
	"github.com/drupdate/drupdate/internal/dial"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/update"
)

// ErrUnavailable is wrapped by the errors of a Starter that could not reach Temporal, or that Temporal sent away for
// reasons that have nothing to do with the site: the same call may succeed later.
var ErrUnavailable = errors.New("temporal unavailable")

// Starter is the orchestrator as the watcher sees it. Its methods return within seconds, and calling them twice is safe.
type Starter interface {
	// Retarget signals the site's run, and starts one if none is open.
	Retarget(ctx context.Context, site update.Site, target update.Retarget) error
	// Abort gives the site's open run up; false means that none is open.
	Abort(ctx context.Context, site update.Site) (bool, error)
	// Check starts a check of the site; one that is under way counts as started.
	Check(ctx context.Context, site update.Site) error
	// Open tells whether a workflow is open; one that does not exist is not.
	Open(ctx context.Context, workflowID string) (bool, error)
	// Schedule makes or changes the schedule of the site's backups. A plan that cannot be carried out is no ErrUnavailable.
	Schedule(ctx context.Context, site update.Site, plan Plan) error
	// Unschedule removes the schedule; one that does not exist is removed.
	Unschedule(ctx context.Context, site update.Site) error
	// Healthy returns nil if the orchestrator answers.
	Healthy(ctx context.Context) error
}

// temporalClient is what TemporalStarter calls of client.Client.
type temporalClient interface {
	SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
		options client.StartWorkflowOptions, workflow any, workflowArgs ...any) (client.WorkflowRun, error)
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error)
	CheckHealth(ctx context.Context, request *client.CheckHealthRequest) (*client.CheckHealthResponse, error)
	ScheduleClient() client.ScheduleClient
}

// TemporalStarter is the Starter that talks to Temporal.
type TemporalStarter struct {
	client    temporalClient
	taskQueue string
	tracer    trace.Tracer
	log       logr.Logger
	// plain is set once the server turned out not to know our search attributes; then runs do without.
	plain atomic.Bool
}

// NewStarter makes a Starter of a Temporal client, which may be a lazy one: Temporal need not be up. Runs are put on the
// task queue of the configuration. The tracer makes the first span of each request's trace.
func NewStarter(c client.Client, cfg Config, tracer trace.Tracer, log logr.Logger) *TemporalStarter {
	return newStarter(c, cfg.taskQueue(), tracer, log)
}

func newStarter(c temporalClient, taskQueue string, tracer trace.Tracer, log logr.Logger) *TemporalStarter {
	return &TemporalStarter{client: c, taskQueue: taskQueue, tracer: tracer, log: log}
}

// Retarget implements Starter.
func (s *TemporalStarter) Retarget(ctx context.Context, site update.Site, target update.Retarget) error {
	ctx, span := s.tracer.Start(ctx, "request update", trace.WithAttributes(
		attribute.String("drupdate.namespace", site.Namespace), attribute.String("drupdate.site", site.Name), attribute.String("drupdate.release", target.Release)))
	defer span.End()
	options := s.options(site.UpdateID(), fmt.Sprintf("updates of %s", site))
	return s.start(ctx, options, attributes(site, target.Release), func(ctx context.Context, o client.StartWorkflowOptions) error {
		_, err := s.client.SignalWithStartWorkflow(ctx, o.ID, update.SignalRetarget, target, o, update.UpdateSiteWorkflow, update.Request{Site: site})
		return err
	})
}

// Abort implements Starter.
func (s *TemporalStarter) Abort(ctx context.Context, site update.Site) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.client.SignalWorkflow(ctx, site.UpdateID(), "", update.SignalAbort, nil)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return false, nil
	case err != nil:
		return false, classify("signal", site.UpdateID(), err)
	}
	return true, nil
}

// Check implements Starter.
func (s *TemporalStarter) Check(ctx context.Context, site update.Site) error {
	ctx, span := s.tracer.Start(ctx, "request check", trace.WithAttributes(
		attribute.String("drupdate.namespace", site.Namespace), attribute.String("drupdate.site", site.Name)))
	defer span.End()
	options := s.options(site.CheckID(), fmt.Sprintf("check of %s", site))
	return s.start(ctx, options, attributes(site, ""), func(ctx context.Context, o client.StartWorkflowOptions) error {
		_, err := s.client.ExecuteWorkflow(ctx, o, update.CheckSiteWorkflow, update.CheckRequest{Site: site})
		return err
	})
}

// Open implements Starter.
func (s *TemporalStarter) Open(ctx context.Context, workflowID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	description, err := s.client.DescribeWorkflow(ctx, workflowID, "")
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return false, nil
	case err != nil:
		return false, classify("describe", workflowID, err)
	}
	return dial.IsOpen(description.Status), nil
}

// Healthy implements Starter.
func (s *TemporalStarter) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.client.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

func (s *TemporalStarter) options(id, summary string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       id,
		TaskQueue:                s.taskQueue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            summary,
	}
}

// start starts a workflow; one that is open already counts as started.
func (s *TemporalStarter) start(ctx context.Context, options client.StartWorkflowOptions, found temporal.SearchAttributes,
	call func(context.Context, client.StartWorkflowOptions) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.tagged(found, func(attributes temporal.SearchAttributes) error {
		options.TypedSearchAttributes = attributes
		return call(ctx, options)
	})
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if err == nil || errors.As(err, &already) {
		return nil
	}
	return classify("start", options.ID, err)
}

// tagged calls with search attributes, and without them from the moment that the server does not know them.
func (s *TemporalStarter) tagged(found temporal.SearchAttributes, call func(temporal.SearchAttributes) error) error {
	if s.plain.Load() {
		return call(temporal.SearchAttributes{})
	}
	err := call(found)
	if !unknownAttribute(err) {
		return err
	}
	if !s.plain.Swap(true) {
		s.log.Info("search attributes are not registered; runs are started without them", logging.KeyError, err.Error())
	}
	return call(temporal.SearchAttributes{})
}

func attributes(site update.Site, target string) temporal.SearchAttributes {
	updates := []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(update.SearchSite).ValueSet(site.Name),
		temporal.NewSearchAttributeKeyKeyword(update.SearchNamespace).ValueSet(site.Namespace),
	}
	if target != "" {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(update.SearchTarget).ValueSet(target))
	}
	return temporal.NewSearchAttributes(updates...)
}

// unknownAttribute goes by the text, since the server has no type of its own for this.
func unknownAttribute(err error) bool {
	var invalid *serviceerror.InvalidArgument
	return errors.As(err, &invalid) && strings.Contains(strings.ToLower(invalid.Message), "search attribute")
}

// classify marks every error as an outage but those that are about this one request.
func classify(what, id string, err error) error {
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) || errors.Is(err, codec.ErrUnknownKey) || errors.Is(err, codec.ErrTampered) {
		return fmt.Errorf("%s workflow: %q: %w", what, id, err)
	}
	return fmt.Errorf("%s workflow: %q: %w: %w", what, id, ErrUnavailable, err)
}
