//go:build fault

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/internal/update"
)

// excuse is what a fault may legitimately make of an update that would have succeeded. Whatever only stands still for a
// while or can be looked at again excuses nothing.
type excuse string

const (
	excuseAborted    excuse = "a person gave the update up"
	excuseLostUpdate excuse = "the Job of the database update was lost"
	excuseDatabase   excuse = "the database was down"
	excuseDisk       excuse = "the backup volume was full"
	excuseDeleted    excuse = "the site was deleted"
	excuseRetarget   excuse = "another release was asked for"
)

// errMissed says that there was nothing for the fault to hit.
var errMissed = errors.New("there was nothing to hit")

// fault is one thing that goes wrong. do returns when it is over.
type fault struct {
	name   string
	weight int
	// low and high bound how long it lasts.
	low, high time.Duration
	// moment draws when it happens to a site; false where it cannot. It is nil for a fault of the whole system only.
	moment func(*rand.Rand, plan) (trigger, bool)
	do     func(ctx context.Context, r *round, last time.Duration) error
}

func (f fault) lasts(random *rand.Rand) time.Duration {
	if f.high <= f.low {
		return f.low
	}
	return between(random, f.low, f.high)
}

const (
	ms = time.Millisecond
	s  = time.Second
)

// systemFaults hit everybody, and excuse nothing: they may be drawn for a moment of a site as well as for a wave.
func systemFaults() []fault {
	return []fault{
		{"kill worker", 6, 0, 8 * s, anywhere, system(func(d time.Duration) error { return shared.killDaemon("worker", d) })},
		{"kill watcher", 3, 0, 8 * s, anywhere, system(func(d time.Duration) error { return shared.killDaemon("watcher", d) })},
		{"two workers", 2, 100 * ms, 5 * s, anywhere, system(func(d time.Duration) error { return shared.takeOver(d) })},
		{"pause Temporal", 3, 1 * s, 60 * s, anywhere, exclusive("temporal", func(d time.Duration) error { return freeze("temporal", d) })},
		{"kill Temporal", 4, 0, 15 * s, anywhere, exclusive("temporal", func(d time.Duration) error { return outage("temporal", d) })},
		{"kill API server", 4, 0, 15 * s, anywhere, exclusive("kube-apiserver", func(d time.Duration) error { return outage("kube-apiserver", d) })},
		{"pause API server", 2, 1 * s, 20 * s, anywhere, exclusive("kube-apiserver", func(d time.Duration) error { return freeze("kube-apiserver", d) })},
		{"kill controller-manager", 1, 0, 10 * s, anywhere, exclusive("kube-controller-manager", func(d time.Duration) error { return outage("kube-controller-manager", d) })},
		{"cut streams", 5, 50 * ms, 3 * s, anywhere, system(func(d time.Duration) error { return shared.proxy.cut(d) })},
		{"close streams half way", 4, 3 * s, 8 * s, anywhere, system(func(d time.Duration) error {
			// The handshake takes some 2000 bytes; what follows is the answer.
			return shared.proxy.poison("limit_data", map[string]any{"bytes": 1500 + d.Milliseconds()%3500}, d)
		})},
		{"reset streams", 2, 2 * s, 6 * s, anywhere, system(func(d time.Duration) error {
			return shared.proxy.poison("reset_peer", map[string]any{"timeout": 100 + d.Milliseconds()%1500}, d)
		})},
		{"latency", 2, 5 * s, 20 * s, anywhere, system(func(d time.Duration) error {
			return shared.proxy.poison("latency", map[string]any{"latency": 300, "jitter": 300}, d)
		})},
	}
}

func system(do func(time.Duration) error) func(context.Context, *round, time.Duration) error {
	return func(_ context.Context, _ *round, last time.Duration) error { return do(last) }
}

// outages keeps two faults from stopping and starting one component at the same time.
var outages sync.Map

func exclusive(component string, do func(time.Duration) error) func(context.Context, *round, time.Duration) error {
	return func(_ context.Context, _ *round, last time.Duration) error {
		mutex, _ := outages.LoadOrStore(component, &sync.Mutex{})
		mutex.(*sync.Mutex).Lock()
		defer mutex.(*sync.Mutex).Unlock()
		return do(last)
	}
}

func globalFaults() []fault {
	return append(systemFaults(),
		fault{"drain the node", 4, 1 * s, 5 * s, nil, drain},
		fault{"kill the node", 2, 0, 5 * s, nil, killNode},
	)
}

