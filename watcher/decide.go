package watcher

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// verb is what the watcher does about a site.
type verb string

const (
	// notYet: the site is not in a state in which updates are looked at.
	notYet verb = "NotYet"
	// inSync: the site runs what its owner asks for.
	inSync verb = "InSync"
	// check: ask CheckSite whether the site is installed, or which updates are pending.
	check verb = "Check"
	// start: ask UpdateSite for a run.
	start verb = "Start"
	// running: a run changes the site; see that it lives, and tell it of a new target.
	running verb = "Running"
	// blocked: there is drift, and no run may start.
	blocked verb = "Blocked"
)

// Causes say why; they tell two requests of one site apart, and are not shown to its owner.
const (
	causeDeleting    = "deleting"
	causeConflict    = "conflict"
	causeWorkload    = "workload"
	causeUnavailable = "unavailable"
	causeInstalled   = "installed"
	causePending     = "pending"
	causeConfirmed   = "confirmed"
	causeRetry       = "retry"
	causeRelease     = "release"
	causeTidy        = "tidy"
	causeTemplate    = "template"
	causeRetarget    = "retarget"
	causeFailed      = "failed"
	causePerson      = "person"
	causePaused      = "paused"
)

// decision is the answer of decide.
type decision struct {
	verb  verb
	cause string
}

// decide says what to do about a site. It is pure: equal arguments give equal answers.
func decide(site *v1alpha1.DrupalSite, w workload) decision {
	switch {
	case site.DeletionTimestamp != nil:
		return decision{notYet, causeDeleting}
	case w.conflict != "":
		return decision{notYet, causeConflict}
	case site.InProgress():
		return decideOpen(site)
	case !w.exists || w.deleting || w.missing != "" || w.scaledToZero || w.paused:
		return decision{notYet, causeWorkload}
	case !isTrue(site, v1alpha1.ConditionInitialized):
		if w.available {
			return decision{check, causeInstalled}
		}
		return decision{notYet, causeUnavailable}
	}
	return decideDrift(site, w)
}

// decideOpen is decide while a run is, or was, changing the site.
func decideOpen(site *v1alpha1.DrupalSite) decision {
	if site.Status.Release.Target != site.Spec.Release || site.RetryAsked() {
		return decision{running, causeRetarget}
	}
	return decision{running, ""}
}

// decideDrift is decide for an installed site that no run changes.
func decideDrift(site *v1alpha1.DrupalSite, w workload) decision {
	retry := site.RetryAsked()
	if !retry && needsPerson(site) {
		return decision{blocked, causePerson}
	}
	if !retry && site.Spec.Release == site.Status.Release.Failed {
		return orCheck(site, w, decision{blocked, causeFailed})
	}
	if cause := drift(site, w); cause != "" {
		return decideStart(site, w, cause)
	}
	if !w.available {
		return decision{notYet, causeUnavailable}
	}
	return orCheck(site, w, decision{inSync, ""})
}

// decideStart is decide for a site that drifted.
func decideStart(site *v1alpha1.DrupalSite, w workload, cause string) decision {
	switch {
	case !lookedAt(site, w):
		return decision{notYet, causeUnavailable}
	case site.Spec.Update.Paused:
		return decision{blocked, causePaused}
	}
	return decision{start, cause}
}

// orCheck is a check where one is due and can be made, and otherwise the given decision.
func orCheck(site *v1alpha1.DrupalSite, w workload, otherwise decision) decision {
	if w.available && pendingUnconfirmed(site) {
		return decision{check, causePending}
	}
	return otherwise
}

// drift is the first way in which the site is not what its owner asks for, or "".
func drift(site *v1alpha1.DrupalSite, w workload) string {
	r := site.Status.Release
	switch {
	case site.RetryAsked():
		return causeRetry
	case r.Serving != site.Spec.Release:
		return causeRelease
	case r.Failed != "":
		// The owner no longer asks for the failed release: its conditions do not hold any more, and a run removes them.
		return causeTidy
	case w.release != site.Spec.Release, w.moved:
		return causeTemplate
	case reasonOf(site, v1alpha1.ConditionDBUpdatesPending) == v1alpha1.ReasonUpdatesConfirmed:
		return causeConfirmed
	}
	return ""
}

