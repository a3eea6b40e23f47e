package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/sitejob"
	"github.com/drupdate/drupdate/internal/update"
)

// Pauses between looks at an operation's Job.
const (
	firstJobLook = time.Second
	mostJobLook  = 5 * time.Second
)

// operationBeat is what RunOperation tells by heartbeat, and remembers by it from one attempt to the next.
type operationBeat struct {
	Text string `json:"text"`
	// Seen is set once the Job was there: one that is missing afterwards vanished, and is never made again.
	Seen bool `json:"seen,omitempty"`
}

// RunOperation makes the Job of an operation, or finds the one that an earlier call made, and waits for its verdict.
// Cancelling it leaves the Job alone: what began on a database must not be cut short. A Job that vanished is Unknown.
func (a *Activities) RunOperation(ctx context.Context, o update.Operation) (update.OperationResult, error) {
	site, err := a.site(ctx, o.Site)
	if err != nil {
		return update.OperationResult{}, err
	}
	name := sitejob.Name(site.Name, o.RunID, jobStep(o))
	state := operationBeat{Text: "looking for Job " + name}
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &state) // The journal on the backup volume guards what is lost here.
	}
	for n := 0; ; n++ {
		activity.RecordHeartbeat(ctx, state)
		seen, result, err := a.lookAtJob(ctx, site, o, name, state)
		if err != nil {
			return update.OperationResult{}, err
		}
		if result != nil {
			result.Job = name
			activity.GetLogger(ctx).Info("operation ended", logging.KeyRelease, o.Release, logging.KeyOperation, string(o.Kind),
				logging.KeyJob, name, logging.KeyOutcome, string(result.Outcome), logging.KeyStep, result.Step)
			return *result, nil
		}
		state = seen
		activity.RecordHeartbeat(ctx, state)
		if err := a.pause(ctx, backoff(n, firstJobLook, mostJobLook)); err != nil {
			return update.OperationResult{}, err
		}
	}
}

// jobStep names the Job of an operation among those of its run.
func jobStep(o update.Operation) string {
	if o.Attempt <= 1 {
		return string(o.Kind)
	}
	return fmt.Sprintf("%s-%d", o.Kind, o.Attempt)
}

// lookAtJob looks once. Without a result it goes on.
func (a *Activities) lookAtJob(ctx context.Context, site *v1alpha1.DrupalSite, o update.Operation, name string,
	before operationBeat,
) (operationBeat, *update.OperationResult, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	job := &batchv1.Job{}
	err := a.client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: name}, job)
	switch {
	case apierrors.IsNotFound(err) && (before.Seen || o.MustExist):
		return before, operationResult(o, nil, nil, before.Text), nil
	case apierrors.IsNotFound(err):
		return a.startJob(ctx, site, o, name, before)
	case err != nil:
		return before, nil, fmt.Errorf("read Job %q: %w", name, err)
	}
	var pods corev1.PodList
	err = a.client.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})
	if err != nil {
		return before, nil, fmt.Errorf("list pods of Job %q: %w", name, err)
	}
	if result := operationResult(o, job, pods.Items, before.Text); result != nil {
		return before, result, nil
	}
	text := a.jobText(ctx, job, pods.Items)
	if o.Kind == update.OperationPreflight && a.neverStarts(job, pods.Items) {
		return before, &update.OperationResult{Outcome: update.Failed, Step: sitejob.StepPreflight, Message: text}, nil
	}
	return operationBeat{Text: text, Seen: true}, nil, nil
}

// named refuses to begin what changes a database unless the resource names it as the operation under way: a run that was
// terminated, or reset to a point before it, is behind its site, and another one may have gone on since.
func named(site *v1alpha1.DrupalSite, o update.Operation) error {
	switch o.Kind {
	case update.OperationUpdate, update.OperationRestore, update.OperationRewind:
		if run := site.Status.Run; run != nil && run.Operation != o.RunID {
			return permanent(update.FailureOperationOpen, "the site does not wait for the operation %q any more", o.RunID)
		}
	case update.OperationLift, update.OperationInstall, update.OperationPreflight, update.OperationBackup:
	}
	return nil
}

// startPatience is how long a preflight's pod may be kept from starting: a pull that failed once often heals.
const startPatience = 30 * time.Second

// neverStarts tells whether a preflight's pod waits for something that does not come by itself. That is an answer too: the
// target's pods would wait for the same. The Job is left to its deadline.
func (a *Activities) neverStarts(job *batchv1.Job, pods []corev1.Pod) bool {
	if a.clock.Now().Sub(job.CreationTimestamp.Time) < startPatience {
		return false
	}
	_, _, text := sitejob.Verdict(job, pods)
	reason, waits := strings.CutPrefix(text, "waiting: ")
	return waits && slices.Contains([]string{
		reasonImagePullBackOff, reasonErrImagePull, reasonErrImageNever, reasonInvalidImageName, reasonConfigError, reasonContainerError,
	}, reason)
}

