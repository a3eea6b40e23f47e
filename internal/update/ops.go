package update

import "time"

// Op names an activity and fixes its types for the workflow that calls it and the worker that registers it. Its value is stored in histories and never changes.
type Op[In, Out any] string

// None is the result of an activity that has none.
type None struct{}

// The activities.
const (
	// Inspect reads the resource and its Deployment, live.
	Inspect Op[Site, State] = "Inspect"
	// WriteReport writes what the worker owns: status, conditions, annotation, Event.
	WriteReport Op[Report, None] = "WriteReport"
	// SetRelease creates the Deployment with a release's image, or sets image and annotation of an existing one.
	SetRelease Op[Change, Change] = "SetRelease"
	// WaitRollout waits until only pods of the release are left and available, or it is clear that this will not be.
	WaitRollout Op[RolloutWait, Rollout] = "WaitRollout"
	// RebuildCaches runs drush cache:rebuild once in a pod of the release.
	RebuildCaches Op[Question, Answer] = "RebuildCaches"
	// PendingUpdates asks drush updatedb:status.
	PendingUpdates Op[Question, Pending] = "PendingUpdates"
	// CheckInstalled asks whether Drupal is installed.
	CheckInstalled Op[Question, Installed] = "CheckInstalled"
	// VerifySite asks Drush and the Deployment whether the site works at the release.
	VerifySite Op[Question, Answer] = "VerifySite"
	// SuspendCron suspends the site's labelled CronJobs and waits for their running Jobs.
	SuspendCron Op[Site, None] = "SuspendCron"
	// ResumeCron puts the CronJobs back as they were. Twice is once.
	ResumeCron Op[Site, None] = "ResumeCron"
	// RunOperation runs, or finds again, the Job of an operation and waits for its verdict.
	RunOperation Op[Operation, OperationResult] = "RunOperation"
	// FindBackup looks a backup of status.backups up; one without a name means that there is none.
	FindBackup Op[BackupQuery, Backup] = "FindBackup"
	// RemoveSchedule removes the schedule of a site that is gone. Twice is once.
	RemoveSchedule Op[Site, None] = "RemoveSchedule"
)

// BackupQuery names a backup.
type BackupQuery struct {
	Site Site   `json:"site"`
	Name string `json:"name"`
}

// Report is one write of what the worker owns. What it does not mention stays.
type Report struct {
	Site       Site   `json:"site"`
	WorkflowID string `json:"workflowID,omitempty"`
	RunID      string `json:"runID,omitempty"`
	Phase      Phase  `json:"phase,omitempty"`
	Message    string `json:"message,omitempty"`
	// Started sets status.run.startedAt; Finished sets finishedAt and the condition Updating to False.
	Started  bool `json:"started,omitempty"`
	Finished bool `json:"finished,omitempty"`
	// Releases replaces status.release unless nil.
	Releases *Releases   `json:"releases,omitempty"`
	Set      []Condition `json:"set,omitempty"`
	Remove   []string    `json:"remove,omitempty"`
	// Unjudged is the release that a run tried and leaves without a verdict. What the resource says of its failure is of
	// another time, as of a run that was reset, and is taken away, unless a person is needed. Empty where there is a verdict.
	Unjudged      string  `json:"unjudged,omitempty"`
	InProgress    Mark    `json:"inProgress,omitempty"`
	ObservedRetry *string `json:"observedRetry,omitempty"`
	// Operation replaces status.run.operation unless nil; the empty string clears it.
	Operation *string `json:"operation,omitempty"`
	// Unsecured goes with Operation: it takes no backup.
	Unsecured bool `json:"unsecured,omitempty"`
	// Restoring goes with Operation: the backup that it puts back because a person asked for it.
	Restoring string `json:"restoring,omitempty"`
	// Journal goes with Restoring: the base name of the operation's notes, and of its safety backup.
	Journal string  `json:"journal,omitempty"`
	Backup  *Backup `json:"backup,omitempty"`
	// Lift goes with Operation, where that is cleared: the operation whose journal tells what maintenance mode was, until it is
	// put back. Without it the resource's own is cleared.
	Lift string `json:"lift,omitempty"`
	// Step and Maintenance are those of the OperationResult that the report settles; empty where it settles none.
	Step string `json:"step,omitempty"`
	// Known is the operation that the run knows to be open, empty if none. Where the resource names another one, the report
	// is refused with FailureOperationOpen; nil is not compared.
	Known *string `json:"known,omitempty"`
	// KnownRuns are the runs that the newest record on the resource may be of: this one, and the last that it saw there. Where
	// it is of another one, the report is refused as well; without any it is not compared.
	KnownRuns   []string `json:"knownRuns,omitempty"`
	Maintenance string   `json:"maintenance,omitempty"`
	Event       *Event   `json:"event,omitempty"`
	// Blind says that the run could not look at the site: the record of one that is half way stays, so that the next run goes on
	// with what that says.
	Blind bool `json:"blind,omitempty"`
	// OnlyIdle skips the write when the annotation updateInProgress is set: a check never overrules a run.
	OnlyIdle bool `json:"onlyIdle,omitempty"`
}