func localFaults() []fault {
	return append(systemFaults(),
		fault{"delete pod", 5, 0, 0, anywhere, deletePod},
		fault{"evict pods", 4, 0, 0, anywhere, evictPods},
		fault{"delete Job", 4, 0, 0, inOperation, deleteJob},
		fault{"delete Job's pod", 5, 0, 0, inOperation, deleteJobPod},
		fault{"evict Job's pod", 3, 0, 0, inOperation, evictJobPod},
		fault{"delete Deployment", 5, 0, 0, anywhere, deleteDeployment},
		fault{"scale to zero", 2, 2 * s, 8 * s, beforeDatabase, scaleToZero},
		fault{"another target", 4, 0, 0, anywhere, retarget},
		fault{"pause by spec", 1, 2 * s, 10 * s, anywhere, pauseBySpec},
		fault{"cancel", 3, 0, 0, anywhere, cancelRun},
		fault{"abort", 3, 0, 0, anywhere, abortRun},
		fault{"terminate", 5, 0, 0, anywhere, terminateRun},
		fault{"reset", 4, 0, 0, anywhere, resetRun},
		fault{"pause and resume", 3, 1 * s, 10 * s, anywhere, pauseRun},
		fault{"delete site", 2, 0, 0, anywhere, deleteSite},
		fault{"database down", 4, 500 * ms, 8 * s, anywhere, databaseDown},
		fault{"disk full", 4, 500 * ms, 15 * s, inOperation, diskFull},
	)
}

// retried makes a call that may meet an API server that is away.
func retried(ctx context.Context, call func(context.Context) error) error {
	return try(2*time.Minute, func() error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err := call(ctx)
		if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || errors.Is(err, errMissed) {
			return nil
		}
		return err
	})
}

// sitePods are the pods that serve the site, not those of Jobs.
func (r *round) sitePods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := cluster.List(ctx, list, kube.InNamespace(r.ns))
	var pods []corev1.Pod
	for _, p := range list.Items {
		if p.Labels[batchv1.JobNameLabel] == "" && p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	return pods, err
}

// jobs are the Jobs that have not ended, and their pods.
func (r *round) jobs(ctx context.Context) ([]batchv1.Job, []corev1.Pod, error) {
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	if err := errors.Join(cluster.List(ctx, jobs, kube.InNamespace(r.ns)), cluster.List(ctx, pods, kube.InNamespace(r.ns))); err != nil {
		return nil, nil, err
	}
	var open []batchv1.Job
	for _, j := range jobs.Items {
		if !jobOver(&j) {
			open = append(open, j)
		}
	}
	var running []corev1.Pod
	for _, p := range pods.Items {
		if p.Labels[batchv1.JobNameLabel] != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			running = append(running, p)
		}
	}
	return open, running, nil
}

