package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// annotationSuspendedBefore is, on a CronJob that a database update suspended, what spec.suspend was before.
const annotationSuspendedBefore = "drupdate.dev/suspended-before"

// annotationSuspendedFor is beside it, and names the site: a CronJob that loses its label meanwhile is put back all the same.
const annotationSuspendedFor = "drupdate.dev/suspended-for"

// cronPatience is how long SuspendCron sees Jobs running, that were already, before it gives up.
const cronPatience = 5 * time.Minute

// cronWait is what SuspendCron tells by heartbeat, and remembers by it from one attempt to the next.
type cronWait struct {
	Text string `json:"text"`
	Busy tally  `json:"busy,omitzero"`
}

// SuspendCron suspends the site's labelled CronJobs and waits for their running Jobs. What was set before is recorded
// once: the first write wins, so a second call, or a second run, does not take our own suspension for the admin's.
// FailureCronBusy says that a Job did not end in time; the CronJobs stay suspended until ResumeCron.
func (a *Activities) SuspendCron(ctx context.Context, s update.Site) (update.None, error) {
	wait := cronWait{Text: "suspending CronJobs"}
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &wait) // Unreadable details only make the wait begin anew.
	}
	for n := 0; ; n++ {
		activity.RecordHeartbeat(ctx, wait)
		owners, err := a.suspendAll(ctx, s)
		if err != nil {
			return update.None{}, err
		}
		busy, err := a.runningJobs(ctx, s.Namespace, owners)
		if err != nil || len(busy) == 0 {
			return update.None{}, err
		}
		now := a.clock.Now()
		wait = cronWait{Text: "waiting for Jobs of " + strings.Join(busy, ", "), Busy: wait.Busy.seen(now, now)}
		if wait.Busy.Lasted >= cronPatience {
			return update.None{}, permanent(update.FailureCronBusy, "suspend CronJobs: Jobs of %s did not end within %s",
				strings.Join(busy, ", "), cronPatience)
		}
		if err := a.pause(ctx, backoff(n, time.Second, heartbeatEvery)); err != nil {
			return update.None{}, err
		}
	}
}

// suspendAll suspends the site's CronJobs and returns their names by UID.
func (a *Activities) suspendAll(ctx context.Context, s update.Site) (map[string]string, error) {
	list, err := a.cronJobs(ctx, s)
	if err != nil {
		return nil, err
	}
	owners := make(map[string]string, len(list))
	for i := range list {
		job := &list[i]
		owners[string(job.UID)] = job.Name
		suspend := job.Spec.Suspend != nil && *job.Spec.Suspend
		_, recorded := job.Annotations[annotationSuspendedBefore]
		if recorded && suspend {
			continue
		}
		err := a.editCron(ctx, job, func() {
			if !recorded {
				metav1.SetMetaDataAnnotation(&job.ObjectMeta, annotationSuspendedBefore, fmt.Sprint(suspend))
				metav1.SetMetaDataAnnotation(&job.ObjectMeta, annotationSuspendedFor, s.Name)
			}
			job.Spec.Suspend = new(true)
		})
		if err != nil {
			return nil, err
		}
	}
	return owners, nil
}

// ResumeCron puts the site's CronJobs back as they were. Twice is once; it needs no site, so it also mends what a
// deleted one left.
func (a *Activities) ResumeCron(ctx context.Context, s update.Site) (update.None, error) {
	list, err := a.cronJobs(ctx, s)
	if err != nil {
		return update.None{}, err
	}
	for i := range list {
		job := &list[i]
		before, recorded := job.Annotations[annotationSuspendedBefore]
		if !recorded {
			continue
		}
		err := a.editCron(ctx, job, func() {
			delete(job.Annotations, annotationSuspendedBefore)
			delete(job.Annotations, annotationSuspendedFor)
			job.Spec.Suspend = new(before == "true")
		})
		if err != nil {
			return update.None{}, err
		}
	}
	return update.None{}, nil
}

// cronJobs are the site's CronJobs: those with its label, and those that were suspended for it while they had it.
func (a *Activities) cronJobs(ctx context.Context, s update.Site) ([]batchv1.CronJob, error) {
	if err := a.serves(s); err != nil {
		return nil, err
	}
	var list batchv1.CronJobList
	if err := a.client.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return nil, fmt.Errorf("list CronJobs of %q: %w", s, err)
	}
	return slices.DeleteFunc(list.Items, func(job batchv1.CronJob) bool {
		return job.Labels[v1alpha1.LabelSite] != s.Name && job.Annotations[annotationSuspendedFor] != s.Name
	}), nil
}

// editCron writes one CronJob, guarded by its resource version. One that vanished meanwhile needs nothing.
func (a *Activities) editCron(ctx context.Context, job *batchv1.CronJob, edit func()) error {
	patch := client.MergeFromWithOptions(job.DeepCopy(), client.MergeFromWithOptimisticLock{})
	edit()
	err := client.IgnoreNotFound(a.client.Patch(ctx, job, patch, client.FieldOwner(v1alpha1.ManagerWorker)))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("suspend or resume CronJob %q: %w", job.Name, err)
	}
	return err
}

// runningJobs names the CronJobs, sorted, that still have a Job under way.
func (a *Activities) runningJobs(ctx context.Context, namespace string, owners map[string]string) ([]string, error) {
	if len(owners) == 0 {
		return nil, nil
	}
	var list batchv1.JobList
	if err := a.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Jobs in %q: %w", namespace, err)
	}
	var busy []string
	for i := range list.Items {
		owner := metav1.GetControllerOf(&list.Items[i])
		if owner == nil || ended(&list.Items[i]) {
			continue
		}
		if name, ours := owners[string(owner.UID)]; ours {
			busy = append(busy, name)
		}
	}
	slices.Sort(busy)
	return slices.Compact(busy), nil
}

func ended(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
