package metrics

import (
	"slices"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// Values of labels that stand for others.
const (
	// None is the phase of a site that had no run, and the reason of an update that did not fail.
	None = "None"
	// Other is every value that is not known here: what an administrator wrote by hand, or what another version wrote.
	Other = "Other"
	// Run is the phase of a duration that is a whole update's.
	Run = "Run"
)

// Results of a phase, of an update as a whole, and of a command.
const (
	Succeeded = "Succeeded"
	Failed    = "Failed"
	// Interrupted is how a phase ended that a person, another target or the cluster cut short.
	Interrupted = "Interrupted"
	// Unknown is the result of a command whose answer did not arrive whole, or not at all.
	Unknown = "Unknown"
)

// openPhases are the phases of an open run, endPhases those of one that ended.
var (
	openPhases = []update.Phase{
		update.PhaseWaiting, update.PhasePreflight, update.PhaseRollingOut, update.PhaseRebuildingCaches, update.PhaseCheckingDatabase,
		update.PhaseUpdatingDatabase, update.PhaseRestoring, update.PhaseRollingBack, update.PhaseVerifying,
		update.PhaseBackingUp, update.PhaseRewinding,
	}
	endPhases = []update.Phase{
		update.PhaseSucceeded, update.PhaseRolledBack, update.PhaseRollbackFailed, update.PhaseCodeFailed,
		update.PhaseRestored, update.PhaseFrozen, update.PhaseRestoreFailed, update.PhaseAborted,
		update.PhaseRewound, update.PhaseNotRewound, update.PhaseSuspended, update.PhaseSuperseded,
	}
)

// codeReasons are the reasons of CodeUpdateFailed but for RollbackFailed and Aborted; those of a rollout are
// Kubernetes' own words.
var codeReasons = []string{
	"ReplicaFailure", "ProgressDeadlineExceeded", "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull",
	"InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "ReplicaSetCreateError",
	update.ReasonPreflightFailed, update.ReasonRolloutTimeout, update.ReasonCacheRebuildFailed, update.ReasonDatabaseUnknown, update.ReasonDatabaseAhead,
	update.ReasonVerifyFailed,
	update.ReasonOverruled, update.ReasonStepFailed, update.ReasonSuspended,
	update.FailureInvalid, update.FailureForbidden, update.FailureContainerMissing, update.FailureDrushMissing,
	update.FailureNoAnswer, update.FailureWorkloadConflict, update.FailureReplaced, update.FailureOperationOpen,
}

// otherReasons are the reasons of CodeUpdateFailed and DBUpdatesFailed that each belong to one way to end.
var otherReasons = []string{
	update.ReasonRollbackFailed, update.ReasonAborted, update.ReasonUntouched, update.ReasonRestoring, update.ReasonRestored,
	update.ReasonFrozen, update.ReasonRestoreFailed, update.FailureSiteGone, update.FailureCronBusy,
}

// Phase bounds a phase to those of the contract; empty is None.
func Phase(phase string) string {
	switch {
	case phase == "":
		return None
	case slices.Contains(openPhases, update.Phase(phase)), slices.Contains(endPhases, update.Phase(phase)):
		return phase
	}
	return Other
}

// Phases are all values of the label phase of drupdate_sites.
func Phases() []string {
	all := []string{None, Other}
	for _, p := range slices.Concat(openPhases, endPhases) {
		all = append(all, string(p))
	}
	return all
}

// Reason bounds a reason of a failed update to those that docs/operations.md explains; empty is None.
func Reason(reason string) string {
	switch {
	case reason == "":
		return None
	case slices.Contains(codeReasons, reason), slices.Contains(otherReasons, reason):
		return reason
	}
	return Other
}

// FailureConditions are the condition types that say that an update failed.
func FailureConditions() []string {
	return []string{v1alpha1.ConditionCodeUpdateFailed, v1alpha1.ConditionDBUpdatesFailed}
}

// resultOf is how an update ended, from its last phase.
func resultOf(end update.Phase) string {
	switch end {
	case update.PhaseSucceeded:
		return Succeeded
	case update.PhaseAborted, update.PhaseSuspended, update.PhaseSuperseded:
		return Interrupted
	default:
		return Failed
	}
}

// PhaseResult is how a phase ended, from the phase that follows it and the reason of the failure, if there is one.
func PhaseResult(phase, next update.Phase, reason string) string {
	switch {
	case next == update.PhaseSuspended, next == update.PhaseSuperseded:
		return Interrupted
	case phase == update.PhaseRollingBack, phase == update.PhaseRestoring:
		// What is undone failed or was aborted before; here it counts whether the undoing went well.
		if next == update.PhaseRollbackFailed || next == update.PhaseRestoreFailed {
			return Failed
		}
		return Succeeded
	case next == update.PhaseRewound:
		return Succeeded
	case phase == update.PhasePreflight && next == update.PhaseRollingOut:
		return Succeeded
	case next == update.PhaseRollingOut, next == update.PhasePreflight:
		return Interrupted // Another target came.
	case next.Ended() && next != update.PhaseSucceeded, next == update.PhaseRollingBack, next == update.PhaseRestoring:
		return failedOrAborted(reason)
	}
	return Succeeded
}

func failedOrAborted(reason string) string {
	if reason == update.ReasonAborted {
		return Interrupted
	}
	return Failed
}