func jobOver(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// lost excuses the round for the Job of an update that was ended; the others are repeated. It is noted before the deed.
func (r *round) lost(operation string) {
	if update.OperationKind(operation) == update.OperationUpdate {
		r.excused(excuseLostUpdate)
	}
}

const labelOperation = "drupdate.dev/operation"

func deletePod(ctx context.Context, r *round, _ time.Duration) error {
	return hit(ctx, func(ctx context.Context) (bool, error) {
		pods, err := r.sitePods(ctx)
		if err != nil || len(pods) == 0 {
			return false, err
		}
		return true, cluster.Delete(ctx, &pods[0], kube.GracePeriodSeconds(int64(r.index%2)*5))
	})
}

// hit retries a deed while the API server is away. Nothing to hit is errMissed.
func hit(ctx context.Context, do func(context.Context) (bool, error)) error {
	found := false
	err := retried(ctx, func(ctx context.Context) error {
		f, err := do(ctx)
		found = found || f
		return err
	})
	if err == nil && !found {
		return errMissed
	}
	return err
}

// hitSoon is hit for what may not be there yet.
func hitSoon(ctx context.Context, do func(context.Context) (bool, error)) error {
	return try(4*time.Second, func() error { return hit(ctx, do) })
}

func evict(ctx context.Context, p *corev1.Pod) error {
	err := cluster.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func evictPods(ctx context.Context, r *round, _ time.Duration) error {
	return hit(ctx, func(ctx context.Context) (bool, error) {
		pods, err := r.sitePods(ctx)
		for i := range pods {
			err = errors.Join(err, evict(ctx, &pods[i]))
		}
		return len(pods) > 0, err
	})
}

func deleteJob(ctx context.Context, r *round, _ time.Duration) error {
	return hitSoon(ctx, func(ctx context.Context) (bool, error) {
		jobs, _, err := r.jobs(ctx)
		if err != nil || len(jobs) == 0 {
			return false, err
		}
		r.lost(jobs[0].Labels[labelOperation])
		return true, cluster.Delete(ctx, &jobs[0], kube.PropagationPolicy(metav1.DeletePropagationBackground))
	})
}

func jobPod(deed func(ctx context.Context, p *corev1.Pod) error) func(context.Context, *round, time.Duration) error {
	return func(ctx context.Context, r *round, _ time.Duration) error {
		return hitSoon(ctx, func(ctx context.Context) (bool, error) {
			_, pods, err := r.jobs(ctx)
			if err != nil || len(pods) == 0 {
				return false, err
			}
			r.lost(pods[0].Labels[labelOperation])
			return true, deed(ctx, &pods[0])
		})
	}
}

func deleteJobPod(ctx context.Context, r *round, last time.Duration) error {
	return jobPod(func(ctx context.Context, p *corev1.Pod) error {
		return cluster.Delete(ctx, p, kube.GracePeriodSeconds(int64(r.index%2)*15))
	})(ctx, r, last)
}

func evictJobPod(ctx context.Context, r *round, last time.Duration) error {
	return jobPod(evict)(ctx, r, last)
}

func deleteDeployment(ctx context.Context, r *round, _ time.Duration) error {
	return hit(ctx, func(ctx context.Context) (bool, error) {
		err := cluster.Delete(ctx, &appsv1.Deployment{ObjectMeta: r.meta()})
		return !apierrors.IsNotFound(err), kube.IgnoreNotFound(err)
	})
}

func scaleToZero(ctx context.Context, r *round, last time.Duration) error {
	scale := func(n int32) error {
		return retried(ctx, func(ctx context.Context) error {
			return cluster.Patch(ctx, &appsv1.Deployment{ObjectMeta: r.meta()}, merge(`{"spec":{"replicas":%d}}`, n))
		})
	}
	if err := scale(0); err != nil {
		return err
	}
	pause(last)
	return scale(r.replicas)
}

func merge(format string, args ...any) kube.Patch {
	return kube.RawPatch("application/merge-patch+json", fmt.Appendf(nil, format, args...))
}

func retarget(ctx context.Context, r *round, _ time.Duration) error {
	r.excused(excuseRetarget)
	return r.want(ctx, followUp())
}

func pauseBySpec(ctx context.Context, r *round, last time.Duration) error {
	set := func(on bool) error {
		return retried(ctx, func(ctx context.Context) error {
			return cluster.Patch(ctx, r.object(), merge(`{"spec":{"update":{"paused":%t}}}`, on))
		})
	}
	if err := set(true); err != nil {
		return err
	}
	pause(last)
	return set(false)
}

// request makes a request of Temporal that may be away. A run that is not open is errMissed.
func (r *round) request(ctx context.Context, call func(context.Context) error) error {
	missed := false
	err := try(2*time.Minute, func() error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err := call(ctx)
		if noRun(err) {
			missed = true
			return nil
		}
		return err
	})
	if err == nil && missed {
		return errMissed
	}
	return err
}

func cancelRun(ctx context.Context, r *round, _ time.Duration) error {
	r.excused(excuseAborted)
	return r.request(ctx, func(ctx context.Context) error { return temporal.CancelWorkflow(ctx, r.workflow(), "") })
}

func abortRun(ctx context.Context, r *round, _ time.Duration) error {
	r.excused(excuseAborted)
	return r.request(ctx, func(ctx context.Context) error {
		return temporal.SignalWorkflow(ctx, r.workflow(), "", update.SignalAbort, nil)
	})
}

func terminateRun(ctx context.Context, r *round, _ time.Duration) error {
	return r.request(ctx, func(ctx context.Context) error {
		return temporal.TerminateWorkflow(ctx, r.workflow(), "", "fault suite")
	})
}

func pauseRun(ctx context.Context, r *round, last time.Duration) error {
	err := r.request(ctx, func(ctx context.Context) error {
		return temporal.SignalWorkflow(ctx, r.workflow(), "", update.SignalPause, nil)
	})
	if err != nil {
		return err
	}
	pause(last)
	err = r.request(ctx, func(ctx context.Context) error {
		return temporal.SignalWorkflow(ctx, r.workflow(), "", update.SignalResume, nil)
	})
	if errors.Is(err, errMissed) {
		return nil // it has ended meanwhile
	}
	return err
}

// resetRun takes an open run back to the end of one of its workflow tasks: the newest, or the first.
func resetRun(ctx context.Context, r *round, _ time.Duration) error {
	return r.request(ctx, func(ctx context.Context) error {
		described, err := temporal.DescribeWorkflow(ctx, r.workflow(), "")
		if err != nil {
			return err
		}
		if described.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return errNoRun
		}
		run := described.WorkflowExecution.RunID
		events := temporal.GetWorkflowHistory(ctx, r.workflow(), run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		var tasks []int64
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				return err
			}
			if event.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
				tasks = append(tasks, event.EventId)
			}
		}
		if len(tasks) == 0 {
			return errNoRun
		}
		_, err = temporal.WorkflowService().ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
			Namespace:         "default",
			WorkflowExecution: &common.WorkflowExecution{WorkflowId: r.workflow(), RunId: run},
			Reason:            "fault suite", RequestId: fmt.Sprintf("%s-%d", run, len(tasks)),
			WorkflowTaskFinishEventId: tasks[(len(tasks)-1)*(r.index%3)/2],
		})
		return err
	})
}

