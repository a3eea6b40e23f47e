package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// run is one execution of UpdateSite, or of another workflow that has the site's id.
type run struct {
	site update.Site
	// id is the run's own, and outlives a reset of the workflow: operations and backups are named after it.
	id string
	// ctx ends with the run's cancellation; steady outlives it, so that a cancelled run still puts the site in order.
	ctx, steady workflow.Context
	control     *control

	state    update.State
	from     string
	target   string
	change   update.Change
	phase    update.Phase
	progress update.Progress
	// marked is set once the site carries the annotation updateInProgress on behalf of this run.
	marked bool
	// seen is control.woken at the last look at the resource.
	seen int
	// operations counts the database operations that this run began, preflights its preflights.
	operations, preflights int
	// unchanged is set while the pass has marked the site and changed nothing else of it yet.
	unchanged bool
	// cronSuspended is set once this run may have suspended the site's CronJobs.
	cronSuspended bool
	// closed is set once the run has taken its mark off the site again, in this pass or an earlier one.
	closed bool
	// job is the newest Job that ran an operation; empty while there is none.
	job string
	// backup is the backup that the operation of this pass took; nil while none is known.
	backup *update.Backup
	// updated is the operation that updated the database in this pass; nil while the database is as it was.
	updated *update.OperationResult
}

func newRun(ctx workflow.Context, req update.Request) (*run, error) {
	steady, _ := workflow.NewDisconnectedContext(ctx)
	info := workflow.GetInfo(ctx)
	id := info.OriginalRunID
	if id == "" { // only the test environment knows no original run
		id = info.WorkflowExecution.RunID
	}
	r := &run{
		site: req.Site, id: id,
		ctx: ctx, steady: steady, control: &control{paused: req.Paused}, progress: update.Progress{Site: req.Site},
	}
	r.control.listen(steady)
	err := workflow.SetQueryHandlerWithOptions(ctx, update.QueryState, func() (update.Progress, error) {
		progress := r.progress
		progress.Paused = r.control.paused
		return progress, nil
	}, workflow.QueryHandlerOptions{Description: "Phase, target, attempt and last output of the run."})
	return r, err
}

func (r *run) cancelled() bool { return r.ctx.Err() != nil }

// inspect looks at the world, and takes the wanted release from it.
func (r *run) inspect() (gone bool, err error) {
	settle(r.steady)
	r.seen = r.control.woken
	// What an earlier pass saw must not be written back by a run that cannot look again.
	r.state, r.target = update.State{}, ""
	state, err := call(r.steady, quick(), "look at the site and its Deployment", update.Inspect, r.site)
	if err != nil || state.Gone {
		return true, err
	}
	r.state, r.site = state, state.Site
	r.from, r.target = state.Releases.Serving, state.Release
	r.control.target, r.control.retarget = state.Release, ""
	r.updated, r.backup = nil, nil
	r.change = update.Change{Site: r.site, UID: state.Workload.UID}
	r.progress.From, r.progress.Target = r.from, r.target
	return false, nil
}

// workLeft tells whether this site needs anything of a run. A failed target is not tried again without a new wish.
func (r *run) workLeft() bool {
	s := r.state
	retry := s.Retry != "" && s.Retry != s.ObservedRetry
	if !s.Initialized || (!retry && (s.Release == s.Releases.Failed || frozen(s))) {
		return false
	}
	moved := s.Release != s.Releases.Serving || s.Release != s.Workload.Release
	return retry || s.InProgress || moved || s.Releases.Failed != "" || s.CodeFailed+s.DatabaseFailed+s.Pending != ""
}

// frozen tells whether a person must say, by a retry, that the site is in order again.
func frozen(s update.State) bool { return update.NeedsPerson(s.CodeFailed, s.DatabaseFailed) }

// tidy ends a run that has nothing to do; a leftover of a lost run is cleared.
func (r *run) tidy() (ending, error) {
	end := ending{idle: true, phase: update.PhaseSucceeded, message: fmt.Sprintf("Nothing to do: the site is at %s.", r.from)}
	if r.state.Release == r.state.Releases.Failed {
		end.message = fmt.Sprintf("Nothing to do: the update to %s failed and is not tried again.", r.target)
	}
	if r.state.InProgress {
		report := update.Report{Site: r.site, Finished: true, InProgress: update.MarkClear}
		return end, r.write("clear the mark of a lost run", report)
	}
	return end, nil
}

// wait holds the run while updates are paused or the window is closed, before anything is marked.
func (r *run) wait() (ending, error) {
	r.control.yielded = false // asked for before there was anything to wait for
	for r.state.Paused || r.state.OpensIn > 0 {
		if r.state.InProgress {
			return ending{}, nil // the site is half way already: leaving it there is worse than finishing now
		}
		message, limit := r.waitsFor()
		r.describe(update.PhaseWaiting, message)
		woken := r.control.woken
		options := workflow.AwaitOptions{Timeout: limit, TimerOptions: workflow.TimerOptions{Summary: message}}
		_, err := workflow.AwaitWithOptions(r.ctx, options, func() bool { return r.control.woken != woken || r.control.yielded })
		if err != nil || r.control.aborted {
			return r.abort()
		}
		if r.control.yielded {
			return madeRoom, nil
		}
		if workflow.GetInfo(r.ctx).GetContinueAsNewSuggested() {
			return r.goOnAnew()
		}
		if gone, err := r.inspect(); err != nil {
			return ending{}, err
		} else if gone {
			return r.gone(), nil
		}
	}
	return ending{}, nil
}

