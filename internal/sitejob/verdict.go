package sitejob

import (
	"encoding/json"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drupdate/drupdate/internal/drush"
)

// Steps that a Result may name besides those that are plainly the name of what failed. A step that ends with
// "-running" is the last that a killed script began.
const (
	StepDone             = "done"
	StepAlreadyStarted   = "already-started"    // updatedb was started before under this backup's name
	StepAlreadyRestored  = "already-restored"   // ok: the backup is back already
	StepNothingToRestore = "nothing-to-restore" // ok: updatedb never started
	StepNothingRecorded  = "nothing-recorded"   // ok: no flag was recorded, so there is none to put back
	StepNotRestored      = "not-restored"       // Lift refused: the database is half updated
	StepTooLate          = "too-late"           // Restore refused: the site was open since the backup
	StepNotEmpty         = "not-empty"          // Install refused
	StepBusy             = "busy"               // another script holds the site's lock
	StepParameters       = "parameters"         // the script refused its environment
	StepPreflight        = "preflight"
	StepPending          = "pending" // Preflight: which updates are pending could not be said
	StepMaintenance      = "maintenance"
	StepBackup           = "backup"
	StepUpdatedb         = "updatedb"
	StepUpdatedbUnknown  = "updatedb-unknown" // updatedb ended, and what is left could not be asked
	StepCacheRebuild     = "cache-rebuild"
	StepLift             = "lift" // all is done but the flag could not be put back
	StepRestore          = "restore"
	StepInstall          = "install"
	StepVerify           = "verify"
)

const running = "-running"

// Flag values of a Result.
const (
	FlagOff     = "0"
	FlagOn      = "1"
	FlagUnknown = "unknown"
)

// Result is what the script says about itself in the termination message.
type Result struct {
	Version   int       `json:"v"`
	Operation Operation `json:"operation"`
	// OK says that the operation did all that it should.
	OK bool `json:"ok"`
	// Step is the step that ended the operation, or the one it was last seen in.
	Step string `json:"step"`
	// Touched says that the database may differ from what it was before the update.
	Touched bool `json:"touched"`
	// Maintenance is the flag as it was last read: "0", "1" or "unknown". Recorded is the one from before the update,
	// or empty.
	Maintenance string `json:"maintenance"`
	Recorded    string `json:"recorded"`
	Backup      Backup `json:"backup"`
	// UpdatedbExit is the exit code of updatedb: -1 when it did not end, 124 after the time limit, 143 after a signal.
	UpdatedbExit int `json:"updatedbExit"`
	// PendingAfter is the number of updates left after updatedb, -1 when it is not known.
	PendingAfter int `json:"pendingAfter"`
	// Error is one line, empty when OK. Note is a remark about a success.
	Error string `json:"error"`
	Note  string `json:"note"`
}

// Backup is the backup that the operation made or used. Name is empty when there is none; Bytes is 0 until it is
// finished.
type Backup struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	TakenAt string `json:"takenAt"`
}

// Final says that the script ended by itself. False means that it was killed in the step that it names.
func (r Result) Final() bool { return r.Version == 1 && !strings.HasSuffix(r.Step, running) }

// ParseResult reads a termination message. It is false for anything but a result of this version that says in so many
// words whether all is done and whether the database was touched. Texts are cleaned once more of what looks like a
// secret.
func ParseResult(message string) (Result, bool) {
	var r Result
	var told struct {
		OK      *bool `json:"ok"`
		Touched *bool `json:"touched"`
	}
	raw := []byte(strings.ToValidUTF8(message, "?"))
	if json.Unmarshal(raw, &r) != nil || json.Unmarshal(raw, &told) != nil || told.OK == nil || told.Touched == nil {
		return Result{}, false
	}
	if r.Version != 1 || r.Operation == "" || r.Step == "" {
		return Result{}, false
	}
	r.Error, r.Note = clean(r.Error), clean(r.Note)
	return r, true
}

func clean(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	text = drush.Redact(text)
	if len(text) > drush.MaxMessage {
		text = strings.ToValidUTF8(text[:drush.MaxMessage], "")
	}
	return text
}

// State is the verdict on a Job. The zero value is Unknown.
type State int

// The states of an operation. Unknown is final too: nobody knows what the Job did, and it does nothing any more.
const (
	Unknown State = iota
	Running
	Succeeded
	Failed
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Running:
		return "Running"
	case Succeeded:
		return "Succeeded"
	case Failed:
		return "Failed"
	case Unknown:
	}
	return "Unknown"
}

