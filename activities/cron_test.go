package activities

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func cronJob(name, site string, suspend *bool) *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: name, Labels: map[string]string{v1alpha1.LabelSite: site}}}
	c.UID = types.UID("uid-" + name)
	c.Spec.Suspend = suspend
	return c
}

func (w *world) suspensions() map[string]any {
	w.t.Helper()
	var list batchv1.CronJobList
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	seen := map[string]any{}
	for _, c := range list.Items {
		state := "running"
		if c.Spec.Suspend != nil && *c.Spec.Suspend {
			state = "suspended"
		}
		if before, ok := c.Annotations[annotationSuspendedBefore]; ok {
			state += ", before " + before
		}
		seen[c.Name] = state
	}
	return seen
}

func TestCronJobsAreSuspendedAndPutBackAsTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cronJob("runs", "blog", nil), cronJob("rests", "blog", new(true)), cronJob("other", "shop", new(false)))
	twice(w, update.SuspendCron, blog)
	require.Equal(t, map[string]any{"runs": "suspended, before false", "rests": "suspended, before true", "other": "running"}, w.suspensions())
	twice(w, update.ResumeCron, blog)
	require.Equal(t, map[string]any{"runs": "running", "rests": "suspended", "other": "running"}, w.suspensions())
}

func TestACronJobThatLostItsLabelIsPutBackAllTheSame(t *testing.T) {
	t.Parallel()
	c := cronJob("runs", "blog", nil)
	w := newWorld(t, c)
	twice(w, update.SuspendCron, blog)
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	c.Labels = nil
	require.NoError(t, w.client.Update(t.Context(), c))
	twice(w, update.ResumeCron, update.Site{Namespace: "sites", Name: "shop"})
	require.Equal(t, map[string]any{"runs": "suspended, before false"}, w.suspensions(), "it is not another site's")
	twice(w, update.ResumeCron, blog)
	require.Equal(t, map[string]any{"runs": "running"}, w.suspensions())
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	require.Empty(t, c.Annotations, "nothing of ours is left")
}

func TestACronJobThatSomebodyResumedIsSuspendedAgainAndItsRecordStays(t *testing.T) {
	t.Parallel()
	c := cronJob("runs", "blog", new(false))
	c.Annotations = map[string]string{annotationSuspendedBefore: "true"}
	w := newWorld(t, c)
	twice(w, update.SuspendCron, blog)
	require.Equal(t, map[string]any{"runs": "suspended, before true"}, w.suspensions())
}

func busyJob(c *batchv1.CronJob) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "sites", Name: c.Name + "-1", OwnerReferences: []metav1.OwnerReference{owner("CronJob", c.Name, string(c.UID))},
	}}
}

func TestSuspendCronWaitsForARunningJob(t *testing.T) {
	t.Parallel()
	c := cronJob("runs", "blog", nil)
	job := busyJob(c)
	w := newWorld(t, c, job)
	w.clock.onWait = func(n int) {
		if n == 3 {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			require.NoError(t, w.client.Status().Update(t.Context(), job))
		}
	}
	_, err := do(w, update.SuspendCron, blog)
	require.NoError(t, err)
	require.Equal(t, 3, w.clock.waits)
}

func TestSuspendCronGivesUpOnAJobThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	c := cronJob("runs", "blog", nil)
	w := newWorld(t, c, busyJob(c))
	_, err := do(w, update.SuspendCron, blog)
	requireFailure(t, err, update.FailureCronBusy)
	require.Equal(t, cronPatience, w.clock.now.Sub(noon).Truncate(heartbeatEvery))
}
