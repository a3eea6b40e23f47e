package cli

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// signal sends a signal without payload to a site's open run; false means that none is open.
func (s *session) signal(ctx context.Context, site update.Site, name string) (bool, error) {
	t, err := s.temporal(ctx)
	if err != nil {
		return false, err
	}
	defer t.Close()
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	err = t.SignalWorkflow(ctx, site.UpdateID(), "", name, nil)
	if isNotFound(err) {
		return false, nil
	}
	return err == nil, s.temporalFault(err)
}

// temporalNamespace is the namespace that Temporal's client was told.
func (s *session) temporalNamespace() string {
	options, err := s.cfg.Temporal()
	if err != nil {
		return ""
	}
	return namespaceOf(options)
}

func describe(namespace, id, runID string) *workflowservice.DescribeWorkflowExecutionRequest {
	return &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: runID},
	}
}

func isNotFound(err error) bool {
	var missing *serviceerror.NotFound
	return errors.As(err, &missing)
}

func siteOf(site *v1alpha1.DrupalSite) update.Site {
	return update.Site{Namespace: site.Namespace, Name: site.Name, UID: string(site.UID)}
}
