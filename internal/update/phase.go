package update

// Phase is what a run does, or how it ended. It is status.run.phase and the reason of the condition Updating.
type Phase string

// Phases of an open run.
const (
	PhaseWaiting Phase = "Waiting"
	// PhasePreflight: a Job asks the target's Drush, before anything of the site is changed.
	PhasePreflight        Phase = "Preflight"
	PhaseRollingOut       Phase = "RollingOut"
	PhaseRebuildingCaches Phase = "RebuildingCaches"
	PhaseCheckingDatabase Phase = "CheckingDatabase"
	PhaseUpdatingDatabase Phase = "UpdatingDatabase"
	PhaseRestoring        Phase = "RestoringDatabase"
	PhaseRollingBack      Phase = "RollingBack"
	// PhaseBackingUp: a backup is taken. Only Temporal shows it: the site is not changed.
	PhaseBackingUp Phase = "BackingUp"
	// PhaseRewinding: a backup that a person chose is put back.
	PhaseRewinding Phase = "RestoringBackup"
	PhaseVerifying Phase = "Verifying"
)

// Phases of a run that has ended.
const (
	// PhaseSucceeded: the site runs the target, verified.
	PhaseSucceeded Phase = "Succeeded"
	// PhaseRolledBack: the target's code failed; the site runs the failsafe release.
	PhaseRolledBack Phase = "RolledBack"
	// PhaseRollbackFailed: the rollback failed as well; a person is needed.
	PhaseRollbackFailed Phase = "RollbackFailed"
	// PhaseCodeFailed: the target's code failed and there is no release to go back to.
	PhaseCodeFailed Phase = "CodeUpdateFailed"
	// PhaseRestored: the database update failed; backup and code are restored.
	PhaseRestored Phase = "DatabaseRestored"
	// PhaseFrozen: the database update failed; all is left as it is for a person.
	PhaseFrozen Phase = "Frozen"
	// PhaseRestoreFailed: database update and restore failed; maintenance mode stays on.
	PhaseRestoreFailed Phase = "RestoreFailed"
	// PhaseRewound: a backup that a person chose was put back, and the site serves on it.
	PhaseRewound Phase = "BackupRestored"
	// PhaseNotRewound: a backup was to be put back and could not be; the database is as it was.
	PhaseNotRewound Phase = "NotRestored"
	// PhaseAborted: a person ended the run; the site runs the failsafe release.
	PhaseAborted Phase = "Aborted"
	// PhaseSuspended: the Deployment is scaled to zero or paused; nothing was judged.
	PhaseSuspended Phase = "Suspended"
	// PhaseSuperseded: the site or its Deployment was deleted or replaced during the run.
	PhaseSuperseded Phase = "Superseded"
)

// DatabasePhase tells whether a run in this phase may have started a database operation.
func (p Phase) DatabasePhase() bool {
	return p == PhaseUpdatingDatabase || p == PhaseRestoring || p == PhaseRewinding
}

// Ended tells whether the phase is one of a run that has ended.
func (p Phase) Ended() bool {
	switch p {
	case PhaseSucceeded, PhaseRolledBack, PhaseRollbackFailed, PhaseCodeFailed, PhaseRestored, PhaseFrozen, PhaseRestoreFailed,
		PhaseRewound, PhaseNotRewound, PhaseAborted, PhaseSuspended, PhaseSuperseded:
		return true
	default:
		return false
	}
}

// NeedsPerson tells whether a run that ended in this phase waits for a person to say, by a retry, that the site is in order.
func (p Phase) NeedsPerson() bool {
	return p == PhaseRollbackFailed || p == PhaseFrozen || p == PhaseRestoreFailed
}

// Progress answers QueryState.
type Progress struct {
	Site       Site   `json:"site"`
	Phase      Phase  `json:"phase"`
	From       string `json:"from,omitempty"`
	Target     string `json:"target,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	LastOutput string `json:"lastOutput,omitempty"`
	Message    string `json:"message,omitempty"`
	Paused     bool   `json:"paused,omitempty"`
}

// Summary is the result of UpdateSite.
type Summary struct {
	Phase   Phase  `json:"phase"`
	From    string `json:"from,omitempty"`
	Target  string `json:"target,omitempty"`
	Message string `json:"message,omitempty"`
}