// Mark is what happens to the annotation updateInProgress.
type Mark string

const (
	// MarkKeep leaves the annotation alone.
	MarkKeep Mark = ""
	// MarkSet sets it to "true".
	MarkSet Mark = "Set"
	// MarkClear removes it.
	MarkClear Mark = "Clear"
)

// Condition is a condition to set. Message is a full sentence for the site's owner, without time stamps, pod names or counters.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Event is a Kubernetes Event, recorded once.
type Event struct {
	Warning bool   `json:"warning,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Change sets a release. UID is the Deployment that the run started with, empty where any will do; the result carries the UID and generation that were written.
type Change struct {
	Site       Site   `json:"site"`
	Release    string `json:"release"`
	UID        string `json:"uid,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	// Replaced is set in the result when the Deployment has another UID than asked for; nothing was written then.
	Replaced bool `json:"replaced,omitempty"`
	// Known and KnownRuns are as in Report.
	Known     *string  `json:"known,omitempty"`
	KnownRuns []string `json:"knownRuns,omitempty"`
}

// RolloutWait asks for the end of a rollout.
type RolloutWait struct {
	Change   Change    `json:"change"`
	Deadline time.Time `json:"deadline"`
	// AllowNotReady is content with running containers: maintenance mode may fail the readiness probe.
	AllowNotReady bool `json:"allowNotReady,omitempty"`
}

// RolloutState is how a rollout ended.
type RolloutState string

const (
	// RolloutComplete: every pod is of the release, and available.
	RolloutComplete RolloutState = "Complete"
	// RolloutFailed: it will not complete; Reason and Message say why.
	RolloutFailed RolloutState = "Failed"
	// RolloutSuspended: the Deployment was scaled to zero or paused.
	RolloutSuspended RolloutState = "Suspended"
	// RolloutReplaced: the Deployment was deleted or replaced.
	RolloutReplaced RolloutState = "Replaced"
	// RolloutOverruled: somebody else keeps setting another image.
	RolloutOverruled RolloutState = "Overruled"
)

