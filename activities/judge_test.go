package activities

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// scene is a rollout from 1.0 to 2.0, which a case edits.
type scene struct {
	w        wanted
	d        *appsv1.Deployment
	old, new *appsv1.ReplicaSet
	pods     []corev1.Pod
	seen     sightings
	noNew    bool
	now      time.Time
}

func newScene() *scene {
	d := testDeployment("2.0")
	s := &scene{
		w:    wanted{site: testSite(), release: "2.0", uid: d.UID, generation: 3, deadline: noon.Add(10 * time.Minute)},
		d:    d,
		old:  testReplicaSet(testDeployment("1.0"), "blog-1", 1),
		new:  testReplicaSet(d, "blog-2", 2),
		seen: sightings{Since: map[string]time.Time{}},
		now:  noon.Add(time.Minute),
	}
	s.pods = []corev1.Pod{*testPod(s.new, "blog-2-a")}
	return s
}

// starting makes the new pod one that is not available yet, with its container waiting for a reason.
func (s *scene) starting(reason, message string) *corev1.ContainerStatus {
	s.d.Status.AvailableReplicas, s.d.Status.UnavailableReplicas = 0, 1
	p := &s.pods[0]
	p.Status.Phase = corev1.PodPending
	p.Status.ContainerStatuses[1] = corev1.ContainerStatus{
		Name: "drupal", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}
	return &p.Status.ContainerStatuses[1]
}

func (s *scene) since(key string, ago time.Duration) { s.seen.Since[key] = s.now.Add(-ago) }

func (s *scene) progressing(reason string, updated time.Time) {
	s.d.Status.AvailableReplicas = 0
	s.d.Status.Conditions = append(s.d.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: reason, LastUpdateTime: metav1.NewTime(updated),
	})
}

func (s *scene) written(at time.Time) {
	stamp := metav1.NewTime(at)
	s.d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: v1alpha1.ManagerImage, Time: &stamp}}
}

func (s *scene) look() look {
	l := look{now: s.now, deployment: s.d, pods: s.pods, replicaSets: []appsv1.ReplicaSet{*s.old}}
	if !s.noNew {
		l.replicaSets = append(l.replicaSets, *s.new)
	}
	return l
}

