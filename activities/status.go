package activities

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/sitejob"
	"github.com/drupdate/drupdate/internal/update"
)

// mostBackups is the limit of the CRD.
const mostBackups = 120

// workerConditions are the condition types that the worker owns.
var workerConditions = []string{
	v1alpha1.ConditionInitialized, v1alpha1.ConditionUpdating, v1alpha1.ConditionCodeUpdateFailed,
	v1alpha1.ConditionDBUpdatesPending, v1alpha1.ConditionDBUpdatesFailed, v1alpha1.ConditionBackupFailed,
}

// ownedStatus is the worker's share of status. Each apply carries all of it: what is left out is removed.
type ownedStatus struct {
	Release       *v1alpha1.ReleaseStatus `json:"release,omitempty"`
	Run           *v1alpha1.RunStatus     `json:"run,omitempty"`
	ObservedRetry string                  `json:"observedRetry,omitempty"`
	Backups       []ownedBackup           `json:"backups,omitempty"`
	Conditions    []metav1.Condition      `json:"conditions,omitempty"`
}

// ownedBackup is BackupStatus, without a time that is null when it is zero: the schema does not take null.
type ownedBackup struct {
	Name    string                `json:"name"`
	Release string                `json:"release,omitempty"`
	Origin  v1alpha1.BackupOrigin `json:"origin,omitempty"`
	TakenAt *metav1.Time          `json:"takenAt,omitempty"`
	Bytes   int64                 `json:"bytes,omitempty"`
	SHA256  string                `json:"sha256,omitempty"`
}

// owned copies the worker's share of a site's status.
func owned(site *v1alpha1.DrupalSite) ownedStatus {
	s := ownedStatus{ObservedRetry: site.Status.ObservedRetry}
	if site.Status.Release != (v1alpha1.ReleaseStatus{}) {
		release := site.Status.Release
		s.Release = &release
	}
	s.Run = site.Status.Run.DeepCopy()
	for _, b := range site.Status.Backups {
		s.Backups = append(s.Backups, backup(b))
	}
	for _, c := range site.Status.Conditions {
		if slices.Contains(workerConditions, c.Type) {
			s.Conditions = append(s.Conditions, c)
		}
	}
	s.sort()
	return s
}

// sort gives the conditions one order, so that equal states are equal.
func (s *ownedStatus) sort() {
	slices.SortFunc(s.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}

// overwrite puts the worker's share into a site's status and leaves the rest of it.
func (s *ownedStatus) overwrite(site *v1alpha1.DrupalSite) {
	site.Status.Release = v1alpha1.ReleaseStatus{}
	if s.Release != nil {
		site.Status.Release = *s.Release
	}
	site.Status.Run, site.Status.ObservedRetry = s.Run.DeepCopy(), s.ObservedRetry
	site.Status.Backups = nil
	for _, b := range s.Backups {
		site.Status.Backups = append(site.Status.Backups, v1alpha1.BackupStatus{
			Name: b.Name, Release: b.Release, Origin: b.Origin, TakenAt: metav1.NewTime(b.time()), Bytes: b.Bytes, SHA256: b.SHA256,
		})
	}
	others := slices.DeleteFunc(slices.Clone(site.Status.Conditions), func(c metav1.Condition) bool {
		return slices.Contains(workerConditions, c.Type)
	})
	site.Status.Conditions = append(others, s.Conditions...)
}

func backup(from v1alpha1.BackupStatus) ownedBackup {
	b := ownedBackup{Name: from.Name, Release: from.Release, Origin: from.Origin, Bytes: from.Bytes, SHA256: from.SHA256}
	if !from.TakenAt.IsZero() {
		b.TakenAt = stamp(from.TakenAt.Time)
	}
	return b
}

// stamp is a time as the API server stores it: whole seconds.
func stamp(t time.Time) *metav1.Time {
	rounded := metav1.NewTime(t.Truncate(time.Second))
	return &rounded
}

// change makes a report part of the worker's share of status.
func change(s *ownedStatus, r update.Report, site *v1alpha1.DrupalSite, now time.Time) {
	if r.Releases != nil {
		release := v1alpha1.ReleaseStatus(*r.Releases)
		s.Release = &release
		if release == (v1alpha1.ReleaseStatus{}) {
			s.Release = nil
		}
	}
	if r.ObservedRetry != nil {
		s.ObservedRetry = *r.ObservedRetry
	}
	changeRun(s, r, now)
	for _, c := range conditionsOf(r) {
		s.set(c, site.Generation, now)
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool { return slices.Contains(r.Remove, c.Type) })
	s.reopen(r.Unjudged)
	if r.Backup != nil {
		s.addBackup(*r.Backup, backupsKept(site, r.Backup.Origin == string(v1alpha1.BackupOfSchedule)))
	}
	s.sort()
}

// reopen forgets the failure of a release, so that it is tried again, unless a person has to act first.
func (s *ownedStatus) reopen(release string) {
	if release == "" || s.Release == nil || s.Release.Failed != release {
		return
	}
	if update.NeedsPerson(s.reason(v1alpha1.ConditionCodeUpdateFailed), s.reason(v1alpha1.ConditionDBUpdatesFailed)) {
		return
	}
	s.Release.Failed = ""
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionCodeUpdateFailed || c.Type == v1alpha1.ConditionDBUpdatesFailed
	})
}

