package podexec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func owner(kind, name string, uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid, Controller: &yes}}
}

// pod is a healthy pod of ReplicaSet "new", changed as asked.
func pod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", OwnerReferences: owner("ReplicaSet", "web-new", "new"),
			Labels:            map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "new"},
			CreationTimestamp: metav1.Unix(1000, 0),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy"}, {Name: "drupal"}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(2000, 0)}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "drupal", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func terminating(p *corev1.Pod) { now := metav1.Unix(3000, 0); p.DeletionTimestamp = &now }
func notReady(p *corev1.Pod)    { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func evicted(p *corev1.Pod)     { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }
func old(p *corev1.Pod) {
	p.OwnerReferences = owner("ReplicaSet", "web-old", "old")
	p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "old"
}

func crashed(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
}
func bare(p *corev1.Pod)    { p.Spec.Containers = p.Spec.Containers[:1] }
func orphan(p *corev1.Pod)  { p.OwnerReferences = nil }
func pending(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }
func readyAt(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Unix(seconds, 0) }
}

func TestChoose(t *testing.T) {
	t.Parallel()
	want := Choice{Container: "drupal", ReplicaSet: "new"}
	lenient := Choice{Container: "drupal", ReplicaSet: "new", AllowNotReady: true}
	cases := []struct {
		name string
		pods []corev1.Pod
		want Choice
		pod  string
		is   error
		text string
	}{
		{name: "there is none", want: want, is: ErrNoPod, text: "no pod to ask: there is none"},
		{
			name: "the only good one is last", want: want, pod: "good",
			pods: []corev1.Pod{pod("a", evicted), pod("b", terminating), pod("c", notReady), pod("d", old), pod("e", crashed), pod("f", pending), pod("g", orphan), pod("good")},
		},
		{
			name: "every kind of bad one", want: want, is: ErrNoPod,
			text: "no pod to ask: its container is not running, not ready, not running, of another release, terminating",
			pods: []corev1.Pod{pod("a", evicted), pod("b", terminating), pod("c", notReady), pod("d", old), pod("e", crashed), pod("f", pending), pod("g", orphan)},
		},
		{name: "one that has been ready the longest", want: want, pod: "b", pods: []corev1.Pod{pod("a", readyAt(900)), pod("b", readyAt(800)), pod("c")}},
		{name: "the first by name among equals", want: want, pod: "a", pods: []corev1.Pod{pod("c"), pod("a"), pod("b")}},
		{name: "a ready one even where others are allowed", want: lenient, pod: "b", pods: []corev1.Pod{pod("a", notReady), pod("b")}},
		{name: "one that is not ready where that is allowed", want: lenient, pod: "a", pods: []corev1.Pod{pod("a", notReady), pod("b", terminating)}},
		{name: "a terminating one never", want: lenient, is: ErrNoPod, text: "no pod to ask: terminating", pods: []corev1.Pod{pod("b", terminating)}},
		{name: "a missing container", want: want, is: ErrNoContainer, text: `no such container: "drupal"`, pods: []corev1.Pod{pod("a", bare), pod("b", bare, terminating)}},
		{name: "no container named", want: Choice{ReplicaSet: "new"}, is: ErrNoContainer, text: "no such container: no name given", pods: []corev1.Pod{pod("a")}},
		{name: "by the hash of the template", want: Choice{Container: "drupal", PodTemplateHash: "old"}, pod: "b", pods: []corev1.Pod{pod("a"), pod("b", old)}},
		{name: "of any release", want: Choice{Container: "drupal"}, pod: "a", pods: []corev1.Pod{pod("a", old), pod("b")}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Choose(c.pods, c.want)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
				require.EqualError(t, err, c.text)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.pod, got.Name)
		})
	}
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "drupal", Image: image}}},
	}
}

func replicaSet(name, image, revision string, uid types.UID) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", UID: uid, OwnerReferences: owner("Deployment", "web", "deployment"),
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{revisionAnnotation: revision},
			CreationTimestamp: metav1.NewTime(time.Unix(1000, 0)),
		},
		Spec: appsv1.ReplicaSetSpec{Template: template(image)},
	}
	rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = string(uid)
	return rs
}

func TestPodsOfRelease(t *testing.T) {
	t.Parallel()
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "deployment"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template("d:2")},
	}
	foreign := replicaSet("foreign", "d:2", "9", "foreign")
	foreign.OwnerReferences = owner("Deployment", "web", "an older deployment of that name")
	mine, other := pod("mine"), pod("other", old)
	objects := []client.Object{
		replicaSet("web-old", "d:1", "8", "old"), replicaSet("web-twin", "d:2", "2", "twin"), replicaSet("web-new", "d:2", "10", "new"),
		foreign, &mine, &other,
	}
	reader := fake.NewClientBuilder().WithObjects(objects...).Build()

	pods, rs, err := PodsOfRelease(t.Context(), reader, deployment)
	require.NoError(t, err)
	require.Equal(t, "web-new", rs.Name)
	require.Len(t, pods, 1)
	require.Equal(t, "mine", pods[0].Name)

	deployment.Spec.Template = template("d:3")
	_, _, err = PodsOfRelease(t.Context(), reader, deployment)
	require.ErrorIs(t, err, ErrNoReplicaSet)
}