func failed(reason, message string) *update.Rollout {
	return &update.Rollout{State: update.RolloutFailed, Reason: reason, Message: message}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	complete := &update.Rollout{State: update.RolloutComplete}
	replaced := &update.Rollout{State: update.RolloutReplaced, Message: "the Deployment was deleted or replaced"}
	for _, c := range []struct {
		name string
		edit func(*scene)
		want *update.Rollout
	}{
		{"every pod is new and available", func(*scene) {}, complete},
		{"the controller has not observed our write", func(s *scene) { s.d.Status.ObservedGeneration = 2 }, nil},
		{"the controller has observed our write, but not a later edit", func(s *scene) { s.d.Generation = 4 }, nil},
		{"old pods satisfy the counter of available ones", func(s *scene) {
			s.d.Spec.Replicas = new(int32(3))
			s.d.Status.Replicas, s.d.Status.UpdatedReplicas, s.d.Status.AvailableReplicas = 4, 1, 3
		}, nil},
		{"a surge pod is left", func(s *scene) { s.d.Status.Replicas = 2 }, nil},
		{"an old pod still ends", func(s *scene) {
			now := metav1.NewTime(s.now)
			s.pods = append(s.pods, *testPod(s.old, "blog-1-a", func(p *corev1.Pod) { p.DeletionTimestamp = &now }))
		}, nil},
		{"an old pod still ends, whose ReplicaSet is gone", func(s *scene) {
			ghost := s.old.DeepCopy()
			ghost.UID = "gone"
			s.pods = append(s.pods, *testPod(ghost, "blog-0-a"))
		}, nil},
		{"an evicted old pod stays in the list", func(s *scene) {
			s.pods = append(s.pods, *testPod(s.old, "blog-1-a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))
		}, complete},
		{"a pod of another Deployment matches the selector", func(s *scene) {
			other := s.old.DeepCopy()
			other.UID, other.OwnerReferences = "other", []metav1.OwnerReference{owner("Deployment", "other", "other")}
			s.pods = append(s.pods, *testPod(other, "other-a"))
			s.old = other
		}, complete},
		{"an admission webhook made the tag a digest", func(s *scene) {
			for _, template := range []*corev1.PodTemplateSpec{&s.d.Spec.Template, &s.new.Spec.Template} {
				template.Spec.Containers[1].Image = "registry.example/drupal@sha256:0123"
			}
		}, complete},
		{"the deadline passed while nobody looked", func(s *scene) {
			s.starting("ContainerCreating", "")
			s.seen.At, s.now = noon.Add(5*time.Minute), noon.Add(3*time.Hour)
		}, nil},
		{"the deadline passed while nobody looked, and once more since", func(s *scene) {
			s.starting("ContainerCreating", "")
			s.seen.Unseen, s.now = time.Hour, noon.Add(70*time.Minute)
			s.seen.At = s.now.Add(-3 * time.Second)
		}, failed(update.ReasonRolloutTimeout, `waited in vain for container "drupal" of 2.0, which is waiting: ContainerCreating`)},
		{"a sign was seen, then nobody looked for an hour", func(s *scene) {
			s.starting("CreateContainerConfigError", `secret "s" not found`)
			s.now = noon.Add(time.Hour)
			s.since("CreateContainerConfigError", time.Hour)
			s.seen.At = noon
		}, nil},
		{"the Deployment is gone", func(s *scene) { s.d = nil }, replaced},
		{"the Deployment is another one", func(s *scene) { s.d.UID = "another" }, replaced},
		{"scaled to zero, seen once", func(s *scene) { s.d.Spec.Replicas = new(int32(0)) }, nil},
		{
			"scaled to zero, seen twice", func(s *scene) { s.d.Spec.Replicas = new(int32(0)); s.since("suspended", time.Second) },
			&update.Rollout{State: update.RolloutSuspended, Message: "the Deployment is scaled to zero"},
		},
		{
			"paused, seen twice", func(s *scene) { s.d.Spec.Paused = true; s.since("suspended", time.Second) },
			&update.Rollout{State: update.RolloutSuspended, Message: "the Deployment is paused"},
		},
		{"an image that cannot be pulled, seen once", func(s *scene) { s.starting(reasonImagePullBackOff, "not found") }, nil},
		{"an image that cannot be pulled, seen again too soon", func(s *scene) {
			s.starting(reasonImagePullBackOff, "not found")
			s.since(reasonImagePullBackOff, 3*time.Second)
		}, nil},
		{"an image that cannot be pulled, seen for long", func(s *scene) {
			s.starting(reasonImagePullBackOff, "not found")
			s.since(reasonImagePullBackOff, 6*time.Second)
		}, failed(reasonImagePullBackOff, `container "drupal" of 2.0: not found`)},
		{"a first failed pull heals", func(s *scene) { s.starting(reasonErrImagePull, "reset"); s.since(reasonErrImagePull, time.Minute) }, nil},
		{
			"an image that must not be pulled", func(s *scene) { s.starting(reasonErrImageNever, ""); s.since(reasonImagePullBackOff, time.Minute) },
			failed(reasonErrImageNever, `container "drupal" of 2.0: the image cannot be pulled`),
		},
		{"a name that is no image", func(s *scene) { s.starting(reasonInvalidImageName, "bad") }, failed(reasonInvalidImageName, `container "drupal" of 2.0: bad`)},
		{"a Secret that may appear", func(s *scene) { s.starting(reasonConfigError, "no secret"); s.since(reasonConfigError, 20*time.Second) }, nil},
		{
			"a Secret that does not appear", func(s *scene) { s.starting(reasonConfigError, "no secret"); s.since(reasonConfigError, 31*time.Second) },
			failed(reasonConfigError, `container "drupal" of 2.0: no secret`),
		},
		{"a crash loop after two restarts", func(s *scene) { s.starting(reasonCrashLoop, "").RestartCount = 2 }, nil},
		{"a crash loop after three restarts", func(s *scene) {
			status := s.starting(reasonCrashLoop, "back-off 40s restarting failed container=drupal pod=blog-2-a")
			status.RestartCount = 3
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", Message: "too\nmuch"}
		}, failed(reasonCrashLoop, `container "drupal" of 2.0: it keeps crashing: exit code 137 (OOMKilled): too much`)},
		{"a crash that wrote a long log", func(s *scene) {
			status := s.starting(reasonCrashLoop, "")
			status.RestartCount = 3
			log := "hunter2\n" + strings.Repeat("booting é\n", 200) + "mysql://drupal:hunter2@db: Access denied"
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: log}
		}, failed(reasonCrashLoop, `container "drupal" of 2.0: it keeps crashing: exit code 1: `+
			"…ing é "+strings.Repeat("booting é ", 42)+"mysql://drupal:[redacted]@db: Access denied")},
		{"an init container in a crash loop", func(s *scene) {
			s.starting("PodInitializing", "")
			s.pods[0].Status.InitContainerStatuses = []corev1.ContainerStatus{{
				Name: "migrate", RestartCount: 5,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonCrashLoop}},
			}}
		}, failed(reasonCrashLoop, `container "migrate" of 2.0: it keeps crashing: it ended without a trace`)},
		{"an old pod in a crash loop", func(s *scene) {
			s.starting(reasonCrashLoop, "").RestartCount = 9
			s.pods[0].OwnerReferences[0].UID = s.old.UID
		}, nil},
		{"a normal start", func(s *scene) { s.starting("ContainerCreating", ""); s.since("ContainerCreating", time.Hour) }, nil},
		{"pods that the API server refuses for a moment", func(s *scene) {
			s.d.Status.AvailableReplicas = 0
			s.new.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue}}
		}, nil},
		{"pods that the API server goes on to refuse", func(s *scene) {
			s.d.Status.AvailableReplicas = 0
			s.new.Status.Conditions = []appsv1.ReplicaSetCondition{{
				Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "blog-2-x7x" is forbidden: exceeded quota: small`,
			}}
			s.since(reasonReplicaFailure, 11*time.Second)
		}, failed(reasonReplicaFailure, `the pods cannot be created: pods is forbidden: exceeded quota: small`)},
		{"an old ReplicaSet's pods are refused", func(s *scene) {
			s.d.Status.AvailableReplicas = 0
			s.old.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue}}
			s.since(reasonReplicaFailure, time.Hour)
		}, nil},
		{"a progress deadline of an earlier rollout", func(s *scene) {
			s.written(noon)
			s.progressing(reasonProgressDeadline, noon.Add(-time.Minute))
			s.since(reasonProgressDeadline, time.Minute)
		}, nil},
		{"a progress deadline of an earlier rollout, back to a ReplicaSet older than that", func(s *scene) {
			s.written(noon.Add(30 * time.Second))
			s.new.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
			s.progressing(reasonProgressDeadline, noon)
			s.since(reasonProgressDeadline, time.Minute)
		}, nil},
		{"our progress deadline, seen once", func(s *scene) { s.written(noon); s.progressing(reasonProgressDeadline, noon.Add(time.Second)) }, nil},
		{"our progress deadline, which may be gone in seconds", func(s *scene) {
			s.written(noon)
			s.progressing(reasonProgressDeadline, noon.Add(time.Second))
			s.since(reasonProgressDeadline, 14*time.Second)
		}, nil},
		{"our progress deadline, which stays", func(s *scene) {
			s.written(noon)
			s.progressing(reasonProgressDeadline, noon.Add(time.Second))
			s.since(reasonProgressDeadline, 15*time.Second)
		}, failed(reasonProgressDeadline, "the rollout exceeded the Deployment's progress deadline while waiting for the pods of 2.0 to be available")},
		{"our progress deadline, before the controller observed the write", func(s *scene) {
			s.progressing(reasonProgressDeadline, noon.Add(time.Second))
			s.since(reasonProgressDeadline, time.Second)
			s.d.Status.ObservedGeneration = 2
		}, nil},
		{"a progress deadline that is over once all pods are there", func(s *scene) {
			s.progressing(reasonProgressDeadline, noon.Add(time.Second))
			s.since(reasonProgressDeadline, time.Second)
			s.d.Status.AvailableReplicas = 1
		}, complete},
		{"a running pod that maintenance mode keeps from being ready, where that will do", func(s *scene) {
			s.w.notReady = true
			s.d.Status.AvailableReplicas, s.d.Status.UnavailableReplicas = 0, 1
		}, complete},
		{"the same pod, where only a ready one will do", func(s *scene) {
			s.d.Status.AvailableReplicas, s.d.Status.UnavailableReplicas = 0, 1
		}, nil},
		{"a pod that does not run yet, where ready or not will do", func(s *scene) {
			s.w.notReady = true
			s.starting("ContainerCreating", "")
		}, nil},
		{
			"no pod in time", func(s *scene) { s.starting("ContainerCreating", ""); s.now = s.w.deadline },
			failed(update.ReasonRolloutTimeout, `waited in vain for container "drupal" of 2.0, which is waiting: ContainerCreating`),
		},
		{"a container that never gets ready in time", func(s *scene) {
			status := s.starting("", "")
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			s.now = s.w.deadline
		}, failed(update.ReasonRolloutTimeout, `waited in vain for container "drupal" of 2.0 to be ready`)},
		{"a pod that no node takes in time", func(s *scene) {
			s.starting("", "").State = corev1.ContainerState{}
			s.pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "insufficient memory"}}
			s.now = s.w.deadline
		}, failed(update.ReasonRolloutTimeout, "waited in vain for a pod to be scheduled: insufficient memory")},
		{"an old pod that does not end in time", func(s *scene) {
			s.pods = append(s.pods, *testPod(s.old, "blog-1-a"))
			s.now = s.w.deadline
		}, failed(update.ReasonRolloutTimeout, "waited in vain for the pods of other releases to end")},
		{"a controller that has not observed the change in time", func(s *scene) { s.d.Status.ObservedGeneration, s.now = 2, s.w.deadline.Add(time.Hour) }, nil},
		{"no ReplicaSet in time", func(s *scene) {
			s.noNew, s.pods, s.d.Status.AvailableReplicas, s.now = true, nil, 0, s.w.deadline.Add(time.Hour)
		}, nil},
		{"no ReplicaSet in time, while an old pod does not end", func(s *scene) {
			s.noNew, s.pods, s.d.Status.AvailableReplicas, s.now = true, []corev1.Pod{*testPod(s.old, "blog-1-a")}, 0, s.w.deadline
		}, failed(update.ReasonRolloutTimeout, "waited in vain for the pods of 2.0 to be available")},
		{"a ReplicaSet whose pods nobody makes", func(s *scene) {
			s.pods, s.d.Status.AvailableReplicas, s.now = nil, 0, s.w.deadline.Add(time.Hour)
		}, nil},
		{"pods that are refused just before the time is over", func(s *scene) {
			s.new.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: "quota"}}
			s.pods, s.d.Status.AvailableReplicas, s.now = nil, 0, s.w.deadline
		}, failed(update.ReasonRolloutTimeout, "waited in vain for pods that the API server refuses to create: quota")},
		{"a ReplicaSet that nobody has observed", func(s *scene) {
			s.new.Generation, s.d.Status.AvailableReplicas, s.now = 2, 0, s.w.deadline.Add(time.Hour)
		}, nil},
		{"a pod that no scheduler has looked at", func(s *scene) {
			s.d.Status.AvailableReplicas, s.now = 0, s.w.deadline.Add(time.Hour)
			s.pods[0].Spec.NodeName, s.pods[0].Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		}, nil},
		{"time in which the controllers did nothing puts the deadline off", func(s *scene) {
			s.starting("ContainerCreating", "")
			s.now = s.w.deadline.Add(4 * time.Minute)
			s.since(signIdle, 5*time.Minute)
		}, nil},
		{"but not for ever", func(s *scene) {
			s.starting("ContainerCreating", "")
			s.seen.Idle, s.now = 5*time.Minute, s.w.deadline.Add(5*time.Minute)
		}, failed(update.ReasonRolloutTimeout, `waited in vain for container "drupal" of 2.0, which is waiting: ContainerCreating`)},
		{"time that the controllers take to do their work does not", func(s *scene) {
			s.starting("ContainerCreating", "")
			s.now = s.w.deadline
			s.since(signIdle, 5*time.Second)
		}, failed(update.ReasonRolloutTimeout, `waited in vain for container "drupal" of 2.0, which is waiting: ContainerCreating`)},
		{"a progress deadline that ran while the controllers were away", func(s *scene) {
			s.progressing(reasonProgressDeadline, s.now)
			s.written(noon)
			s.since(reasonProgressDeadline, time.Minute)
			s.seen.Idle = time.Minute
		}, nil},
		{"a progress deadline that runs while no scheduler looks at the pod", func(s *scene) {
			s.pods[0].Spec.NodeName, s.pods[0].Status = "", corev1.PodStatus{Phase: corev1.PodPending}
			s.progressing(reasonProgressDeadline, s.now)
			s.written(noon)
			s.since(reasonProgressDeadline, time.Minute)
			s.since(signIdle, 10*time.Minute)
		}, nil},
		{"somebody sets another image for the third time", func(s *scene) {
			s.d.Spec.Template.Spec.Containers[1].Image = "registry.example/drupal:1.0"
			s.seen.Applied = 2
		}, &update.Rollout{State: update.RolloutOverruled, Reason: update.ReasonOverruled, Message: "somebody else keeps setting another image than the one of 2.0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			c.edit(s)
			require.Equal(t, c.want, judge(s.w, s.look(), s.seen).result)
		})
	}
}

func TestJudgeSetsTheImageAgainTwice(t *testing.T) {
	t.Parallel()
	s := newScene()
	s.d.Spec.Template.Annotations[v1alpha1.AnnotationRelease] = "1.0"
	for applied := range mostApplies {
		s.seen.Applied = applied
		j := judge(s.w, s.look(), s.seen)
		require.True(t, j.reapply)
		require.Nil(t, j.result)
	}
}

func TestJudgeForgetsASignThatIsGone(t *testing.T) {
	t.Parallel()
	s := newScene()
	s.starting(reasonConfigError, "no secret")
	s.since(reasonConfigError, 20*time.Second)
	s.pods[0].Status.ContainerStatuses[1].State = corev1.ContainerState{}
	require.Empty(t, judge(s.w, s.look(), s.seen).seen.Since)
}

func TestWhatTheHeartbeatSays(t *testing.T) {
	t.Parallel()
	s := newScene()
	s.d.Spec.Replicas = new(int32(3))
	s.d.Status.Replicas, s.d.Status.UpdatedReplicas, s.d.Status.AvailableReplicas = 4, 2, 3
	require.Equal(t, "2 of 3 pods of 2.0 available", judge(s.w, s.look(), s.seen).progress)
}
