package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func waitFor2() update.RolloutWait {
	change := update.Change{Site: blog, Release: "2.0", UID: "deployment-uid", Generation: 3}
	return update.RolloutWait{Change: change, Deadline: noon.Add(10 * time.Minute)}
}

func TestWaitRolloutWaitsUntilOnlyNewPodsAreLeft(t *testing.T) {
	t.Parallel()
	d := testDeployment("2.0")
	old, fresh := testReplicaSet(testDeployment("1.0"), "blog-1", 1), testReplicaSet(d, "blog-2", 2)
	last := testPod(old, "blog-1-a")
	w := newWorld(t, testSite(), d, old, fresh, testPod(fresh, "blog-2-a"), last)
	w.clock.onWait = func(n int) {
		if n == 4 {
			require.NoError(t, w.client.Delete(t.Context(), last))
		}
	}
	rollout, err := do(w, update.WaitRollout, waitFor2())
	require.NoError(t, err)
	require.Equal(t, update.Rollout{State: update.RolloutComplete}, rollout)
	require.Equal(t, 4, w.clock.waits)
	require.Zero(t, w.writes)
	require.Equal(t, update.Rollout{State: update.RolloutComplete}, twice(w, update.WaitRollout, waitFor2()))
}

func TestWaitRolloutSaysAtTheDeadlineWhatHeldThePod(t *testing.T) {
	t.Parallel()
	d := testDeployment("2.0", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
	fresh := testReplicaSet(d, "blog-2", 2)
	pod := testPod(fresh, "blog-2-a", func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}}
	})
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: "e"}, InvolvedObject: corev1.ObjectReference{UID: pod.UID},
		Reason: "FailedAttachVolume", Message: `Multi-Attach error for volume "files"`,
	}
	w := newWorld(t, testSite(), d, fresh, pod, event)
	rollout, err := do(w, update.WaitRollout, waitFor2())
	require.NoError(t, err)
	require.Equal(t, update.Rollout{
		State: update.RolloutFailed, Reason: update.ReasonRolloutTimeout,
		Message: `waited in vain for the pods of 2.0 to be available; FailedAttachVolume: Multi-Attach error for volume "files"`,
	}, rollout)
}

func TestARolloutWaitsInTheOpenForTheClustersOwnControllers(t *testing.T) {
	t.Parallel()
	d := testDeployment("2.0", func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 2 })
	fresh := testReplicaSet(d, "blog-2", 2)
	w := newWorld(t, testSite(), d, fresh, testPod(fresh, "blog-2-a"))
	_, err := do(w, update.WriteReport, update.Report{Site: blog, RunID: "r1", Phase: update.PhaseRollingOut, Message: "Moving to 2.0."})
	require.NoError(t, err)
	updating := func() string {
		return apimeta.FindStatusCondition(w.site().Status.Conditions, v1alpha1.ConditionUpdating).Message
	}
	begun := w.clock.Now()
	w.clock.onWait = func(int) {
		if w.clock.Now().Sub(begun) < time.Hour {
			return
		}
		require.Equal(t, "Moving to 2.0. Waiting: for the Deployment controller to observe the change; the cluster's controllers may be down.", updating())
		late := w.deployment()
		late.Status.ObservedGeneration = 3
		require.NoError(t, w.client.Status().Update(t.Context(), late))
		w.clock.onWait = nil
	}
	w.writes = 0
	rollout, err := do(w, update.WaitRollout, waitFor2())
	require.NoError(t, err)
	require.Equal(t, update.Rollout{State: update.RolloutComplete}, rollout)
	require.Equal(t, "Moving to 2.0.", updating())
	require.Equal(t, 2, w.writes, "the condition is written when it changes, and not with each look")
}

// No worker polled for an hour, and the deadline passed: the pods that start after that get the rest of it.
func TestARolloutThatNobodyLookedAtInTimeIsGivenItsTime(t *testing.T) {
	t.Parallel()
	d := testDeployment("2.0", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
	fresh := testReplicaSet(d, "blog-2", 2)
	w := newWorld(t, testSite(), d, fresh, testPod(fresh, "blog-2-a"))
	scheduled := time.Now()
	w.clock.now = scheduled.Add(time.Hour)
	w.clock.onWait = func(n int) {
		if n == 20 {
			late := w.deployment()
			late.Status.AvailableReplicas = 1
			require.NoError(t, w.client.Status().Update(t.Context(), late))
		}
	}
	wait := waitFor2()
	wait.Deadline = scheduled.Add(10 * time.Minute)
	rollout, err := do(w, update.WaitRollout, wait)
	require.NoError(t, err)
	require.Equal(t, update.Rollout{State: update.RolloutComplete}, rollout)
}

func TestWaitRolloutSetsTheImageAgainTwiceAndThenGivesUp(t *testing.T) {
	t.Parallel()
	d := testDeployment("1.0")
	w := newWorld(t, testSite(), d)
	w.clock.onWait = func(int) {
		theirs := w.deployment()
		theirs.Spec.Template = d.Spec.Template
		theirs.Spec.Selector = d.Spec.Selector
		require.NoError(t, w.client.Update(t.Context(), theirs))
	}
	rollout, err := do(w, update.WaitRollout, waitFor2())
	require.NoError(t, err)
	require.Equal(t, update.RolloutOverruled, rollout.State)
	require.Equal(t, 2, w.writes)
}

func TestWaitRolloutReturnsAFaultOfTheAPIServerForAnotherAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(), testDeployment("2.0"))
	w.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*appsv1.Deployment); ok {
			return apierrors.NewInternalError(context.DeadlineExceeded)
		}
		return c.Get(ctx, key, o, opts...)
	}
	_, err := do(w, update.WaitRollout, waitFor2())
	requireFailure(t, err, "")
}

func TestWaitRolloutOfASiteOrDeploymentThatIsGone(t *testing.T) {
	t.Parallel()
	_, err := do(newWorld(t), update.WaitRollout, waitFor2())
	requireFailure(t, err, update.FailureSiteGone)
	require.Equal(t, update.RolloutReplaced, twice(newWorld(t, testSite()), update.WaitRollout, waitFor2()).State)
}