// reason is that of a condition that holds, or may hold.
func (s *ownedStatus) reason(kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind && c.Status != metav1.ConditionFalse {
			return c.Reason
		}
	}
	return ""
}

// changeRun writes the newest run. A run that is new to the resource begins with an empty record, but for an operation
// of a lost run that nobody has settled yet.
func changeRun(s *ownedStatus, r update.Report, now time.Time) {
	if r.RunID == "" && r.Phase == "" && r.Operation == nil {
		return
	}
	if s.Run == nil {
		s.Run = &v1alpha1.RunStatus{}
	}
	if r.RunID != "" && s.Run.RunID != r.RunID {
		s.Run = takeOver(s.Run, r.RunID)
	}
	if r.WorkflowID != "" {
		s.Run.WorkflowID = r.WorkflowID
	}
	if r.Phase != "" {
		stampPhase(s.Run, r.Phase, now)
		s.Run.Phase, s.Run.Message = string(r.Phase), clean(r.Message)
	}
	if r.Operation != nil {
		changeOperation(s.Run, r)
	}
	stampRun(s.Run, r, now)
	stampMaintenance(s.Run, r, now)
}

// changeOperation writes the unsettled operation, and what goes with it.
func changeOperation(run *v1alpha1.RunStatus, r update.Report) {
	run.Operation, run.Unsecured, run.Restoring, run.Journal, run.Lift = *r.Operation, r.Unsecured, r.Restoring, r.Journal, r.Lift
	if run.Operation == "" {
		run.Unsecured, run.Restoring, run.Journal = false, "", ""
	}
}

// takeOver is the record of a run that follows another.
func takeOver(before *v1alpha1.RunStatus, runID string) *v1alpha1.RunStatus {
	if before.Operation == "" {
		return &v1alpha1.RunStatus{RunID: runID}
	}
	return &v1alpha1.RunStatus{
		RunID: runID, Operation: before.Operation, Unsecured: before.Unsecured, Restoring: before.Restoring, Journal: before.Journal,
		MaintenanceSince: before.MaintenanceSince,
	}
}

// stampPhase writes since when a phase holds.
func stampPhase(run *v1alpha1.RunStatus, phase update.Phase, now time.Time) {
	if run.Phase != string(phase) || run.PhaseStartedAt == nil {
		run.PhaseStartedAt = stamp(now)
	}
}

// stampRun writes when a run started and finished. The first report of either counts; a run that goes on to another
// target after an end starts again.
func stampRun(run *v1alpha1.RunStatus, r update.Report, now time.Time) {
	if r.Started && (run.StartedAt == nil || run.FinishedAt != nil) {
		run.StartedAt = stamp(now)
	}
	switch {
	case r.Finished && run.FinishedAt == nil:
		run.FinishedAt = stamp(now)
	case r.Phase != "" && !r.Finished:
		run.FinishedAt = nil // The run goes on to another target.
	}
}

// stampMaintenance writes since when an operation may hold the site in maintenance mode.
func stampMaintenance(run *v1alpha1.RunStatus, r update.Report, now time.Time) {
	switch {
	case maintenanceOver(r):
		run.MaintenanceSince = nil
	case r.Operation != nil && *r.Operation != "" && run.MaintenanceSince == nil:
		run.MaintenanceSince = stamp(now)
	}
}

