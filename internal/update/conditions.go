package update

// Condition types that a run sets, as package v1alpha1 declares them.
const (
	ConditionInitialized      = "Initialized"
	ConditionUpdating         = "Updating"
	ConditionCodeUpdateFailed = "CodeUpdateFailed"
	ConditionDBUpdatesPending = "DBUpdatesPending"
	ConditionDBUpdatesFailed  = "DBUpdatesFailed"
	ConditionBackupFailed     = "BackupFailed"
)

// Condition statuses.
const (
	True  = "True"
	False = "False"
	Maybe = "Unknown"
)

// Reasons of Initialized and DBUpdatesPending.
const (
	ReasonInstalled     = "Installed"
	ReasonNotInstalled  = "NotInstalled"
	ReasonHalfInstalled = "HalfInstalled"
	ReasonInstallFailed = "InstallFailed"
	ReasonProbeFailed   = "ProbeFailed"
	ReasonBackupFailed  = "BackupFailed"
	// ReasonUpdatesPending: a run saw pending updates.
	ReasonUpdatesPending = "UpdatesPending"
	// ReasonUpdatesConfirmed: a check, made while no run was open, saw pending updates; the watcher starts a run.
	ReasonUpdatesConfirmed = "UpdatesConfirmed"
	// ReasonOutcomeUnknown: an operation on the database failed, and what it has applied is not known.
	ReasonOutcomeUnknown = "OutcomeUnknown"
)
