package update

// Types of permanent activity errors: Temporal does not retry them. Every other error is transient and is retried.
const (
	// FailureInvalid: the resource or the request cannot be carried out as it is written.
	FailureInvalid = "InvalidRequest"
	// FailureSiteGone: the resource is deleted, being deleted, or another one of the same name.
	FailureSiteGone = "SiteGone"
	// FailureForbidden: the API server refuses us.
	FailureForbidden = "Forbidden"
	// FailureContainerMissing: the pod template has no container of the name in spec.runtime.container.
	FailureContainerMissing = "ContainerMissing"
	// FailureDrushMissing: the container has no Drush where spec.runtime.drush says.
	FailureDrushMissing = "DrushNotFound"
	// FailureNoAnswer: for a quarter of an hour no pod of the release could be asked.
	FailureNoAnswer = "NoAnswer"
	// FailureWorkloadConflict: the Deployment belongs to another site or controller.
	FailureWorkloadConflict = "WorkloadConflict"
	// FailureRefused: a backup or restore that may not be made; nothing was begun.
	FailureRefused = "Refused"
	// FailureBackup: a backup failed.
	FailureBackup = "BackupFailed"
	// FailureCronBusy: a Job of one of the site's CronJobs did not end in time; nothing but the suspension was changed.
	FailureCronBusy = "CronBusy"
	// FailureReplaced: the Deployment's pod template carries another release than the one that was rolled out: it was made
	// anew, or somebody set another image. No pod of the release will come.
	FailureReplaced = "ReleaseReplaced"
	// FailureOperationOpen: the resource names a database operation, or a run, that the caller does not know of, as after a
	// reset of its workflow to a point before that. Nothing was written; the caller looks again and goes by what it finds.
	FailureOperationOpen = "OperationOpen"
)

// Reasons of CodeUpdateFailed, besides the rollout's own (ImagePullBackOff, CrashLoopBackOff, …).
const (
	// ReasonPreflightFailed: the target's Drush did not bootstrap, or could not be asked; the site's code was never changed.
	ReasonPreflightFailed = "PreflightFailed"
	// ReasonRolloutTimeout: the pods were not available in time.
	ReasonRolloutTimeout = "RolloutTimeout"
	// ReasonCacheRebuildFailed: drush cache:rebuild failed in every attempt.
	ReasonCacheRebuildFailed = "CacheRebuildFailed"
	// ReasonDatabaseUnknown: Drush could not tell whether updates are pending.
	ReasonDatabaseUnknown = "DatabaseUpdatesUnknown"
	// ReasonDatabaseAhead: the database has had updates that the target's code does not know: it belongs to a newer release.
	ReasonDatabaseAhead = "DatabaseAhead"
	// ReasonVerifyFailed: the site does not work at the target.
	ReasonVerifyFailed = "VerifyFailed"
	// ReasonOverruled: somebody else keeps setting another image.
	ReasonOverruled = "ImageOverruled"
	// ReasonSuspended: the Deployment is paused or scaled to zero, so that a release that was put back could not be looked at.
	ReasonSuspended = "Suspended"
	// ReasonRollbackFailed: the rollback failed as well.
	ReasonRollbackFailed = "RollbackFailed"
	// ReasonAborted: a person ended the run.
	ReasonAborted = "Aborted"
	// ReasonStepFailed: a step could not be carried out at all.
	ReasonStepFailed = "StepFailed"
)

// Reasons of DBUpdatesFailed.
const (
	// ReasonUntouched: the operation failed before it changed the database; the code is rolled back.
	ReasonUntouched = "DatabaseUntouched"
	// ReasonRestoring: the database update failed and its undoing is under way.
	ReasonRestoring = "Restoring"
	// ReasonRestored: backup and code are restored; the site serves on the failsafe release.
	ReasonRestored = "Restored"
	// ReasonFrozen: code, database and maintenance mode are left for a person.
	ReasonFrozen = "Frozen"
	// ReasonRestoreFailed: the restore failed; maintenance mode stays on.
	ReasonRestoreFailed = "RestoreFailed"
)

// NeedsPerson tells whether the reasons of CodeUpdateFailed and DBUpdatesFailed, empty where those are absent, name a state
// that no other target can mend: a person must say by a retry that the site is in order again.
func NeedsPerson(codeFailed, databaseFailed string) bool {
	return databaseFailed == ReasonFrozen || databaseFailed == ReasonRestoreFailed || codeFailed == ReasonRollbackFailed
}
