package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

func TestBackoffDoublesToItsLimitAndForgets(t *testing.T) {
	t.Parallel()
	var b backoff
	var got []time.Duration
	for range 7 {
		got = append(got, b.next(0))
	}
	want := []time.Duration{1, 2, 4, 8, 16, 20, 20}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if again := b.next(time.Minute); again != backoffFirst {
		t.Fatalf("after a good run: %v, want %v", again, backoffFirst)
	}
}

func TestAddressesAreUniqueAndComeBack(t *testing.T) {
	t.Parallel()
	a := addresses{block: 60, taken: map[string]bool{}}
	seen := map[string]bool{}
	for range 1000 {
		address, err := a.take("")
		if err != nil || seen[address] {
			t.Fatalf("address %q twice, or error %v", address, err)
		}
		seen[address] = true
	}
	a.release("127.60.0.7")
	if address, err := a.take("127.60.0.7"); err != nil || address != "127.60.0.7" {
		t.Fatalf("address %q, error %v", address, err)
	}
}

func TestStacksOfTheTestsHaveBlocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[int]string{}
	for _, listen := range []string{"127.0.0.1:10777", "127.0.0.1:26443", "127.0.0.1:27443"} {
		if other, taken := seen[blockOf(listen)]; taken {
			t.Fatalf("%s and %s share a block", listen, other)
		}
		seen[blockOf(listen)] = listen
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	ended := func(code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	waiting := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	crashed := waiting
	crashed.LastTerminationState = ended(1).State
	list := func(s ...corev1.ContainerStatus) []corev1.ContainerStatus { return s }
	cases := []struct {
		name   string
		policy corev1.RestartPolicy
		f      facts
		want   corev1.PodPhase
	}{
		{"not started", corev1.RestartPolicyAlways, facts{main: list(waiting)}, corev1.PodPending},
		{"one of two runs", corev1.RestartPolicyAlways, facts{main: list(running, waiting)}, corev1.PodPending},
		{"all run", corev1.RestartPolicyAlways, facts{main: list(running, running)}, corev1.PodRunning},
		{"in a crash loop", corev1.RestartPolicyAlways, facts{main: list(crashed)}, corev1.PodRunning},
		{"an init container runs", corev1.RestartPolicyAlways, facts{init: list(running), main: list(waiting)}, corev1.PodPending},
		{"a job that went well", corev1.RestartPolicyNever, facts{main: list(ended(0)), over: true}, corev1.PodSucceeded},
		{"a job that failed", corev1.RestartPolicyNever, facts{main: list(ended(0), ended(3)), over: true}, corev1.PodFailed},
		{"a job that failed and will be retried", corev1.RestartPolicyOnFailure, facts{main: list(ended(3))}, corev1.PodRunning},
		{"an init container failed for good", corev1.RestartPolicyNever, facts{init: list(ended(1)), main: list(waiting), over: true}, corev1.PodFailed},
		{"a deadline passed", corev1.RestartPolicyAlways, facts{main: list(ended(0)), over: true, reason: "DeadlineExceeded"}, corev1.PodFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := phase(corev1.PodSpec{RestartPolicy: c.policy}, c.f); got != c.want {
				t.Fatalf("got %s, want %s", got, c.want)
			}
		})
	}
}

// answers is a check that gives one answer a time, and then repeats the last.
func answers(oks ...bool) func(context.Context) error {
	return func(context.Context) error {
		ok := oks[0]
		if len(oks) > 1 {
			oks = oks[1:]
		}
		if ok {
			return nil
		}
		return errors.New("no")
	}
}

func TestReadinessChangesAtItsThresholds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		begun := time.Now()
		p := prober{
			delay: 2 * time.Second, period: time.Second, success: 2, failure: 3,
			check: answers(true, true, false, false, false, true, true),
		}
		type change struct {
			ok bool
			at time.Duration
		}
		var got []change
		p.each(ctx, func(ok bool) { got = append(got, change{ok, time.Since(begun)}) })
		want := []change{{true, 3 * time.Second}, {false, 6 * time.Second}, {true, 8 * time.Second}}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestStartupAndLiveness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := prober{period: time.Second, success: 1, failure: 3, check: answers(false, false, true)}
		if !p.untilStarted(t.Context()) {
			t.Fatal("a container that answers at the third check did not start")
		}
		p.check = answers(false)
		if p.untilStarted(t.Context()) {
			t.Fatal("a container that never answers started")
		}
		p.check = answers(true, false, false, true, false, false, false)
		if p.whileAlive(t.Context()) {
			t.Fatal("three failures in a row did not end the container")
		}
	})
}

func TestConditionKeepsTheTimeOfItsLastChange(t *testing.T) {
	t.Parallel()
	first, second := now(), now()
	second.Time = second.Add(time.Minute)
	list := []corev1.PodCondition{}
	setCondition(&list, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}, first)
	setCondition(&list, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "Same"}, second)
	if !list[0].LastTransitionTime.Equal(&first) || list[0].Reason != "Same" {
		t.Fatalf("got %v", list)
	}
	setCondition(&list, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}, second)
	if !list[0].LastTransitionTime.Equal(&second) {
		t.Fatalf("got %v", list)
	}
}

func TestAProxyInFrontOfTheNodeIsWhatTheAPIServerIsTold(t *testing.T) {
	t.Parallel()
	for advertise, want := range map[int]int32{0: 10777, 10999: 10999} {
		n := &Node{config: Config{Listen: "127.0.0.1:10777", Advertise: advertise}}
		object, err := n.object()
		if err != nil || object.Status.DaemonEndpoints.KubeletEndpoint.Port != want {
			t.Fatalf("advertised %d, error %v, want %d", object.Status.DaemonEndpoints.KubeletEndpoint.Port, err, want)
		}
	}
}

func TestAStatusThatSomebodyElseChangedIsWrittenAgain(t *testing.T) {
	t.Parallel()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: "blog", UID: "1", ResourceVersion: "5"}}
	object.Status.Phase = corev1.PodRunning
	object.Spec.Containers = []corev1.Container{{Name: "drupal"}}
	client := fake.NewClientset(object.DeepCopy())
	n := &Node{client: client, log: slog.New(slog.DiscardHandler), pods: map[types.UID]*pod{}}
	p := newPod(t.Context(), n, object, "127.0.0.9")
	yes := true
	p.main[0].status.Ready, p.main[0].status.Started = true, &yes
	p.main[0].status.State.Running = &corev1.ContainerStateRunning{}
	n.pods[object.UID] = p
	go p.report()
	defer close(p.gone)
	marked := object.DeepCopy()
	marked.ResourceVersion = "6"
	marked.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	n.saw(marked)
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		now, err := client.CoreV1().Pods("sites").Get(t.Context(), "blog", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("the pod runs, and nobody says that it is ready")
}
