package update

import "time"

// State is what Inspect saw: the resource, its Deployment, and what earlier runs left.
type State struct {
	// Gone is set when the resource does not exist, is being deleted, or has another UID; nothing else is set then but Site.
	Gone bool `json:"gone,omitempty"`
	// Unscheduled is set when the resource asks for no scheduled backups.
	Unscheduled bool `json:"unscheduled,omitempty"`
	Site        Site `json:"site"`

	Release       string `json:"release"`
	Generation    int64  `json:"generation"`
	Retry         string `json:"retry,omitempty"`
	ObservedRetry string `json:"observedRetry,omitempty"`
	Paused        bool   `json:"paused,omitempty"`
	// OpensIn is how long the update window stays closed; zero means open.
	OpensIn time.Duration `json:"opensIn,omitempty"`

	Settings Settings `json:"settings"`
	Releases Releases `json:"releases"`
	Workload Workload `json:"workload"`

	Initialized bool `json:"initialized,omitempty"`
	// InProgress is the annotation updateInProgress.
	InProgress bool `json:"inProgress,omitempty"`
	// LastPhase, LastRunID and LastMessage are status.run as an earlier run left it.
	LastPhase   Phase  `json:"lastPhase,omitempty"`
	LastRunID   string `json:"lastRunID,omitempty"`
	LastMessage string `json:"lastMessage,omitempty"`
	// Operation is status.run.operation: the run whose database operation may have begun and is not settled yet. Empty means none.
	Operation string `json:"operation,omitempty"`
	// Unsecured is status.run.unsecured: that operation takes no backup, whatever the spec says by now.
	Unsecured bool `json:"unsecured,omitempty"`
	// Restoring is status.run.restoring: that operation puts this backup back. Empty for an update's own.
	Restoring string `json:"restoring,omitempty"`
	// Journal is status.run.journal: the name that its notes have, whatever release the site runs by now.
	Journal string `json:"journal,omitempty"`
	// Lift is status.run.lift: the operation that ended before updatedb, and may have left the site in maintenance mode.
	Lift string `json:"lift,omitempty"`
	// CodeFailed, DatabaseFailed and Pending are the reasons of those conditions; empty means the condition is absent.
	CodeFailed     string `json:"codeFailed,omitempty"`
	DatabaseFailed string `json:"databaseFailed,omitempty"`
	Pending        string `json:"pending,omitempty"`
	// InstallProfile is spec.install.profile.
	InstallProfile string `json:"installProfile,omitempty"`
}

// Settings are the parts of spec.update that the workflow decides by.
type Settings struct {
	RolloutTimeout       time.Duration `json:"rolloutTimeout"`
	DatabaseTimeout      time.Duration `json:"databaseTimeout"`
	CacheRebuildAttempts int           `json:"cacheRebuildAttempts"`
	// Preflight asks the target's Drush before the image is changed.
	Preflight bool `json:"preflight,omitempty"`
	// Backup is false with backup policy Never.
	Backup bool `json:"backup"`
	// BackupVolume is false for a site that has none: policy Never, and no schedule.
	BackupVolume bool `json:"backupVolume,omitempty"`
	// Restore is false with onDatabaseFailure Freeze.
	Restore bool `json:"restore"`
}

// Releases is status.release.
type Releases struct {
	Serving  string `json:"serving,omitempty"`
	Failsafe string `json:"failsafe,omitempty"`
	Target   string `json:"target,omitempty"`
	Failed   string `json:"failed,omitempty"`
}

// Workload is the site's Deployment.
type Workload struct {
	Exists bool   `json:"exists"`
	UID    string `json:"uid,omitempty"`
	// Release is the annotation drupdate.dev/release of the pod template, empty if the image does not match it.
	Release string `json:"release,omitempty"`
	// Suspended says why the Deployment cannot roll out: scaled to zero, or paused. Empty otherwise.
	Suspended string `json:"suspended,omitempty"`
	Available bool   `json:"available,omitempty"`
}

// Outcome of any remote command. The zero value is Unknown.
type Outcome string

const (
	// Unknown: it cannot be told what happened.
	Unknown Outcome = ""
	// Succeeded: it is proven that the command did its work.
	Succeeded Outcome = "Succeeded"
	// Failed: it is proven that the command failed.
	Failed Outcome = "Failed"
)