func deleteSite(ctx context.Context, r *round, _ time.Duration) error {
	r.excused(excuseDeleted)
	return retried(ctx, func(ctx context.Context) error { return cluster.Delete(ctx, r.object()) })
}

func databaseDown(_ context.Context, r *round, last time.Duration) error {
	r.excused(excuseDatabase)
	if code, said := r.simsite("", "simsite", "db", "down", r.databaseName()); code != 0 {
		return errors.New(said)
	}
	pause(last)
	if code, said := r.simsite("", "simsite", "db", "up", r.databaseName()); code != 0 {
		return errors.New(said)
	}
	return nil
}

// diskSize is what the backup volume of a site holds whose disk is going to be full: plenty for its backups.
const diskSize = "8m"

// smallDisk puts a file system of its own under the backup volume, before anything is on it.
func (r *round) smallDisk(ctx context.Context) error {
	if os.Getuid() != 0 {
		return nil // without root there is no such disk, and the fault is missed
	}
	dir, err := r.volume(r.name + "-backups")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "mode=777,size="+diskSize, "tmpfs", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	r.disk = dir
	return nil
}

// unmount takes the small disk away again. It may hold no backup that is still wanted.
func (r *round) unmount() error {
	if r.disk == "" {
		return nil
	}
	out, err := exec.Command("umount", "-l", r.disk).CombinedOutput()
	if err != nil {
		return fmt.Errorf("umount: %w: %s", err, out)
	}
	r.disk = ""
	return nil
}

func diskFull(_ context.Context, r *round, last time.Duration) error {
	if r.disk == "" {
		return errMissed
	}
	r.excused(excuseDisk)
	ballast := filepath.Join(r.disk, ".ballast")
	file, err := os.Create(ballast)
	if err != nil {
		return err
	}
	defer file.Close()
	block := make([]byte, 4096)
	for {
		if _, err := file.Write(block); err != nil {
			break // full
		}
	}
	pause(last)
	return os.Remove(ballast)
}

// drain cordons the node, evicts every pod of the wave, and uncordons the node after a while.
func drain(ctx context.Context, r *round, last time.Duration) error {
	cordon := func(on bool) error {
		return retried(ctx, func(ctx context.Context) error {
			return cluster.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "local"}}, merge(`{"spec":{"unschedulable":%t}}`, on))
		})
	}
	if err := cordon(true); err != nil {
		return err
	}
	var problems []error
	for _, one := range r.wave.rounds {
		problems = append(problems, retried(ctx, func(ctx context.Context) error {
			_, pods, err := one.jobs(ctx)
			if err != nil {
				return err
			}
			for i := range pods {
				one.lost(pods[i].Labels[labelOperation])
				err = errors.Join(err, evict(ctx, &pods[i]))
			}
			return err
		}))
		if err := evictPods(ctx, one, 0); !errors.Is(err, errMissed) {
			problems = append(problems, err)
		}
	}
	pause(last)
	return errors.Join(append(problems, cordon(false))...)
}

// killNode ends the node's process: its containers end with it, as on a machine that was switched off.
func killNode(ctx context.Context, r *round, last time.Duration) error {
	excuse := func() error {
		var problems []error
		for _, one := range r.wave.rounds {
			problems = append(problems, retried(ctx, func(ctx context.Context) error {
				jobs, _, err := one.jobs(ctx)
				for _, j := range jobs {
					one.lost(j.Labels[labelOperation])
				}
				return err
			}))
		}
		return errors.Join(problems...)
	}
	return exclusive("node", func(d time.Duration) error {
		if err := excuse(); err != nil {
			return err
		}
		if err := stack("kill", "node"); err != nil {
			return err
		}
		err := excuse()
		pause(d)
		return errors.Join(err, stack("start", "node"))
	})(ctx, r, last)
}