// Verdict judges a Job by its conditions and by its pod's termination message. Job is nil when it is gone. Pods may
// hold those of other Jobs. The Result is the zero value when the script left none; the text is one line that says
// what the verdict rests on, or what a running Job waits for.
func Verdict(job *batchv1.Job, pods []corev1.Pod) (State, Result, string) {
	if job == nil {
		return Unknown, Result{}, "the job is gone"
	}
	own := podsOf(job, pods)
	failed := condition(job, batchv1.JobFailed)
	if failed != nil || condition(job, batchv1.JobComplete) != nil {
		return verdictOfEnded(job, own, failed)
	}
	result, _, _ := lastWords(own)
	if job.DeletionTimestamp != nil {
		return Unknown, result, "the job is being deleted"
	}
	return Running, result, waiting(own, result)
}

// verdictOfEnded is Verdict for a Job that has ended, by its own pods.
func verdictOfEnded(job *batchv1.Job, own []corev1.Pod, failed *batchv1.JobCondition) (State, Result, string) {
	result, exitCode, told := lastWords(own)
	switch {
	case len(own) == 0:
		return Unknown, Result{}, "the job has ended and its pod is gone"
	case !told:
		return Unknown, Result{}, "the job has ended and its pod left no result" + reason(failed)
	}
	if asked := job.Labels[LabelOperation]; asked != "" && asked != string(result.Operation) {
		return Unknown, Result{}, "the job has ended with the result of another operation" + reason(failed)
	}
	state, detail := judge(result, exitCode, failed)
	if state == Failed && (result.Step == StepBusy || !result.Touched && podsRun(job, own) > 1) {
		return Unknown, result, detail + "; another pod of the job may have begun"
	}
	return state, result, detail
}

// podsRun is how many pods a Job has had. It may start a second one beside the first, after a fault of the API server or
// of its controller: what one of them says it did not do, the other may have done.
func podsRun(job *batchv1.Job, own []corev1.Pod) int {
	s := job.Status
	counted := int(s.Active+s.Failed+s.Succeeded) + int(ptr.Deref(s.Terminating, 0))
	if u := s.UncountedTerminatedPods; u != nil {
		counted += len(u.Failed) + len(u.Succeeded)
	}
	return max(len(own), counted)
}

// wellDone are the steps in which an operation can have ended well.
var wellDone = []string{StepDone, StepAlreadyRestored, StepNothingToRestore, StepNothingRecorded}

// judge weighs the script's last words against how its container and its Job ended.
func judge(r Result, exitCode int32, failed *batchv1.JobCondition) (State, string) {
	switch {
	case !r.Final():
		return Unknown, "the job was ended in step " + strings.TrimSuffix(r.Step, running) + reason(failed)
	case r.OK && exitCode == 0 && slices.Contains(wellDone, r.Step):
		return Succeeded, r.Note
	case r.OK:
		return Unknown, "the job says that it did well and ended badly" + reason(failed)
	}
	if strings.HasPrefix(r.Error, r.Step+" ") {
		return Failed, r.Error
	}
	return Failed, r.Step + ": " + r.Error
}

func condition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func reason(c *batchv1.JobCondition) string {
	if c == nil || c.Reason == "" {
		return ""
	}
	return ": " + c.Reason
}

// podsOf returns the Job's own pods, the newest first.
func podsOf(job *batchv1.Job, pods []corev1.Pod) []corev1.Pod {
	own := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, job) })
	slices.SortFunc(own, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return own
}

// lastWords returns the newest result that a container of the pods left, with its exit code.
func lastWords(pods []corev1.Pod) (Result, int32, bool) {
	for _, p := range pods {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated == nil {
				continue
			}
			if r, ok := ParseResult(s.State.Terminated.Message); ok {
				return r, s.State.Terminated.ExitCode, true
			}
		}
	}
	return Result{}, 0, false
}

// waiting says what a Job that has not ended waits for, without names and numbers.
func waiting(pods []corev1.Pod, r Result) string {
	if r.Step != "" {
		return "ending"
	}
	if len(pods) == 0 {
		return "waiting for a pod"
	}
	if why := blocked(pods[0].Status); why != "" {
		return "waiting: " + why
	}
	if pods[0].Status.Phase == corev1.PodRunning {
		return "running"
	}
	return "starting"
}

// blocked returns the reason why a pod does not start, or nothing when it is on its way.
func blocked(of corev1.PodStatus) string {
	for _, s := range slices.Concat(of.InitContainerStatuses, of.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			return w.Reason
		}
	}
	for _, c := range of.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason
		}
	}
	return ""
}
