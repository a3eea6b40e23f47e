package update

import "fmt"

// Names under which the workflows are registered and started.
const (
	// UpdateSiteWorkflow moves one site to its wanted release.
	UpdateSiteWorkflow = "UpdateSite"
	// CheckSiteWorkflow asks whether a site is installed and which database updates are pending.
	CheckSiteWorkflow = "CheckSite"
	// BackupSiteWorkflow takes one backup. It runs under the id of the site's update, so that neither meets the other.
	BackupSiteWorkflow = "BackupSite"
	// RestoreSiteWorkflow puts one backup back, under the same id.
	RestoreSiteWorkflow = "RestoreSite"
	// ScheduledBackupWorkflow begins a BackupSite when the site's id is free. Its own id is the schedule's, with a time.
	ScheduledBackupWorkflow = "ScheduledBackup"
)

// TaskQueue is the queue that workers poll unless configured otherwise.
const TaskQueue = "drupdate"

// Signals of UpdateSite. They are part of the public contract: operators send them with the temporal command.
const (
	// SignalRetarget carries a Retarget: the wanted release changed, or a retry is asked for.
	SignalRetarget = "retarget"
	// SignalAbort ends the run: before the database step it rolls back, afterwards the operation finishes first. No payload.
	SignalAbort = "abort"
	// SignalPause holds the run between steps until SignalResume. No payload.
	SignalPause = "pause"
	// SignalResume ends SignalPause. No payload.
	SignalResume = "resume"
)

// SignalYield asks a run that only waits, for its window or for spec.update.paused, to end, so that another may begin. A run
// that does anything else goes on. No payload.
const SignalYield = "yield"

// QueryState answers with a Progress.
const QueryState = "state"

// Search attributes, all of type Keyword and all optional.
const (
	// SearchSite is the site's name.
	SearchSite = "DrupalSite"
	// SearchNamespace is the site's namespace.
	SearchNamespace = "DrupalNamespace"
	// SearchTarget is the release that the run moves the site to.
	SearchTarget = "DrupalTarget"
	// SearchPhase is the run's phase.
	SearchPhase = "DrupalPhase"
)

// Site identifies one DrupalSite. UID is empty only where any incarnation will do.
type Site struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// String is "namespace/name".
func (s Site) String() string { return s.Namespace + "/" + s.Name }

// UpdateID is the id of the site's UpdateSite workflow: one open run at most.
func (s Site) UpdateID() string { return "site/" + s.Namespace + "/" + s.Name }

// ScheduleID is the id of the site's schedule in Temporal. It has the UID, so that a site that is made anew has its own.
func (s Site) ScheduleID() string { return "backups/" + s.Namespace + "/" + s.Name + "/" + s.UID }

// ScheduledID is what the ids of the scheduled runs begin with; Temporal adds the time.
func (s Site) ScheduledID() string { return "backup/" + s.Namespace + "/" + s.Name }

// CheckID is the id of the site's CheckSite workflow.
func (s Site) CheckID() string { return "check/" + s.Namespace + "/" + s.Name }

// Request starts UpdateSite. Everything else the run reads from the resource, live.
type Request struct {
	Site Site `json:"site"`
	// Paused says that the run was paused by signal when it went on in a new execution.
	Paused bool `json:"paused,omitempty"`
	// After is what the backup or restore came to that went on as this run; nil for a run that was started.
	After *Done `json:"after,omitempty"`
}

// BackupRequest starts BackupSite, and ScheduledBackup.
type BackupRequest struct {
	Site Site `json:"site"`
	// Scheduled says that the schedule asks, and not a person.
	Scheduled bool `json:"scheduled,omitempty"`
}

// RestoreRequest starts RestoreSite.
type RestoreRequest struct {
	Site Site `json:"site"`
	// Backup is a name of status.backups.
	Backup string `json:"backup"`
	// OtherRelease allows a backup of another release than the one that runs.
	OtherRelease bool `json:"otherRelease,omitempty"`
	// NoSafetyBackup leaves out the backup of what is there.
	NoSafetyBackup bool `json:"noSafetyBackup,omitempty"`
}

// Done is the result of BackupSite and RestoreSite.
type Done struct {
	Outcome Outcome `json:"outcome"`
	// Failure is the type of an outcome other than Succeeded: Refused, BackupFailed, NotRestored or RestoreFailed.
	Failure string `json:"failure,omitempty"`
	// Message is a sentence.
	Message string `json:"message"`
	// Backup is the backup that was taken: what BackupSite is about, and the safety backup of RestoreSite.
	Backup *Backup `json:"backup,omitempty"`
}

// CheckRequest starts CheckSite.
type CheckRequest struct {
	Site Site `json:"site"`
}

// Retarget is the payload of SignalRetarget. It wakes the run, which then reads the resource.
type Retarget struct {
	Release    string `json:"release"`
	Generation int64  `json:"generation,omitempty"`
	Retry      string `json:"retry,omitempty"`
}

// uuidLength is the length of a run id.
const uuidLength = 36

// OperationID names the n-th operation of a run, from 1: one run may pass through the database step again, for a new target.
func OperationID(runID string, n int) string {
	if n <= 1 {
		return runID
	}
	return fmt.Sprintf("%s-%d", runID, n)
}

// BackupName is the base name of the backup that an operation takes: derived, so that taking it twice is taking it once.
func BackupName(site Site, from, operation string) string {
	short := operation
	if len(operation) >= uuidLength {
		short = operation[:8] + operation[uuidLength:]
	}
	if from == "" {
		from = "initial"
	}
	return site.Name + "-" + fileSafe(from) + "-" + short
}

// RequestedBackupName is the base name of the backup that a person or a schedule asks for. Run ids begin with the time, so that those
// of one minute begin alike: the end tells them apart.
func RequestedBackupName(site Site, release, operation string) string {
	name := BackupName(site, release, operation)
	if len(operation) < uuidLength {
		return name
	}
	return name + "-" + operation[uuidLength-6:uuidLength]
}

// fileSafe keeps what tags may hold and shortens digests.
func fileSafe(release string) string {
	out := []byte(release)
	for i, c := range out {
		if c == ':' {
			out[i] = '-'
		}
	}
	if len(out) > 32 {
		out = out[:32]
	}
	return string(out)
}
