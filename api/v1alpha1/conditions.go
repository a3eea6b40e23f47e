package v1alpha1

// Condition types, each with one owner: the watcher's field manager or the worker's.
const (
	// ConditionInitialized is True once Drupal is installed; then nobody checks again. Owner: worker.
	ConditionInitialized = "Initialized"
	// ConditionReady is True while the Deployment has an available pod. Owner: watcher.
	ConditionReady = "Ready"
	// ConditionUpdating is True while a run is under way; its reason is the phase. Owner: worker.
	ConditionUpdating = "Updating"
	// ConditionCodeUpdateFailed is True when the target's code did not come up. Owner: worker.
	ConditionCodeUpdateFailed = "CodeUpdateFailed"
	// ConditionDBUpdatesPending is True when Drush reports pending updates, Unknown when it could not be asked. Owner: worker.
	ConditionDBUpdatesPending = "DBUpdatesPending"
	// ConditionDBUpdatesFailed is True when database updates failed; permanent for that target. Owner: worker.
	ConditionDBUpdatesFailed = "DBUpdatesFailed"
	// ConditionBackupFailed is True when the last backup that a person or the schedule asked for failed. Owner: worker.
	ConditionBackupFailed = "BackupFailed"
	// ConditionBackupsUnscheduled is True while Temporal does not take spec.backups.schedule. Owner: watcher.
	ConditionBackupsUnscheduled = "BackupsUnscheduled"
	// ConditionPaused is True while updates are paused. Owner: watcher.
	ConditionPaused = "Paused"
	// ConditionOrchestratorUnavailable is True while Temporal cannot be reached. Owner: watcher.
	ConditionOrchestratorUnavailable = "OrchestratorUnavailable"
)

// Reasons of Ready.
const (
	// ReasonAvailable: the Deployment has an available pod.
	ReasonAvailable = "PodsAvailable"
	// ReasonUnavailable: the Deployment has no available pod.
	ReasonUnavailable = "NoPodAvailable"
	// ReasonScaledToZero: the Deployment asks for no replicas.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonWorkloadMissing: the Deployment does not exist.
	ReasonWorkloadMissing = "WorkloadMissing"
	// ReasonWorkloadPaused: the Deployment is paused.
	ReasonWorkloadPaused = "WorkloadPaused"
	// ReasonWorkloadConflict: another site, or another controller, has the Deployment of that name.
	ReasonWorkloadConflict = "WorkloadConflict"
	// ReasonSecretMissing: the database Secret does not exist.
	ReasonSecretMissing = "SecretMissing"
	// ReasonContainerMissing: the pod template has no container of the name that the spec gives.
	ReasonContainerMissing = "ContainerMissing"
	// ReasonChildRejected: the API server refused to create a child.
	ReasonChildRejected = "ChildRejected"
	// ReasonNamespaceTerminating: the namespace is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
)

// Reasons of the other conditions.
const (
	// ReasonInstalled: Drupal is installed.
	ReasonInstalled = "Installed"
	// ReasonNotInstalled: the database is empty and no install is asked for.
	ReasonNotInstalled = "NotInstalled"
	// ReasonInstallFailed: site:install failed, or left a half-installed site.
	ReasonInstallFailed = "InstallFailed"
	// ReasonHalfInstalled: the database holds an unfinished installation.
	ReasonHalfInstalled = "HalfInstalled"
	// ReasonProbeFailed: Drush could not be asked, or its answer is no proof.
	ReasonProbeFailed = "ProbeFailed"
	// ReasonPaused: spec.update.paused is set.
	ReasonPaused = "PausedBySpec"
	// ReasonTemporalUnreachable: Temporal did not answer in time.
	ReasonTemporalUnreachable = "TemporalUnreachable"
	// ReasonUpdatesPending: Drush lists pending updates.
	ReasonUpdatesPending = "UpdatesPending"
	// ReasonUpdatesConfirmed: a check saw pending updates while no run was open; a run is started.
	ReasonUpdatesConfirmed = "UpdatesConfirmed"
	// ReasonBackupFailed: the backup failed, or nobody knows how it ended; the message says which.
	ReasonBackupFailed = "BackupFailed"
	// ReasonScheduleRefused: the schedule cannot be read, or Temporal refuses it.
	ReasonScheduleRefused = "ScheduleRefused"
	// ReasonIdle: no run is under way.
	ReasonIdle = "Idle"
)

// Labels and annotations.
const (
	// AnnotationUpdateInProgress is "true" on a site exactly while a run changes it.
	AnnotationUpdateInProgress = "updateInProgress"
	// AnnotationRetry asks, with any new value, for another attempt at a failed target.
	AnnotationRetry = "drupdate.dev/retry"
	// AnnotationAbort gives an open run up, with any new value, as the signal abort does. Without an open run it does nothing.
	AnnotationAbort = "drupdate.dev/abort"
	// AnnotationRelease is the release on a Deployment's pod template.
	AnnotationRelease = "drupdate.dev/release"
	// AnnotationSite is the site's full name on objects made for it.
	AnnotationSite = "drupdate.dev/site-name"
	// LabelSite is the site's name on objects made for it, and on CronJobs that a database update suspends.
	LabelSite = "drupdate.dev/site"
)

// Field managers of server-side apply: two writers that never clobber each other.
const (
	// ManagerWatcher writes the conditions that the watcher owns, and the children.
	ManagerWatcher = "drupdate-watcher"
	// ManagerWorker writes status.release, status.run, status.backups and the conditions that the worker owns.
	ManagerWorker = "drupdate-worker"
	// ManagerImage writes the image and the release annotation of Deployments.
	ManagerImage = "drupdate-image"
)

// LeaseWatcher is the name of the Lease that the watcher which works holds, in the namespace that it runs in.
const LeaseWatcher = "drupdate-watcher.drupdate.dev"