// maintenanceOver tells whether a report says that the run holds the site in maintenance mode no longer: the operation
// put the flag back, or the run ended and did not leave the site to a person.
func maintenanceOver(r update.Report) bool {
	if r.Maintenance == sitejob.FlagOff || r.Phase == update.PhaseVerifying {
		return true
	}
	return r.Finished && r.Phase != update.PhaseFrozen && r.Phase != update.PhaseRestoreFailed
}

// conditionsOf are the conditions that a report sets. The phase of a run makes Updating, unless the report names it.
func conditionsOf(r update.Report) []update.Condition {
	named := slices.ContainsFunc(r.Set, func(c update.Condition) bool { return c.Type == v1alpha1.ConditionUpdating })
	if named || (r.Phase == "" && !r.Finished) {
		return r.Set
	}
	updating := update.Condition{Type: v1alpha1.ConditionUpdating, Status: update.True, Reason: string(r.Phase), Message: r.Message}
	if r.Finished {
		updating.Status = update.False
	}
	if updating.Reason == "" {
		updating.Reason = v1alpha1.ReasonIdle
	}
	return append([]update.Condition{updating}, r.Set...)
}

// set sets a condition; its time of transition stays unless its status changes.
func (s *ownedStatus) set(c update.Condition, generation int64, now time.Time) {
	next := metav1.Condition{
		Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: clean(c.Message),
		ObservedGeneration: generation, LastTransitionTime: *stamp(now),
	}
	for i, old := range s.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == next.Status {
			next.LastTransitionTime = old.LastTransitionTime
		}
		s.Conditions[i] = next
		return
	}
	s.Conditions = append(s.Conditions, next)
}

// backupsKept is how many finished backups the volume keeps, of scheduled ones or of the others; a resource that was written
// before the default has none.
func backupsKept(site *v1alpha1.DrupalSite, scheduled bool) int {
	keep := int(site.Spec.Update.Backup.Keep)
	if scheduled {
		keep = 7
		if b := site.Spec.Backups; b != nil && b.Keep > 0 {
			keep = int(b.Keep)
		}
	}
	if keep > 0 {
		return keep
	}
	return 3
}

// addBackup lists a backup, newest first, and drops those that the volume does not keep any more: of its kind, scheduled or
// not, all but the newest, and those that a failed update or restore refers to.
func (s *ownedStatus) addBackup(b update.Backup, keep int) {
	s.Backups = slices.DeleteFunc(s.Backups, func(old ownedBackup) bool { return old.Name == b.Name })
	s.Backups = append(s.Backups, backup(v1alpha1.BackupStatus{
		Name: b.Name, Release: b.Release, Origin: v1alpha1.BackupOrigin(b.Origin), TakenAt: metav1.NewTime(b.TakenAt), Bytes: b.Bytes, SHA256: b.SHA256,
	}))
	slices.SortStableFunc(s.Backups, func(x, y ownedBackup) int { return y.time().Compare(x.time()) })
	refers := s.failureRefers()
	scheduled := b.Origin == string(v1alpha1.BackupOfSchedule)
	kept, fresh := s.Backups[:0], 0
	for _, old := range s.Backups {
		if (old.Origin == v1alpha1.BackupOfSchedule) != scheduled || refers(old) {
			kept = append(kept, old)
			continue
		}
		if fresh < keep {
			kept, fresh = append(kept, old), fresh+1
		}
	}
	s.Backups = kept[:min(len(kept), mostBackups)]
}

func (b ownedBackup) time() time.Time {
	if b.TakenAt == nil {
		return time.Time{}
	}
	return b.TakenAt.Time
}

// failureRefers tells which backups a failed database update refers to: those that its message names, and those of the
// release to go back to.
func (s *ownedStatus) failureRefers() func(ownedBackup) bool {
	for _, c := range s.Conditions {
		if c.Type == v1alpha1.ConditionDBUpdatesFailed && c.Status == metav1.ConditionTrue {
			return func(b ownedBackup) bool {
				return strings.Contains(c.Message, b.Name) || (s.Release != nil && b.Release != "" && b.Release == s.Release.Failsafe)
			}
		}
	}
	return func(ownedBackup) bool { return false }
}