// madeRoom ends a run that only waited.
var madeRoom = superseded("The run made room for a backup or a restore; the update is asked for again.")

// waitsFor is what the run waits for, and for how long before it looks again.
func (r *run) waitsFor() (message string, limit time.Duration) {
	if r.state.Paused {
		return "Updates are paused.", 6 * time.Hour
	}
	opens := workflow.Now(r.steady).Add(r.state.OpensIn).UTC()
	return fmt.Sprintf("The update window is closed; it opens at %s.", opens.Format("2006-01-02 15:04 MST")), r.state.OpensIn
}

// goOnAnew ends this execution, whose history has grown long, and leaves the wait to a new one. A signal that came in
// the same workflow task would not reach that one: it is taken here.
func (r *run) goOnAnew() (ending, error) {
	settle(r.steady)
	if r.control.aborted {
		return r.abort()
	}
	return ending{}, r.anew()
}

// anew ends this execution and begins another one of the same run.
func (r *run) anew() error {
	request := update.Request{Site: r.site, Paused: r.control.paused}
	return workflow.NewContinueAsNewError(r.ctx, update.UpdateSiteWorkflow, request)
}

// mark says on the resource that a run changes the site.
func (r *run) mark() (ending, error) {
	r.marked, r.closed = true, false
	if frozen(r.state) && r.since(cronFirst) { // they were left suspended for a person, who says by a retry that the site is mended
		if err := r.resumeCron(); err != nil {
			return ending{}, err
		}
	}
	phase, message := update.PhaseRollingOut, fmt.Sprintf("Moving to %s.", r.target)
	if r.asksFirst() {
		phase, message = update.PhasePreflight, fmt.Sprintf("Asking the Drush of %s whether it bootstraps, and which updates are pending.", r.target)
	}
	report := r.report(phase, message)
	report.Started, report.InProgress = true, update.MarkSet
	releases := r.state.Releases
	releases.Target, releases.Failed = r.target, ""
	report.Releases = &releases
	report.Remove = []string{update.ConditionCodeUpdateFailed, update.ConditionDBUpdatesFailed}
	report.ObservedRetry = &r.state.Retry
	report.Event = &update.Event{Reason: "UpdateStarted", Message: fmt.Sprintf("Update from %s to %s started.", known(r.from), r.target)}
	r.searchable()
	if err := r.write("mark the site as updating", report); err != nil {
		return ending{}, err
	}
	r.state.Releases = releases
	return ending{}, nil
}

