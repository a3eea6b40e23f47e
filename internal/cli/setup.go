package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// defaultRetention is how long runs that have ended can be read, unless said otherwise.
	defaultRetention = 30 * 24 * time.Hour
	// settling is how long a server may take to see a namespace or attribute that was just made: its caches last ten seconds.
	settling = time.Minute
)

func setupCommand(cfg Config) *cobra.Command {
	return family(&cobra.Command{Use: "setup", Short: "Prepare what drupdate needs"}, setupTemporalCommand(cfg))
}

func setupTemporalCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	var retention time.Duration
	c := &cobra.Command{
		Use:   "temporal",
		Short: "Register Temporal's namespace and the search attributes of runs",
		Long: "Register Temporal's namespace (TEMPORAL_NAMESPACE) and the search attributes of runs, where they are absent.\n" +
			"What is there already is left as it is, so doing it twice is doing it once.\n\n" +
			"On Temporal Cloud, namespaces and search attributes are made in its console or with tcld instead.",
		Args: exactly(),
	}
	c.Flags().DurationVar(&retention, "retention", defaultRetention, "how long runs that have ended are kept, in a namespace that is made; at least 24h")
	c.RunE = s.does(func(ctx context.Context, _ []string) error {
		if retention < 24*time.Hour {
			return Usage(fmt.Errorf("--retention is at least 24h, not %s", retention))
		}
		return s.setupTemporal(ctx, retention)
	})
	return c
}

func (s *session) setupTemporal(ctx context.Context, retention time.Duration) error {
	t, err := s.temporal(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := s.setupNamespace(ctx, t, retention); err != nil {
		return s.temporalFault(err)
	}
	return s.setupAttributes(ctx, t)
}

func (s *session) setupNamespace(ctx context.Context, t client.Client, retention time.Duration) error {
	name := s.temporalNamespace()
	found, err := t.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
	var missing *serviceerror.NamespaceNotFound
	if err == nil {
		s.made("namespace", fmt.Sprintf("%q was there, and keeps runs for %s", name, lasting(found.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())))
		return nil
	}
	if !errors.As(err, &missing) {
		return err
	}
	_, err = t.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: name, Description: "Runs of drupdate.", WorkflowExecutionRetentionPeriod: durationpb.New(retention),
	})
	var already *serviceerror.NamespaceAlreadyExists
	if err != nil && !errors.As(err, &already) {
		return err
	}
	s.made("namespace", fmt.Sprintf("%q is registered, and keeps runs for %s", name, lasting(retention)))
	return nil
}

func (s *session) setupAttributes(ctx context.Context, t client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	absent, err := s.absentAttributes(ctx, t)
	if err != nil {
		return err
	}
	if len(absent) == 0 {
		s.made("attributes", strings.Join(searchAttributes, ", ")+" were there")
		return nil
	}
	wanted := map[string]enumspb.IndexedValueType{}
	for _, name := range absent {
		wanted[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	_, err = t.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: s.temporalNamespace(), SearchAttributes: wanted})
	var already *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &already) {
		return s.temporalFault(err)
	}
	for {
		left, err := s.absentAttributes(ctx, t)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			s.made("attributes", strings.Join(absent, ", ")+" are registered")
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("the search attributes %s were asked for, and did not show up within %s", strings.Join(left, ", "), lasting(settling))
		}
	}
}

// absentAttributes asks until the server has seen a namespace that was just made.
func (s *session) absentAttributes(ctx context.Context, t client.Client) ([]string, error) {
	for {
		known, err := s.knownAttributes(ctx, t)
		var missing *serviceerror.NamespaceNotFound
		if errors.As(err, &missing) || isNotFound(err) {
			if stop := pause(ctx); stop == nil {
				continue
			}
		}
		if err != nil {
			return nil, s.temporalFault(err)
		}
		absent, mistyped := missingAttributes(known)
		if len(mistyped) > 0 {
			return nil, fmt.Errorf("the search attributes %s are there and not of the type Keyword: remove them first (temporal operator search-attribute remove)", strings.Join(mistyped, ", "))
		}
		return absent, nil
	}
}

func (s *session) made(what, detail string) {
	s.out.say("%s %-10s  %s", s.out.paint("✓", green), what, detail)
}
