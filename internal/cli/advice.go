package cli

import (
	"fmt"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// advice is something that a person can do now. Without a command it is done elsewhere.
type advice struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
}

// mends say what usually helps against the reasons that do not speak for themselves; docs/operations.md has all of them.
var mends = map[string]string{
	"ImagePullBackOff":                 "check that the image exists and that the pods may pull it",
	"ErrImagePull":                     "check that the image exists and that the pods may pull it",
	"InvalidImageName":                 "correct spec.image or spec.release",
	"CrashLoopBackOff":                 "read the log of the release's pods",
	update.ReasonPreflightFailed:       "mend the release: its message says what Drush answered; the site was not changed",
	update.ReasonRolloutTimeout:        "see what the pods waited for: volume, node, or a slow start (spec.update.rolloutTimeout)",
	update.ReasonCacheRebuildFailed:    "mend the release: its message is most often a PHP error",
	update.FailureDrushMissing:         "correct spec.runtime.drush, or the image",
	update.ReasonDatabaseUnknown:       "run drush updatedb:status in a pod",
	update.ReasonDatabaseAhead:         "ask for a release at least as new as the one that made those updates, or restore a backup of that time",
	update.ReasonVerifyFailed:          "see what the message says does not work at this release",
	update.ReasonSuspended:             "scale the Deployment up, or end its pause",
	update.ReasonOverruled:             "find out who else sets the image: kubectl get deploy -o yaml --show-managed-fields",
	update.FailureContainerMissing:     "correct spec.runtime.container",
	update.ReasonUntouched:             "mend what the message names; the database was never changed",
	update.ReasonRestored:              "mend the release, and ask for the mended one",
	update.ReasonFrozen:                "finish the update or restore the backup by hand: docs/operations.md, Frozen",
	update.ReasonRestoreFailed:         "restore by hand: docs/operations.md, RestoreFailed",
	update.ReasonRollbackFailed:        "mend what both releases share: docs/operations.md, RollbackFailed",
	v1alpha1.ReasonSecretMissing:       "create the Secret that spec.database.secretName names",
	v1alpha1.ReasonScaledToZero:        "scale the Deployment up",
	v1alpha1.ReasonWorkloadPaused:      "resume the Deployment: kubectl rollout resume",
	v1alpha1.ReasonWorkloadConflict:    "give one of the sites another spec.workload.name",
	v1alpha1.ReasonNotInstalled:        "install Drupal, or let drupdate do it: spec.install",
	v1alpha1.ReasonHalfInstalled:       "empty the database, or finish the installation by hand",
	v1alpha1.ReasonUnavailable:         "see why no pod is available: kubectl get pods, and their log",
	v1alpha1.ReasonChildRejected:       "mend what the API server refuses: quota, or an admission rule",
	v1alpha1.ReasonTemporalUnreachable: "bring Temporal back; the site serves meanwhile",
}

// advise lists what a person can do now, the most likely first.
func (s *session) advise(site *v1alpha1.DrupalSite, v verdict) []advice {
	var list []advice
	if mend := s.mend(site, v); mend != "" {
		list = append(list, advice{What: mend})
	}
	add := func(what, verb string, rest ...string) {
		list = append(list, advice{what, s.command(site, verb, rest...)})
	}
	switch v.health {
	case busy:
		s.adviseBusy(site, v, add)
	case failed, person:
		s.adviseFailed(site, v, add)
	case waiting:
		s.adviseWaiting(v, add)
	case good:
		add("ask for another release", "update", "--to", "RELEASE")
	}
	switch {
	case site.Spec.Update.Paused:
		add("let updates start again", "resume")
	case v.health == good, v.health == waiting && v.state == stateRequested:
		add("let no update start", "pause")
	}
	return list
}

func (s *session) mend(site *v1alpha1.DrupalSite, v verdict) string {
	if v.health == busy || v.health == good {
		return ""
	}
	for _, c := range failures(site) {
		if mend := mends[c.Reason]; mend != "" && (v.health == failed || v.health == person) {
			return mend
		}
	}
	return mends[v.state]
}

func (s *session) adviseBusy(site *v1alpha1.DrupalSite, v verdict, add func(what, verb string, rest ...string)) {
	add("see it go on", "watch")
	if update.Phase(v.state).DatabasePhase() {
		add("read along", "logs")
	}
	switch update.Phase(v.state) {
	case update.PhaseRollingBack, update.PhaseRestoring, update.PhaseRewinding:
		return // it is being put back in order already
	case update.PhaseUpdatingDatabase:
		add("give it up when the database step has ended", "abort")
	default:
		add("hold it between two steps", "pause")
		add(fmt.Sprintf("give it up, and go back to %s", short(site.Status.Release.Failsafe)), "abort")
	}
}

func (s *session) adviseFailed(site *v1alpha1.DrupalSite, v verdict, add func(what, verb string, rest ...string)) {
	r := site.Status.Release
	if len(failures(site)) == 0 && r.Failed == "" {
		return
	}
	again := fmt.Sprintf("when that is mended, try %s again", short(site.Spec.Release))
	if v.health == person {
		again = "when that is done, say so"
	}
	add(again, "retry")
	if r.Failsafe != "" && r.Failsafe != site.Spec.Release {
		add("stay at the release that serves", "update", "--to", r.Failsafe)
	}
	if holds(site, v1alpha1.ConditionDBUpdatesFailed) {
		what := []string{}
		if condition(site, v1alpha1.ConditionDBUpdatesFailed).Reason != update.ReasonRestoreFailed { // the newest operation has put something in order, and went well
			what = []string{"--operation", string(update.OperationUpdate)}
		}
		add("read what the operation printed", "logs", what...)
	}
	add("see all runs", "history")
}

func (s *session) adviseWaiting(v verdict, add func(what, verb string, rest ...string)) {
	switch v.state {
	case stateRequested:
		add("see it begin", "watch")
	case statePaused, stateDeleting:
	case v1alpha1.ReasonTemporalUnreachable:
	default:
		add("see it change", "watch")
	}
}
