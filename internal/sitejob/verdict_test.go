package sitejob

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func job(conditions ...batchv1.JobCondition) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "job"}, Status: batchv1.JobStatus{Conditions: conditions}}
}

func cond(kind batchv1.JobConditionType, reason string) batchv1.JobCondition {
	return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason}
}

func jobPod(owner types.UID, at int64, state corev1.ContainerState) corev1.Pod {
	yes := true
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: metav1.Unix(at, 0),
			OwnerReferences:   []metav1.OwnerReference{{Kind: "Job", Name: "j", UID: owner, Controller: &yes}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "drupal", State: state}}},
	}
}

func ended(exit int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: message}}
}

const (
	good    = `{"v":1,"operation":"update","ok":true,"step":"done","touched":true,"note":"fine"}`
	bad     = `{"v":1,"operation":"update","ok":false,"step":"updatedb","touched":true,"error":"boom"}`
	midway  = `{"v":1,"operation":"update","ok":false,"step":"updatedb-running","touched":true}`
	another = `{"v":1,"operation":"update","ok":false,"step":"backup","touched":false,"error":"other"}`
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	live := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pull := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	unschedulable := jobPod("job", 1, corev1.ContainerState{})
	unschedulable.Status.Phase = corev1.PodPending
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
	now := metav1.Unix(1, 0)
	deleting := job()
	deleting.DeletionTimestamp = &now
	restore := job(cond(batchv1.JobComplete, ""))
	restore.Labels = map[string]string{LabelOperation: string(Restore)}
	done, failed := cond(batchv1.JobComplete, ""), cond(batchv1.JobFailed, "BackoffLimitExceeded")
	busy := strings.Replace(bad, `"step":"updatedb"`, `"step":"busy"`, 1)
	counted := job(failed)
	counted.Status.Failed = 2
	cases := []struct {
		name   string
		job    *batchv1.Job
		pods   []corev1.Pod
		state  State
		step   string
		detail string
	}{
		{"the job is gone", nil, []corev1.Pod{jobPod("job", 1, ended(0, good))}, Unknown, "", "the job is gone"},
		{"no pod yet", job(), nil, Running, "", "waiting for a pod"},
		{"it runs", job(), []corev1.Pod{jobPod("job", 1, live)}, Running, "", "running"},
		{"no image", job(), []corev1.Pod{jobPod("job", 1, pull)}, Running, "", "waiting: ImagePullBackOff"},
		{"no node", job(), []corev1.Pod{unschedulable}, Running, "", "waiting: Unschedulable"},
		{"the pod has ended and the job has not noticed", job(), []corev1.Pod{jobPod("job", 1, ended(0, good))}, Running, StepDone, "ending"},
		{"it is being deleted", deleting, []corev1.Pod{jobPod("job", 1, live)}, Unknown, "", "the job is being deleted"},
		{"it did well", job(done), []corev1.Pod{jobPod("job", 1, ended(0, good))}, Succeeded, StepDone, "fine"},
		{"it failed", job(failed), []corev1.Pod{jobPod("job", 1, ended(1, bad))}, Failed, StepUpdatedb, "updatedb: boom"},
		{"complete without a pod", job(done), nil, Unknown, "", "the job has ended and its pod is gone"},
		{"complete without a word", job(done), []corev1.Pod{jobPod("job", 1, ended(0, ""))}, Unknown, "", "the job has ended and its pod left no result"},
		{"failed with a stranger's word", job(failed), []corev1.Pod{jobPod("other", 1, ended(0, good))}, Unknown, "", "the job has ended and its pod is gone"},
		{"over its deadline", job(cond(batchv1.JobFailed, "DeadlineExceeded")), []corev1.Pod{jobPod("job", 1, ended(137, midway))}, Unknown, "updatedb-running", "the job was ended in step updatedb: DeadlineExceeded"},
		{"over its deadline without a word", job(cond(batchv1.JobFailed, "DeadlineExceeded")), []corev1.Pod{jobPod("job", 1, ended(137, "OOM"))}, Unknown, "", "the job has ended and its pod left no result: DeadlineExceeded"},
		{"it says well and ends badly", job(failed), []corev1.Pod{jobPod("job", 1, ended(137, good))}, Unknown, StepDone, "the job says that it did well and ended badly: BackoffLimitExceeded"},
		{"its last word was well, its pod was deleted", job(failed), []corev1.Pod{jobPod("job", 1, ended(0, good))}, Succeeded, StepDone, "fine"},
		{"it says well in a step that is not the last", job(done), []corev1.Pod{jobPod("job", 1, ended(0, strings.Replace(good, "done", "backup", 1)))}, Unknown, StepBackup, "the job says that it did well and ended badly"},
		{"it says well of another operation", restore, []corev1.Pod{jobPod("job", 1, ended(0, good))}, Unknown, "", "the job has ended with the result of another operation"},
		{
			"its own twin holds the lock", job(failed),
			[]corev1.Pod{jobPod("job", 1, ended(1, busy))},
			Unknown, StepBusy,
			"busy: boom; another pod of the job may have begun",
		},
		{
			"one of two pods did nothing", job(failed),
			[]corev1.Pod{jobPod("job", 1, live), jobPod("job", 2, ended(1, another))},
			Unknown, StepBackup,
			"backup: other; another pod of the job may have begun",
		},
		{
			"a pod that was deleted is counted", counted,
			[]corev1.Pod{jobPod("job", 1, ended(1, another))},
			Unknown, StepBackup,
			"backup: other; another pod of the job may have begun",
		},
		{"the only pod did nothing", job(failed), []corev1.Pod{jobPod("job", 1, ended(1, another))}, Failed, StepBackup, "backup: other"},
		{"the newest pod counts", job(failed), []corev1.Pod{jobPod("job", 1, ended(1, another)), jobPod("job", 2, ended(1, bad))}, Failed, StepUpdatedb, "updatedb: boom"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			state, result, detail := Verdict(c.job, c.pods)
			require.Equal(t, c.state.String(), state.String())
			require.Equal(t, c.step, result.Step)
			require.Equal(t, c.detail, detail)
		})
	}
}

func TestParseResult(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"", "null", "{}", "[]", "Error: OOM", `{"v":2,"operation":"update","ok":true,"touched":true,"step":"done"}`,
		`{"v":1,"operation":"update","touched":true,"step":"done"}`, `{"v":1,"operation":"update","ok":false,"step":"backup"}`,
		`{"v":1,"operation":"update","ok":false,"touched":null,"step":"backup"}`, good[:40],
	} {
		_, ok := ParseResult(message)
		require.False(t, ok, message)
	}
	r, ok := ParseResult("{\"v\":1,\"operation\":\"update\",\"ok\":false,\"touched\":false,\"step\":\"backup\",\"error\":\"a\\n b \xff password=x\"}\n")
	require.True(t, ok)
	require.Equal(t, "a b ? password=[redacted]", r.Error)
	require.True(t, r.Final())
}