// startJob makes the Job. One that somebody else made meanwhile is as good. A refusal by the API server, before there
// ever was a Job, is proof that the database is as it was, and so a result; but for a denial, which may not last.
func (a *Activities) startJob(ctx context.Context, site *v1alpha1.DrupalSite, o update.Operation, name string,
	before operationBeat,
) (operationBeat, *update.OperationResult, error) {
	job, err := a.buildJob(ctx, site, o, name)
	if err == nil {
		err = a.client.Create(ctx, job, client.FieldOwner(v1alpha1.ManagerWorker))
		if err == nil {
			activity.GetLogger(ctx).Info("operation begins", logging.KeyRelease, o.Release, logging.KeyOperation, string(o.Kind), logging.KeyJob, name)
		}
		if err == nil || apierrors.IsAlreadyExists(err) {
			a.waits(ctx, site, "")
			return operationBeat{Text: "Job " + name + " is made", Seen: true}, nil, nil
		}
		err = fmt.Errorf("create Job %q: %w", name, err)
	}
	if refusedForGood(err) && neverTried(ctx, o) {
		return before, &update.OperationResult{Outcome: update.Failed, Step: sitejob.StepParameters, Message: clean(err.Error())}, nil
	}
	if apierrors.IsForbidden(err) {
		a.waits(ctx, site, clean(err.Error()))
	}
	return before, nil, err
}

// refusedForGood tells whether an error is about the Job itself, which can be made neither now nor later.
func refusedForGood(err error) bool {
	switch failureType(err) {
	case "", update.FailureSiteGone, update.FailureReplaced, update.FailureOperationOpen:
		return false
	}
	return !denied(err)
}

// waitsFor begins the part of the message of Updating that says what an operation waits for.
const waitsFor = " Waiting: "

// waits says in the condition Updating why an operation cannot begin, by a quota or for want of a right, both of which may
// come back; an empty reason takes that away. It is for people to read, and decides nothing: a failure is only logged.
func (a *Activities) waits(ctx context.Context, site *v1alpha1.DrupalSite, why string) {
	c := apimeta.FindStatusCondition(site.Status.Conditions, v1alpha1.ConditionUpdating)
	if c == nil || c.Status != metav1.ConditionTrue {
		return
	}
	message, _, _ := strings.Cut(c.Message, waitsFor)
	if why != "" {
		message += waitsFor + why
	}
	if message = clean(message); message == c.Message {
		return
	}
	s := update.Site{Namespace: site.Namespace, Name: site.Name, UID: string(site.UID)}
	updating := update.Condition{Type: c.Type, Status: update.True, Reason: c.Reason, Message: message}
	if err := a.report(ctx, update.Report{Site: s, Set: []update.Condition{updating}}); err != nil {
		activity.GetLogger(ctx).Warn("what the operation waits for is not recorded", logging.KeyError, clean(err.Error()))
	}
}

// neverTried tells whether this is the first attempt of the run that the operation is named after: nobody can have
// made a Job of it before. An operation's id is its run's, or begins with it.
func neverTried(ctx context.Context, o update.Operation) bool {
	info := activity.GetInfo(ctx)
	return info.Attempt <= 1 && o.Attempt <= 1 && strings.HasPrefix(o.RunID, info.WorkflowExecution.RunID)
}

// jobText says for the heartbeat what the Job does, and for the verdict what it waited for.
func (a *Activities) jobText(ctx context.Context, job *batchv1.Job, pods []corev1.Pod) string {
	_, _, text := sitejob.Verdict(job, pods)
	for i := range pods {
		if pods[i].Status.Phase != corev1.PodPending {
			continue
		}
		if said := a.newestEvent(ctx, &pods[i]); said != "" {
			return clean(text + "; " + said)
		}
	}
	return clean(text)
}

// operationResult is the verdict on a Job, or nil while it runs. The database counts as touched unless the script
// itself, having ended, says that it is not.
func operationResult(o update.Operation, job *batchv1.Job, pods []corev1.Pod, last string) *update.OperationResult {
	state, said, text := sitejob.Verdict(job, pods)
	result := &update.OperationResult{
		Step: said.Step, Touched: true, Message: clean(text), Backup: backupOf(o, said.Backup), Pending: max(said.PendingAfter, 0),
	}
	switch state {
	case sitejob.Running:
		return nil
	case sitejob.Succeeded:
		result.Outcome, result.Touched = update.Succeeded, said.Touched
	case sitejob.Failed:
		result.Outcome, result.Touched = update.Failed, said.Touched || !said.Final()
	case sitejob.Unknown:
		if said.Step == "" && strings.HasPrefix(last, "waiting") {
			result.Message = clean(text + "; it was " + last)
		}
	}
	result.Maintenance, result.Recorded = flag(said.Maintenance), flag(said.Recorded)
	return result
}

// flag is the maintenance flag; empty where it is not known.
func flag(said string) string {
	if said == sitejob.FlagOn || said == sitejob.FlagOff {
		return said
	}
	return ""
}

// backupOf is a finished backup, or nil.
func backupOf(o update.Operation, b sitejob.Backup) *update.Backup {
	if b.Name == "" || b.Bytes <= 0 || b.SHA256 == "" {
		return nil
	}
	taken, _ := time.Parse(time.RFC3339, b.TakenAt) // A time that cannot be read is left out.
	return &update.Backup{Name: b.Name, Release: o.From, Origin: string(originOf(o)), TakenAt: taken, Bytes: b.Bytes, SHA256: b.SHA256}
}

func originOf(o update.Operation) v1alpha1.BackupOrigin {
	switch {
	case o.Kind == update.OperationRewind:
		return v1alpha1.BackupOfRestore
	case o.Scheduled:
		return v1alpha1.BackupOfSchedule
	case o.Kind == update.OperationBackup:
		return v1alpha1.BackupOfRequest
	}
	return v1alpha1.BackupOfUpdate
}

// permanentJob gives what sitejob can build neither now nor later its failure type.
func permanentJob(err error) error {
	if errors.Is(err, sitejob.ErrInvalid) {
		return permanent(update.FailureInvalid, "build Job: %w", err)
	}
	return err
}
