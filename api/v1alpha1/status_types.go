package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DrupalSiteStatus is what drupdate observed and did.
type DrupalSiteStatus struct {
	// observedGeneration is the generation that the watcher saw last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// release tells the releases in play.
	// +optional
	Release ReleaseStatus `json:"release,omitempty"`
	// run is the newest run.
	// +optional
	Run *RunStatus `json:"run,omitempty"`
	// observedRetry is the value of the annotation drupdate.dev/retry that the newest run acted on.
	// +optional
	ObservedRetry string `json:"observedRetry,omitempty"`
	// observedAbort is the value of the annotation drupdate.dev/abort that the watcher acted on last, whether or not a run was open.
	// +optional
	ObservedAbort string `json:"observedAbort,omitempty"`
	// observedSchedule is the schedule of backups that Temporal has, as time zone and cron expression; empty without one.
	// +optional
	ObservedSchedule string `json:"observedSchedule,omitempty"`
	// backups are the newest verified backups, newest first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=120
	Backups []BackupStatus `json:"backups,omitempty"`
	// conditions are the site's conditions.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReleaseStatus tells the releases in play.
type ReleaseStatus struct {
	// serving is the release that the Deployment is kept at while no run is open.
	// +optional
	Serving string `json:"serving,omitempty"`
	// failsafe is the last release that was verified on this site: the only one to go back to.
	// +optional
	Failsafe string `json:"failsafe,omitempty"`
	// target is the release that the newest run moves, or moved, the site to.
	// +optional
	Target string `json:"target,omitempty"`
	// failed is the release whose update failed. It is not tried again until the spec changes or a retry is asked for.
	// +optional
	Failed string `json:"failed,omitempty"`
}

// RunStatus is the newest run that changed the site: of the workflow UpdateSite, or RestoreSite.
type RunStatus struct {
	// workflowID and runID find the run in Temporal.
	// +optional
	WorkflowID string `json:"workflowID,omitempty"`
	// runID is the run's own id.
	// +optional
	RunID string `json:"runID,omitempty"`
	// url is the run's page in Temporal's Web UI, where the worker knows its address (--temporal-ui-url).
	// +optional
	URL string `json:"url,omitempty"`
	// phase is what the run does, or how it ended.
	// +optional
	Phase string `json:"phase,omitempty"`
	// operation is the run whose database operation may have begun and is not settled yet.
	// +optional
	Operation string `json:"operation,omitempty"`
	// restoring is the backup that this operation puts back because a person asked for it; empty for an update's own.
	// +optional
	Restoring string `json:"restoring,omitempty"`
	// journal is the base name of that operation's notes, and of its safety backup, on the backup volume.
	// +optional
	Journal string `json:"journal,omitempty"`
	// lift is the operation that ended before it changed the database, while what it left of maintenance mode is not put back yet.
	// +optional
	Lift string `json:"lift,omitempty"`
	// phaseStartedAt is since when the phase holds.
	// +optional
	PhaseStartedAt *metav1.Time `json:"phaseStartedAt,omitempty"`
	// maintenanceSince is when the database operation was about to begin that may hold the site in maintenance mode;
	// absent while no run does, or has left it there.
	// +optional
	MaintenanceSince *metav1.Time `json:"maintenanceSince,omitempty"`
	// unsecured is set while that operation takes no backup, whatever spec.update.backup.policy says by now.
	// +optional
	Unsecured bool `json:"unsecured,omitempty"`
	// startedAt is when the run began to move the site to its target.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// finishedAt is when it ended; absent while it is open.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// message is one sentence for the site's owner.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// BackupOrigin is what a backup was taken for.
// +kubebuilder:validation:Enum=Update;Restore;Request;Schedule
type BackupOrigin string

const (
	// BackupOfUpdate is taken before a database update.
	BackupOfUpdate BackupOrigin = "Update"
	// BackupOfRestore is taken before another one is put back.
	BackupOfRestore BackupOrigin = "Restore"
	// BackupOfRequest is taken because a person asked for it.
	BackupOfRequest BackupOrigin = "Request"
	// BackupOfSchedule is taken by spec.backups.schedule.
	BackupOfSchedule BackupOrigin = "Schedule"
)

// BackupStatus is one verified backup.
type BackupStatus struct {
	// name is the file's base name on the backup volume.
	Name string `json:"name"`
	// release is the release whose code belongs to the backup.
	// +optional
	Release string `json:"release,omitempty"`
	// origin is what it was taken for.
	// +optional
	Origin BackupOrigin `json:"origin,omitempty"`
	// takenAt is when it was taken.
	// +optional
	TakenAt metav1.Time `json:"takenAt,omitempty"`
	// bytes is its size.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// sha256 is its checksum, in hex.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
}

// WorkloadName is the name of the site's Deployment.
func (s *DrupalSite) WorkloadName() string {
	if s.Spec.Workload.Name != "" {
		return s.Spec.Workload.Name
	}
	return s.Name
}

// SiteContainers are the names of the containers that run the site's image.
func (s *DrupalSite) SiteContainers() []string {
	if len(s.Spec.Workload.Containers) > 0 {
		return s.Spec.Workload.Containers
	}
	return []string{s.Spec.Runtime.Container}
}

// ImageFor is the image reference of a release in the site's repository.
func (s *DrupalSite) ImageFor(release string) string {
	if len(release) > 7 && release[:7] == "sha256:" {
		return s.Spec.Image + "@" + release
	}
	return s.Spec.Image + ":" + release
}

// InProgress tells whether a run is, or was when it was lost, changing the site: the annotation updateInProgress is on it.
func (s *DrupalSite) InProgress() bool {
	return s.Annotations[AnnotationUpdateInProgress] == "true"
}

// RetryAsked tells whether another attempt is asked for that no run has taken up yet.
func (s *DrupalSite) RetryAsked() bool {
	retry := s.Annotations[AnnotationRetry]
	return retry != "" && retry != s.Status.ObservedRetry
}
