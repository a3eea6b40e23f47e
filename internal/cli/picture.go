package cli

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/dial"
	"github.com/drupdate/drupdate/internal/update"
)

// openRun is what Temporal says of the site's open run.
type openRun struct {
	RunID     string    `json:"runID"`
	StartedAt time.Time `json:"startedAt"`
	// Progress is the run's own answer; nil if no worker gave it in time.
	Progress *update.Progress `json:"progress,omitempty"`
	// Steps are the activities under way.
	Steps []openStep `json:"steps,omitempty"`
}

type openStep struct {
	Name    string `json:"name"`
	Attempt int32  `json:"attempt"`
	// Failure is how its last attempt failed, empty if it is the first.
	Failure string `json:"failure,omitempty"`
}

// statusOf shows one site in full.
func (s *session) statusOf(ctx context.Context, name string) error {
	_, site, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	open, silence := s.openRun(ctx, site)
	if s.structured() {
		r := s.report(site)
		r.Open = open
		return s.print(r)
	}
	s.picture(site, open, silence)
	return nil
}

// openRun asks Temporal for the site's open run; nil if none is open. What kept it from answering is told, and is no error:
// the resource alone tells the most.
func (s *session) openRun(ctx context.Context, site *v1alpha1.DrupalSite) (*openRun, error) {
	t, err := s.temporal(ctx)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	id := siteOf(site).UpdateID()
	found, err := t.DescribeWorkflow(ctx, id, "")
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.temporalFault(err)
	}
	if !dial.IsOpen(found.Status) {
		return nil, nil
	}
	run := &openRun{RunID: found.WorkflowExecution.RunID, StartedAt: found.WorkflowStartTime}
	raw, err := t.WorkflowService().DescribeWorkflowExecution(ctx, describe(s.temporalNamespace(), id, run.RunID))
	if err == nil {
		for _, a := range raw.GetPendingActivities() {
			run.Steps = append(run.Steps, openStep{a.GetActivityType().GetName(), a.GetAttempt(), clean(a.GetLastFailure().GetMessage())})
		}
	}
	run.Progress = progress(ctx, t, id, run.RunID)
	return run, nil
}

// progress asks the run itself; nil if no worker answers in time.
func progress(ctx context.Context, t client.Client, id, runID string) *update.Progress {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answer, err := t.QueryWorkflow(ctx, id, runID, update.QueryState)
	if err != nil {
		return nil
	}
	var p update.Progress
	if answer.Get(&p) != nil {
		return nil
	}
	return &p
}

// picture writes all that is known of a site, section by section.
func (s *session) picture(site *v1alpha1.DrupalSite, open *openRun, silence error) {
	v := judge(site)
	if open != nil && open.Progress != nil && open.Progress.Phase != "" && !site.InProgress() {
		// Nothing is marked yet: only the run knows that it waits.
		v.health, v.state, v.message = waiting, string(open.Progress.Phase), open.Progress.Message
	}
	sign, look := v.health.sign()
	s.out.say("%s  %s", s.out.paint(site.Namespace+"/"+site.Name, strong), s.out.paint(sign+" "+v.state, look))
	for _, line := range wrap(clean(v.message), s.out.width()) {
		s.out.say("%s", line)
	}
	s.section("Releases", s.releaseRows(site))
	s.section("Run", s.runRows(site, v, open, silence))
	s.section("Updates", s.updateRows(site))
	s.section("Conditions", s.conditionRows(site, v))
	s.section("Backups", s.backupRows(site))
	s.next(s.advise(site, v))
}

// section writes rows under a title, and nothing without rows.
func (s *session) section(title string, rows [][]cell) {
	if len(rows) == 0 {
		return
	}
	s.out.say("")
	s.out.say("%s", s.out.paint(title, strong))
	t := &table{indent: "  "}
	for _, row := range rows {
		t.add(row...)
	}
	s.wrapped(t)
}

// wrapped writes a table of which the last column is broken into lines instead of being cut.
func (s *session) wrapped(t *table) {
	widths := t.widths(s.out.width())
	last := len(widths) - 1
	for _, row := range t.rows {
		if len(row)-1 < last {
			s.out.say("%s", t.line(s.out, row, widths))
			continue
		}
		for i, part := range wrap(row[last].text, widths[last]) {
			line := make([]cell, len(row))
			if i == 0 {
				copy(line, row)
			}
			line[last] = cell{part, row[last].style}
			wide := append(append([]int{}, widths[:last]...), utf8.RuneCountInString(part))
			s.out.say("%s", t.line(s.out, line, wide))
		}
	}
}

func (s *session) releaseRows(site *v1alpha1.DrupalSite) [][]cell {
	r := site.Status.Release
	rows := [][]cell{
		{text("wants"), {site.Spec.Release, strong}, {"spec.release", faint}},
		{text("serves"), text(orNone(r.Serving)), {"what the Deployment is kept at", faint}},
		{text("failsafe"), text(orNone(r.Failsafe)), {"where a failed update goes back to", faint}},
	}
	if r.Target != "" && r.Target != site.Spec.Release {
		rows = append(rows, []cell{text("target"), text(r.Target), {"what the newest run was about", faint}})
	}
	if r.Failed != "" {
		rows = append(rows, []cell{text("failed"), {r.Failed, red}, {"not tried again before a retry", faint}})
	}
	return rows
}

