package cli

import (
	"fmt"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// health is how much a site needs somebody.
type health string

const (
	// good: it runs what its owner asks for.
	good health = "good"
	// busy: a run changes it.
	busy health = "busy"
	// waiting: something is to be done, and waits.
	waiting health = "waiting"
	// failed: the update failed, or nothing serves; the site itself was put in order.
	failed health = "failed"
	// person: nothing goes on before somebody has mended it.
	person health = "person"
)

// sign marks a row, so that health is told by more than colour.
func (h health) sign() (string, style) {
	switch h {
	case good:
		return "✓", green
	case busy:
		return "▸", blue
	case waiting:
		return "·", yellow
	case failed:
		return "!", red
	default:
		return "✗", alarm
	}
}

// verdict is what a site's resource comes to.
type verdict struct {
	health health
	// state is one word, of docs/operations.md where it has one.
	state string
	// since is when that began; nil where nobody knows.
	since *metav1.Time
	// message is a sentence.
	message string
}

// States that are no phase and no reason.
const (
	stateInOrder   = "InOrder"
	stateRequested = "Requested"
	statePaused    = "Paused"
	stateDeleting  = "Deleting"
)

// judge says how a site is. It is pure, and the first thing that is worth telling wins.
func judge(site *v1alpha1.DrupalSite) verdict {
	for _, look := range []func(*v1alpha1.DrupalSite) (verdict, bool){
		deleting, updating, personNeeded, retrying, updateFailed, notInstalled, drifted, notReady, pending, held,
	} {
		if v, found := look(site); found {
			return v
		}
	}
	v := verdict{health: good, state: stateInOrder, message: fmt.Sprintf("The site serves %s, as asked for.", short(site.Status.Release.Serving))}
	if c := condition(site, v1alpha1.ConditionReady); c != nil {
		v.since = &c.LastTransitionTime
	}
	if run := site.Status.Run; run != nil && run.FinishedAt != nil {
		v.since = run.FinishedAt
	}
	return v
}

func deleting(site *v1alpha1.DrupalSite) (verdict, bool) {
	return verdict{waiting, stateDeleting, site.DeletionTimestamp, "The site is being deleted."}, site.DeletionTimestamp != nil
}

func updating(site *v1alpha1.DrupalSite) (verdict, bool) {
	run := site.Status.Run
	if !site.InProgress() {
		return verdict{}, false
	}
	v := verdict{health: busy, state: string(update.PhaseRollingOut), message: "The run has begun."}
	// The mark is set before the status and cleared after it: between the two the status tells of an end.
	if run != nil && run.FinishedAt != nil && site.Status.Release.Target == site.Spec.Release {
		return verdict{}, false
	}
	if run != nil && run.Phase != "" && run.FinishedAt == nil {
		v.state, v.since, v.message = run.Phase, run.StartedAt, run.Message
	}
	if holds(site, v1alpha1.ConditionOrchestratorUnavailable) {
		v.health, v.message = waiting, "Temporal cannot be reached; the run goes on when it is back."
	}
	return v, true
}

func personNeeded(site *v1alpha1.DrupalSite) (verdict, bool) {
	if site.RetryAsked() {
		return verdict{}, false
	}
	for _, c := range failures(site) {
		if update.NeedsPerson(c.Reason, c.Reason) { // no reason is one of both conditions
			return verdict{person, c.Reason, &c.LastTransitionTime, c.Message}, true
		}
	}
	return verdict{}, false
}

func retrying(site *v1alpha1.DrupalSite) (verdict, bool) {
	return verdict{health: waiting, state: stateRequested, message: fmt.Sprintf("Another attempt at %s is asked for.", short(site.Spec.Release))}, site.RetryAsked()
}

func updateFailed(site *v1alpha1.DrupalSite) (verdict, bool) {
	if site.Status.Release.Failed == "" || site.Status.Release.Failed != site.Spec.Release {
		return verdict{}, false
	}
	v := verdict{health: failed, state: string(update.PhaseCodeFailed), message: fmt.Sprintf("The update to %s failed.", short(site.Status.Release.Failed))}
	if found := failures(site); len(found) > 0 {
		v.state, v.since, v.message = found[0].Reason, &found[0].LastTransitionTime, found[0].Message
	}
	if run := site.Status.Run; run != nil && run.FinishedAt != nil && !rewound(run) {
		v.state, v.since = run.Phase, run.FinishedAt
	}
	return v, true
}

// rewound tells whether the newest run was no update, and says nothing about one.
func rewound(run *v1alpha1.RunStatus) bool {
	return run.Phase == string(update.PhaseRewound) || run.Phase == string(update.PhaseNotRewound)
}

func notInstalled(site *v1alpha1.DrupalSite) (verdict, bool) {
	c := condition(site, v1alpha1.ConditionInitialized)
	switch {
	case c == nil:
		if v, found := notReady(site); found {
			return v, true
		}
		return verdict{health: waiting, state: "New", message: "Nobody has asked yet whether Drupal is installed."}, true
	case c.Status == metav1.ConditionTrue:
		return verdict{}, false
	}
	return verdict{waiting, c.Reason, &c.LastTransitionTime, c.Message}, true
}

func drifted(site *v1alpha1.DrupalSite) (verdict, bool) {
	wants := short(site.Spec.Release)
	if site.Spec.Release == site.Status.Release.Serving {
		return verdict{}, false
	}
	v := verdict{health: waiting, state: stateRequested, message: fmt.Sprintf("The update to %s is asked for.", wants)}
	switch ready := condition(site, v1alpha1.ConditionReady); {
	case site.Spec.Update.Paused:
		v.state, v.message = statePaused, fmt.Sprintf("The update to %s waits: updates are paused.", wants)
	case holds(site, v1alpha1.ConditionOrchestratorUnavailable):
		v.state, v.message = v1alpha1.ReasonTemporalUnreachable, fmt.Sprintf("The update to %s waits: Temporal cannot be reached.", wants)
	case ready != nil && ready.Status != metav1.ConditionTrue && site.Status.Release.Serving == "":
		return notReady(site)
	case site.Spec.Update.Window != nil:
		v.message = fmt.Sprintf("The update to %s starts in the window %s.", wants, windowOf(site.Spec.Update.Window))
	}
	return v, true
}

func notReady(site *v1alpha1.DrupalSite) (verdict, bool) {
	c := condition(site, v1alpha1.ConditionReady)
	if c == nil || c.Status == metav1.ConditionTrue {
		return verdict{}, false
	}
	v := verdict{failed, c.Reason, &c.LastTransitionTime, c.Message}
	if site.Status.Release.Serving == "" && (c.Reason == v1alpha1.ReasonUnavailable || c.Reason == v1alpha1.ReasonWorkloadMissing) {
		v.health = waiting // a new site, of which the first pods are on their way
	}
	return v, true
}

func pending(site *v1alpha1.DrupalSite) (verdict, bool) {
	c := condition(site, v1alpha1.ConditionDBUpdatesPending)
	if c == nil || c.Status == metav1.ConditionFalse {
		return verdict{}, false
	}
	return verdict{waiting, v1alpha1.ConditionDBUpdatesPending, &c.LastTransitionTime, c.Message}, true
}

// held is a site in order for which nothing could start.
func held(site *v1alpha1.DrupalSite) (verdict, bool) {
	serves := fmt.Sprintf("The site serves %s, as asked for", short(site.Status.Release.Serving))
	if c := condition(site, v1alpha1.ConditionOrchestratorUnavailable); c != nil && c.Status == metav1.ConditionTrue {
		return verdict{waiting, v1alpha1.ReasonTemporalUnreachable, &c.LastTransitionTime, serves + "; Temporal cannot be reached."}, true
	}
	if !site.Spec.Update.Paused {
		return verdict{}, false
	}
	v := verdict{health: good, state: statePaused, message: serves + "; updates are paused."}
	if c := condition(site, v1alpha1.ConditionPaused); c != nil {
		v.since = &c.LastTransitionTime
	}
	return v, true
}

// failures are the conditions that say why an update failed, the database's first.
func failures(site *v1alpha1.DrupalSite) []*metav1.Condition {
	var found []*metav1.Condition
	for _, name := range []string{v1alpha1.ConditionDBUpdatesFailed, v1alpha1.ConditionCodeUpdateFailed} {
		if c := condition(site, name); c != nil && c.Status == metav1.ConditionTrue {
			found = append(found, c)
		}
	}
	return found
}

func condition(site *v1alpha1.DrupalSite, name string) *metav1.Condition {
	return apimeta.FindStatusCondition(site.Status.Conditions, name)
}

func holds(site *v1alpha1.DrupalSite, name string) bool {
	return apimeta.IsStatusConditionTrue(site.Status.Conditions, name)
}

func windowOf(w *v1alpha1.WindowSpec) string {
	zone := w.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	return fmt.Sprintf("%q for %s, %s", w.Schedule, lasting(w.Duration.Duration), zone)
}

// short is a release for people: of a digest they read the first digits.
func short(release string) string {
	const algorithm, digits = "sha256:", 12
	if len(release) == len(algorithm)+64 && release[:len(algorithm)] == algorithm {
		return release[:len(algorithm)+digits]
	}
	if release == "" {
		return "none"
	}
	return release
}

// lasting is a duration in its two largest units.
func lasting(d time.Duration) string {
	d = d.Round(time.Second)
	day := 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return units(int(d/time.Minute), "m", int(d%time.Minute/time.Second), "s")
	case d < day:
		return units(int(d/time.Hour), "h", int(d%time.Hour/time.Minute), "m")
	}
	return units(int(d/day), "d", int(d%day/time.Hour), "h")
}

func units(large int, unit string, small int, part string) string {
	if small == 0 {
		return fmt.Sprintf("%d%s", large, unit)
	}
	return fmt.Sprintf("%d%s%d%s", large, unit, small, part)
}

// brief is what a row has room for: nothing where the state says it all, and of a failed update only what failed.
func brief(site *v1alpha1.DrupalSite, v verdict) string {
	switch {
	case v.state == stateInOrder:
		return ""
	case v.health != failed && v.health != person:
		return v.message
	}
	for _, c := range failures(site) {
		if _, why, found := strings.Cut(c.Message, " failed: "); found && c.Reason != v.state {
			return c.Reason + ": " + why
		} else if found {
			return why
		}
	}
	return v.message
}