// lookedAt tells whether drift of the site may start a run: it serves, or it is known to be failing, so that a run can only help.
func lookedAt(site *v1alpha1.DrupalSite, w workload) bool {
	serving := site.Status.Release.Serving
	return w.available ||
		reasonOf(site, v1alpha1.ConditionCodeUpdateFailed) != "" ||
		reasonOf(site, v1alpha1.ConditionDBUpdatesFailed) != "" ||
		serving != "" && serving != site.Spec.Release
}

// needsPerson tells whether the last run left the site in a state that no other target can mend.
func needsPerson(site *v1alpha1.DrupalSite) bool {
	return update.NeedsPerson(reasonOf(site, v1alpha1.ConditionCodeUpdateFailed), reasonOf(site, v1alpha1.ConditionDBUpdatesFailed))
}

// pendingUnconfirmed tells whether the site may have pending updates that no check has confirmed.
func pendingUnconfirmed(site *v1alpha1.DrupalSite) bool {
	reason := reasonOf(site, v1alpha1.ConditionDBUpdatesPending)
	return reason != "" && reason != v1alpha1.ReasonUpdatesConfirmed && reasonOf(site, v1alpha1.ConditionDBUpdatesFailed) == ""
}

func isTrue(site *v1alpha1.DrupalSite, condition string) bool {
	return apimeta.IsStatusConditionTrue(site.Status.Conditions, condition)
}

// reasonOf is the reason of a condition that holds or may hold; a condition that is absent or False has none.
func reasonOf(site *v1alpha1.DrupalSite, condition string) string {
	c := apimeta.FindStatusCondition(site.Status.Conditions, condition)
	if c == nil || c.Status == metav1.ConditionFalse {
		return ""
	}
	return c.Reason
}

// ensured is the release that a missing Deployment is created with.
func ensured(site *v1alpha1.DrupalSite) string {
	r := site.Status.Release
	if site.InProgress() && r.Target != "" && site.Status.Run != nil {
		phase := update.Phase(site.Status.Run.Phase)
		if phase == update.PhaseRewinding {
			return known(site, site.Spec.Release) // no code is changed while a backup is put back
		}
		if phase == update.PhaseUpdatingDatabase || phase == update.PhaseVerifying || site.Status.Run.Operation != "" {
			// The database is, or may be, the target's already.
			return r.Target
		}
	}
	return known(site, site.Spec.Release)
}

// known is the release that the Deployment is kept at, or otherwise if none was ever verified.
func known(site *v1alpha1.DrupalSite, otherwise string) string {
	switch r := site.Status.Release; {
	case r.Serving != "":
		return r.Serving
	case r.Failsafe != "":
		return r.Failsafe
	}
	return otherwise
}

// putBack is the release that the existing Deployment has to be put back to, or "" if its image is to be left alone.
// A run owns the image while it is open and from the moment that one is asked for.
func putBack(site *v1alpha1.DrupalSite, w workload, d decision) string {
	if !w.exists || w.deleting || w.moved || w.missing != "" || !ours(site, d) {
		return ""
	}
	release := known(site, "")
	if release == "" {
		release = firstRelease(site, w)
	}
	if release == "" || w.release == release && w.matches {
		return ""
	}
	return release
}

// ours tells whether the image is the watcher's to keep, and nobody else's.
func ours(site *v1alpha1.DrupalSite, d decision) bool {
	switch {
	case d.verb == running, d.verb == start:
		return false
	case d.cause == causeDeleting, d.cause == causeConflict:
		return false
	case site.Status.Run != nil && site.Status.Run.Operation != "":
		// Which code the database belongs to is not settled.
		return false
	}
	// Where a person is at work, or needed, an image set by hand may be the cure.
	return !needsPerson(site)
}

// firstRelease is the release to put an unverified site to, or "". Before the first verified release no run starts, so
// that a first image that never came up would stay for ever. An adopted Deployment is left for the first run, and so is
// one that serves: it may hold an installed site of which the status was lost.
func firstRelease(site *v1alpha1.DrupalSite, w workload) string {
	adopted := w.release == ""
	serves := w.available && w.release != site.Spec.Release
	if adopted || serves || isTrue(site, v1alpha1.ConditionInitialized) {
		return ""
	}
	return site.Spec.Release
}