// Rollout is the result of WaitRollout.
type Rollout struct {
	State   RolloutState `json:"state"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
}

// Question is a short command in a Running pod of a release.
type Question struct {
	Site    Site   `json:"site"`
	Release string `json:"release,omitempty"`
	// AllowNotReady accepts a Running pod that is not Ready: maintenance mode may fail its probe.
	AllowNotReady bool `json:"allowNotReady,omitempty"`
}

// Answer is what a question said.
type Answer struct {
	Outcome Outcome `json:"outcome"`
	// Reason is a condition reason for an outcome other than Succeeded.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Output is the last line of output, for people.
	Output string `json:"output,omitempty"`
}

// PendingState is the answer to updatedb:status. The zero value is Unknown.
type PendingState string

const (
	// PendingUnknown: Drush could not be asked, or its answer is no proof.
	PendingUnknown PendingState = ""
	// PendingNone: it is proven that nothing is pending.
	PendingNone PendingState = "None"
	// PendingSome: Drush lists updates.
	PendingSome PendingState = "Some"
	// PendingAhead: the database has had updates that the code does not know, which Updates names.
	PendingAhead PendingState = "Ahead"
)

// Pending is the result of PendingUpdates.
type Pending struct {
	State PendingState `json:"state"`
	// Updates are the names of the updates, sorted, 50 at most; Count counts all.
	Updates []string `json:"updates,omitempty"`
	Count   int      `json:"count,omitempty"`
	Message string   `json:"message,omitempty"`
}

// InstallState is the answer to CheckInstalled. The zero value is Unknown.
type InstallState string

const (
	// InstallUnknown: there is no proof either way.
	InstallUnknown InstallState = ""
	// InstallDone: Drupal is installed.
	InstallDone InstallState = "Installed"
	// InstallEmpty: it is proven that the database is empty.
	InstallEmpty InstallState = "Empty"
	// InstallHalf: an installation was begun and not finished.
	InstallHalf InstallState = "HalfInstalled"
)

// Installed is the result of CheckInstalled.
type Installed struct {
	State   InstallState `json:"state"`
	Message string       `json:"message,omitempty"`
}

// Steps of an operation that decide what follows; the script has more.
const (
	// StepParameters: the operation was refused before it did anything.
	StepParameters = "parameters"
	// StepAlreadyStarted: updatedb was started before, and how it ended is not told.
	StepAlreadyStarted = "already-started"
	// StepBackup: the backup was to be made; after it the database is touched.
	StepBackup = "backup"
	// StepNothingToRestore: the backup volume holds no note that updatedb began.
	StepNothingToRestore = "nothing-to-restore"
	// StepNothingRecorded: the backup volume holds no note of the maintenance flag.
	StepNothingRecorded = "nothing-recorded"
	// StepPreflight: the database could not be asked, and nothing was done.
	StepPreflight = "preflight"
	// StepMaintenance: maintenance mode could not be switched on.
	StepMaintenance = "maintenance"
	// StepRestore: the backup could not be put back as a whole.
	StepRestore = "restore"
	// StepVerify: the database could not be shown to be whole afterwards.
	StepVerify = "verify"
	// StepLift: maintenance mode could not be put back.
	StepLift = "lift"
	// StepTooLate: the database update was proven complete and the site was, or was about to be, opened again: its backup is history.
	StepTooLate = "too-late"
)

// OperationKind is what an operation does.
type OperationKind string

const (
	// OperationUpdate: maintenance mode on, backup, updatedb, verify, cache rebuild, maintenance mode as it was.
	OperationUpdate OperationKind = "update"
	// OperationRestore: drop and restore the verified backup; maintenance mode stays on.
	OperationRestore OperationKind = "restore"
	// OperationLift: put the recorded maintenance flag back.
	OperationLift OperationKind = "lift"
	// OperationInstall: site:install in a database that is proven empty.
	OperationInstall OperationKind = "install"
	// OperationPreflight: ask Drush whether it bootstraps and which updates are pending. It changes nothing, and has no backup volume.
	OperationPreflight OperationKind = "preflight"
	// OperationBackup: a backup beside the running site.
	OperationBackup OperationKind = "backup"
	// OperationRewind: maintenance mode on, a safety backup, drop, and put the backup Source back; maintenance mode stays on.
	OperationRewind OperationKind = "rewind"
)

// Operation is remote work that must happen once. RunID, Kind and Attempt name its Job, so asking twice is asking once.
type Operation struct {
	Site  Site          `json:"site"`
	Kind  OperationKind `json:"kind"`
	RunID string        `json:"runID"`
	// Release is the release whose image the Job runs; From the release that a backup belongs to.
	Release string `json:"release"`
	From    string `json:"from,omitempty"`
	// BackupName is the base name of the backup on its volume.
	BackupName string `json:"backupName,omitempty"`
	Profile    string `json:"profile,omitempty"`
	// Timeout limits the operation's work.
	Timeout time.Duration `json:"timeout"`
	// Unsecured is set for a site without backups: the journal then lives no longer than the Job's pod.
	Unsecured bool `json:"unsecured,omitempty"`
	// Source is the backup that a rewind puts back, and NoSafetyBackup leaves out the backup before it.
	Source         string `json:"source,omitempty"`
	NoSafetyBackup bool   `json:"noSafetyBackup,omitempty"`
	// Held says that a failed operation left the site in maintenance mode: its record, and not the flag, tells how the site was.
	Held bool `json:"held,omitempty"`
	// Scheduled backups are kept apart from the others.
	Scheduled bool `json:"scheduled,omitempty"`
	// Attempt is above 1 where the Jobs of earlier attempts vanished, and the operation is one that may be repeated.
	Attempt int `json:"attempt,omitempty"`
	// MustExist forbids creating the Job: one that vanished is then Unknown.
	MustExist bool `json:"mustExist,omitempty"`
}

// OperationResult is an operation's verdict.
type OperationResult struct {
	Outcome Outcome `json:"outcome"`
	// Step is the last step that the script was in.
	Step string `json:"step,omitempty"`
	// Touched is false only when it is proven that the database is as it was.
	Touched bool `json:"touched,omitempty"`
	// Maintenance is the flag as last read: "0", "1" or empty for unknown.
	Maintenance string `json:"maintenance,omitempty"`
	// Recorded is what the flag was before the operation switched maintenance mode on; empty where it did not come so far.
	Recorded string  `json:"recorded,omitempty"`
	Backup   *Backup `json:"backup,omitempty"`
	Message  string  `json:"message,omitempty"`
	Job      string  `json:"job,omitempty"`
	// Pending is the number of updates that a preflight found, or that are known to be left after an update; 0 also where it is not known.
	Pending int `json:"pending,omitempty"`
}

// Backup is a verified backup.
type Backup struct {
	Name    string    `json:"name"`
	Release string    `json:"release,omitempty"`
	Origin  string    `json:"origin,omitempty"`
	TakenAt time.Time `json:"takenAt"`
	Bytes   int64     `json:"bytes"`
	SHA256  string    `json:"sha256"`
}
