package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/drupdate/drupdate/internal/dial"
	"github.com/drupdate/drupdate/internal/update"
)

// runReport is one run as history tells it. Programs read it: fields are added, and never renamed or retyped.
type runReport struct {
	RunID     string        `json:"runID"`
	StartedAt time.Time     `json:"startedAt"`
	EndedAt   *time.Time    `json:"endedAt,omitempty"`
	Took      time.Duration `json:"-"`
	Seconds   float64       `json:"seconds"`
	// Outcome is the phase at the end, or what became of a run that could not say: Terminated, TimedOut, or a phase while it is open.
	Outcome string `json:"outcome"`
	Open    bool   `json:"open"`
	From    string `json:"from,omitempty"`
	Target  string `json:"target,omitempty"`
	Message string `json:"message,omitempty"`
}

// readers is how many ends of runs are read at once.
const readers = 8

func historyCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	limit := 0
	c := &cobra.Command{
		Use:               "history SITE",
		Short:             "List the runs of a site, with duration and outcome",
		Long:              "List the runs of a site that Temporal remembers, the newest first. It asks Temporal alone, so it works for a site that is gone.",
		Args:              exactly("SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	s.outputFlag(c, asWide, asJSON, asYAML)
	c.Flags().IntVar(&limit, "limit", 20, "how many runs to list")
	c.RunE = s.does(func(ctx context.Context, args []string) error {
		if limit < 1 || limit > 1000 {
			return Usage(fmt.Errorf("--limit is 1 to 1000, not %d", limit))
		}
		return s.history(ctx, args[0], limit)
	})
	return c
}

func (s *session) history(ctx context.Context, name string, limit int) error {
	key, err := s.siteKey(name)
	if err != nil {
		return err
	}
	t, err := s.temporal(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	runs, err := s.runs(ctx, t, update.Site{Namespace: key.Namespace, Name: key.Name}, limit)
	if err != nil {
		return s.temporalFault(err)
	}
	if s.structured() {
		return s.print(list[runReport]{runs})
	}
	if len(runs) == 0 {
		s.out.say("Temporal remembers no run of %s.", key)
		return nil
	}
	s.historyTable(runs).write(s.out)
	return nil
}

// runs lists a site's runs by the id of their workflow, which needs no search attribute of ours.
func (s *session) runs(ctx context.Context, t client.Client, site update.Site, limit int) ([]runReport, error) {
	found, err := t.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = '%s'", site.UpdateID()), PageSize: int32(limit), //nolint:gosec // at most 1000
	})
	if err != nil {
		return nil, err
	}
	runs := make([]runReport, len(found.GetExecutions()))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, e := range found.GetExecutions() {
		group.Go(func() error {
			var err error
			runs[i], err = runOf(ctx, t, e)
			return err
		})
	}
	return runs, group.Wait()
}

// runOf tells of one run what the list has, and how it ended, from its own last event.
func runOf(ctx context.Context, t client.Client, e *workflowpb.WorkflowExecutionInfo) (runReport, error) {
	run := runReport{RunID: e.GetExecution().GetRunId(), StartedAt: e.GetStartTime().AsTime(), Open: dial.IsOpen(e.GetStatus())}
	run.Target, run.Outcome = searchable(e, update.SearchTarget), searchable(e, update.SearchPhase)
	if run.Open {
		run.Took = time.Since(run.StartedAt)
		run.Seconds = run.Took.Round(time.Second).Seconds()
		if p := progress(ctx, t, e.GetExecution().GetWorkflowId(), run.RunID); p != nil {
			run.Outcome, run.From, run.Target, run.Message = string(p.Phase), p.From, p.Target, clean(p.Message)
		}
		return run, nil
	}
	end := e.GetCloseTime().AsTime()
	run.EndedAt, run.Took = &end, end.Sub(run.StartedAt)
	run.Seconds = run.Took.Seconds()
	summary, err := summaryOf(ctx, t, e)
	if err != nil {
		return run, err
	}
	if summary.Phase != "" {
		run.Outcome, run.From, run.Target, run.Message = string(summary.Phase), summary.From, summary.Target, clean(summary.Message)
	}
	if word := unsaid[e.GetStatus()]; word != "" {
		run.Outcome = word // its last phase is only where it was
	}
	return run, nil
}

// unsaid are the ends that a run does not tell itself.
var unsaid = map[enumspb.WorkflowExecutionStatus]string{
	enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:       "Terminated",
	enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:        "TimedOut",
	enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW: "WentOn",
}

// summaryOf reads how a closed run ended. The zero value is that of a run that could not say.
func summaryOf(ctx context.Context, t client.Client, e *workflowpb.WorkflowExecutionInfo) (update.Summary, error) {
	var summary update.Summary
	if unsaid[e.GetStatus()] != "" {
		return summary, nil
	}
	err := t.GetWorkflow(ctx, e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()).Get(ctx, &summary)
	var ended *temporal.WorkflowExecutionError
	if err == nil || !errors.As(err, &ended) {
		return summary, err
	}
	var failure *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &failure):
		if !failure.HasDetails() || failure.Details(&summary) != nil {
			summary = update.Summary{Phase: update.Phase(failure.Type()), Message: failure.Message()}
		}
	case errors.As(err, &cancelled):
		if !cancelled.HasDetails() || cancelled.Details(&summary) != nil {
			summary = update.Summary{Phase: "Canceled"}
		}
	}
	return summary, nil
}

// searchable is the value of a search attribute, where the namespace has it.
func searchable(e *workflowpb.WorkflowExecutionInfo, name string) string {
	payload := e.GetSearchAttributes().GetIndexedFields()[name]
	var value string
	if payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &value) != nil {
		return ""
	}
	return value
}

func (s *session) historyTable(runs []runReport) *table {
	t := &table{head: []string{"STARTED", "TOOK", "", "OUTCOME", "FROM", "TO"}}
	if s.output == asWide {
		t.head = append(t.head, "RUN")
	}
	t.head = append(t.head, "MESSAGE")
	for _, run := range runs {
		sign, look := outcomeHealth(run).sign()
		row := []cell{
			text(run.StartedAt.Local().Format("2006-01-02 15:04")), text(lasting(run.Took)),
			{sign, look},
			{orDash(run.Outcome), look},
			text(orDash(shorten(run.From))), text(orDash(shorten(run.Target))),
		}
		if s.output == asWide {
			row = append(row, text(run.RunID))
		}
		t.add(append(row, text(run.Message))...)
	}
	return t
}

func shorten(release string) string {
	if release == "" {
		return ""
	}
	return short(release)
}

func outcomeHealth(run runReport) health {
	phase := update.Phase(run.Outcome)
	if phase.NeedsPerson() {
		return person
	}
	switch phase {
	case update.PhaseSucceeded, update.PhaseRewound:
		return good
	case update.PhaseBackingUp: // a backup that failed has another outcome
		if !run.Open {
			return good
		}
	case update.PhaseSuspended, update.PhaseSuperseded, update.PhaseAborted, "WentOn":
		return waiting
	default:
	}
	if run.Open {
		return busy
	}
	return failed
}