// since tells whether this run has a change of the workflow. Runs that passed the place before the change do not.
func (r *run) since(change string) bool {
	return workflow.GetVersion(r.steady, change, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// cronFirst resumes the CronJobs of a site that was mended by a person before anything else: whatever the target comes to,
// no later run knows that they were suspended.
const cronFirst = "resume-cron-first"

// gate holds the run between steps while it is paused by signal. What puts a site in order is never held.
func (r *run) gate(ctx workflow.Context) error {
	if !r.control.paused || (ctx == r.steady && r.since("undoing-is-not-held")) {
		return ctx.Err()
	}
	r.describe(r.phase, "Paused by signal; send the signal resume to go on.")
	return workflow.Await(ctx, func() bool { return !r.control.paused })
}

// enter begins a phase: it is written to the resource before its step runs, so that a lost run can be understood.
func (r *run) enter(phase update.Phase, message string, change func(*update.Report)) error {
	report := r.report(phase, message)
	if change != nil {
		change(&report)
	}
	return r.write(headline(phase, message), report)
}

// headline is what the page of the run shows of a step that records a phase: what came of the steps before it.
func headline(phase update.Phase, message string) string {
	text := fmt.Sprintf("%s: %s", phase, sentence(message))
	if runes := []rune(text); len(runes) > 160 {
		text = string(runes[:159]) + "…"
	}
	return text
}

func (r *run) report(phase update.Phase, message string) update.Report {
	r.describe(phase, message)
	return update.Report{
		Site: r.site, WorkflowID: r.site.UpdateID(), RunID: workflow.GetInfo(r.ctx).WorkflowExecution.RunID, Phase: phase, Message: message,
		Known: r.known(), KnownRuns: r.knownRuns(),
	}
}

// knownRuns are the runs that the newest record on the resource may be of. Where it is of another one, that has changed the
// site behind this run's back, which was terminated and then reset.
func (r *run) knownRuns() []string {
	return []string{r.state.LastRunID, workflow.GetInfo(r.ctx).WorkflowExecution.RunID, r.id}
}

// known is the operation that this run knows to be open. A run that was reset to a point before its operation does not
// know of it; it must neither end nor change the code before it has looked again.
func (r *run) known() *string {
	operation := r.state.Operation
	return &operation
}

func (r *run) write(summary string, report update.Report) error {
	_, err := call(r.steady, quick(), summary, update.WriteReport, report)
	return err
}

// describe keeps the query, the run's page in the Web UI and the search attribute true.
func (r *run) describe(phase update.Phase, message string) {
	if phase == "" {
		return
	}
	moved := r.phase != phase
	r.phase, r.progress.Phase, r.progress.Message = phase, phase, message
	workflow.SetCurrentDetails(r.steady, details(r.progress, r.job))
	if moved {
		r.searchable()
	}
}

// searchable upserts the search attributes, where the namespace has them: they are there exactly if the start set them.
func (r *run) searchable() {
	key := temporal.NewSearchAttributeKeyKeyword(update.SearchSite)
	if !workflow.GetTypedSearchAttributes(r.steady).ContainsKey(key) {
		return
	}
	err := workflow.UpsertTypedSearchAttributes(r.steady,
		temporal.NewSearchAttributeKeyKeyword(update.SearchTarget).ValueSet(r.target),
		temporal.NewSearchAttributeKeyKeyword(update.SearchPhase).ValueSet(string(r.phase)))
	if err != nil {
		workflow.GetLogger(r.steady).Warn("search attributes are not set", "error", err)
	}
}

func details(p update.Progress, job string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s: %s → %s\n\n", p.Site, known(p.From), p.Target)
	fmt.Fprintf(&b, "**%s** %s\n", p.Phase, p.Message)
	if p.LastOutput != "" {
		fmt.Fprintf(&b, "\nLast output: `%s`\n", strings.ReplaceAll(p.LastOutput, "`", "'"))
	}
	if next := advice(p.Phase); next != "" {
		fmt.Fprintf(&b, "\n%s\n", next)
	}
	fmt.Fprintf(&b, "\nThe site: `kubectl -n %s describe dsite %s`\n", p.Site.Namespace, p.Site.Name)
	switch {
	case job != "":
		fmt.Fprintf(&b, "\nThe log of its operation: `kubectl -n %s logs job/%s`\n", p.Site.Namespace, job)
	case p.Phase == update.PhaseUpdatingDatabase:
		fmt.Fprintf(&b, "\nThe log of its operation: `kubectl -n %s logs --tail=-1 -l drupdate.dev/site=%s,drupdate.dev/operation=update`\n", p.Site.Namespace, p.Site.Name)
	}
	return b.String()
}

// advice says what happens next, or what a person can do.
func advice(phase update.Phase) string {
	switch phase {
	case update.PhaseWaiting:
		return "Next: the update starts when updates are resumed and the window is open. Signal `abort` gives it up."
	case update.PhasePreflight:
		return "Next: the target's image is rolled out. Signals: `pause`, `resume`; `abort`, or cancelling the run, ends it. Nothing of the site is changed yet."
	case update.PhaseRollingOut:
		return "Next: drush cache:rebuild. Signals: `pause`, `resume`; `abort`, or cancelling the run, rolls back. The database is untouched."
	case update.PhaseRebuildingCaches:
		return "Next: Drush is asked for pending database updates. Signals: `pause`, `resume`; `abort`, or cancelling the run, rolls back. The database is untouched."
	case update.PhaseCheckingDatabase:
		return "Next: the database update if one is pending, otherwise the last check. Signals: `pause`, `resume`; `abort`, or cancelling the run, rolls back."
	case update.PhaseUpdatingDatabase:
		return "Next: the last check, or the restore of the backup. The operation is let finish: cancelling takes effect afterwards."
	case update.PhaseVerifying:
		return "Next: the release is recorded as verified, or the site goes back."
	case update.PhaseBackingUp:
		return "The backup is let finish. An update that is wanted by then begins as this same workflow."
	case update.PhaseRewinding:
		return "The restore is let finish."
	case update.PhaseRestoring, update.PhaseRollingBack:
		return "The site is being put back in order; nothing needs to be done."
	default:
		return lastAdvice(phase)
	}
}

// lastAdvice says what a person can do when the run has ended.
func lastAdvice(phase update.Phase) string {
	switch phase {
	case update.PhaseRollbackFailed, update.PhaseRestoreFailed, update.PhaseFrozen:
		return "A person is needed: see the conditions of the site, mend it, then set the annotation `drupdate.dev/retry` to a new value."
	case update.PhaseRolledBack, update.PhaseRestored, update.PhaseCodeFailed, update.PhaseAborted:
		return "This release is not tried again until the spec changes, or the annotation `drupdate.dev/retry` gets a new value."
	default:
		return ""
	}
}

func known(release string) string {
	if release == "" {
		return "none"
	}
	return release
}

// sentence makes one sentence of a fault's text.
func sentence(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\n", " "))
	if len(text) > 900 {
		text = strings.ToValidUTF8(text[:900], "") + "…"
	}
	if text == "" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "…") {
		return text
	}
	return text + "."
}