func (s *session) runRows(site *v1alpha1.DrupalSite, v verdict, open *openRun, silence error) [][]cell {
	var rows [][]cell
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []cell{text(name), text(value)})
		}
	}
	run := site.Status.Run
	if run != nil {
		add("phase", run.Phase)
		add("time", s.times(run))
		if run.Message != v.message {
			add("message", run.Message)
		}
		add("operation", run.Operation)
	}
	if open != nil {
		add("now", s.live(open))
		for _, step := range open.Steps {
			add("step", stepText(step))
		}
	}
	if run != nil {
		add("workflow", run.WorkflowID)
		add("run", run.RunID)
		if run.URL != "" {
			add("page", run.URL)
		}
	}
	if silence != nil {
		rows = append(rows, []cell{{"temporal", yellow}, text(silence.Error())})
	}
	return rows
}

func (s *session) times(run *v1alpha1.RunStatus) string {
	if run.StartedAt == nil {
		return ""
	}
	began := fmt.Sprintf("began %s ago", age(s.now().Sub(run.StartedAt.Time)))
	if run.FinishedAt == nil {
		return began
	}
	return fmt.Sprintf("%s, took %s", began, lasting(run.FinishedAt.Sub(run.StartedAt.Time)))
}

// live is what the open run says of itself.
func (s *session) live(open *openRun) string {
	p := open.Progress
	if p == nil {
		return fmt.Sprintf("open since %s; no worker answers for it", age(s.now().Sub(open.StartedAt)))
	}
	parts := []string{string(p.Phase)}
	if p.Target != "" {
		parts = append(parts, fmt.Sprintf("%s → %s", short(p.From), short(p.Target)))
	}
	if p.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", p.Attempt))
	}
	if p.Paused {
		parts = append(parts, "held by a person")
	}
	if p.LastOutput != "" {
		parts = append(parts, "last output: "+p.LastOutput)
	}
	return strings.Join(parts, " · ")
}

func stepText(step openStep) string {
	out := step.Name
	if step.Attempt > 1 {
		out += fmt.Sprintf(", attempt %d", step.Attempt)
	}
	if step.Failure != "" {
		out += ": " + step.Failure
	}
	return out
}

func (s *session) updateRows(site *v1alpha1.DrupalSite) [][]cell {
	u := site.Spec.Update
	start := "at any time"
	if u.Window != nil {
		start = "in the window " + windowOf(u.Window)
	}
	if u.Paused {
		start = "not at all: spec.update.paused"
	}
	rows := [][]cell{{text("start"), text(start)}}
	failure := fmt.Sprintf("%s the database", strings.ToLower(string(u.OnDatabaseFailure)))
	if u.OnDatabaseFailure == v1alpha1.FreezeSite {
		failure = "freeze the site for a person"
	}
	if u.OnDatabaseFailure != "" {
		rows = append(rows, []cell{text("on failure"), text(failure)})
	}
	if u.Backup.Policy == v1alpha1.BackupNever {
		rows = append(rows, []cell{text("backups"), {"never", yellow}})
	}
	return rows
}

func (s *session) conditionRows(site *v1alpha1.DrupalSite, v verdict) [][]cell {
	var rows [][]cell
	for i := range site.Status.Conditions {
		c := &site.Status.Conditions[i]
		message := c.Message
		if message == v.message {
			message = "(as above)"
		}
		rows = append(rows, []cell{
			text(c.Type),
			{string(c.Status), conditionStyle(c.Type, string(c.Status))},
			text(c.Reason),
			{age(s.now().Sub(c.LastTransitionTime.Time)), faint},
			text(message),
		})
	}
	return rows
}

// conditionStyle shows which conditions ask for somebody.
func conditionStyle(kind, status string) style {
	switch kind {
	case v1alpha1.ConditionInitialized, v1alpha1.ConditionReady:
		if status == update.True {
			return green
		}
		return red
	case v1alpha1.ConditionCodeUpdateFailed, v1alpha1.ConditionDBUpdatesFailed:
		return red
	case v1alpha1.ConditionUpdating:
		if status == update.True {
			return blue
		}
		return plain
	}
	return yellow
}

// next writes what a person can do: command beside wish, or below it where the terminal is too narrow.
func (s *session) next(list []advice) {
	if len(list) == 0 {
		return
	}
	s.out.say("")
	s.out.say("%s", s.out.paint("Next", strong))
	what, command := 0, 0
	for _, a := range list {
		if a.Command != "" {
			what, command = max(what, utf8.RuneCountInString(a.What)), max(command, utf8.RuneCountInString(a.Command))
		}
	}
	narrow := s.out.width() > 0 && 2+what+gap+command > s.out.width()
	for _, a := range list {
		switch {
		case a.Command == "":
			for _, line := range wrap(a.What, max(0, s.out.width()-2)) {
				s.out.say("  %s", line)
			}
		case narrow:
			s.out.say("  %s\n      %s", a.What, s.out.paint(a.Command, blue))
		default:
			s.out.say("  %-*s  %s", what, a.What, s.out.paint(a.Command, blue))
		}
	}
}

func orNone(release string) string {
	if release == "" {
		return "none"
	}
	return release
}
