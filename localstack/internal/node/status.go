package node

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons a container waits, as a kubelet gives them.
const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonCrashLoop    = "CrashLoopBackOff"
	reasonConfigError  = "CreateContainerConfigError"
	reasonPullError    = "ErrImagePull"
	reasonPullBackoff  = "ImagePullBackOff"
	reasonBadImage     = "InvalidImageName"
	reasonStartError   = "StartError"
	reasonError        = "Error"
	reasonCompleted    = "Completed"
)

// facts are what the status of a pod is made of.
type facts struct {
	init, main []corev1.ContainerStatus
	ip         string
	started    metav1.Time
	over       bool   // every container has ended for good.
	reason     string // why the node ended the pod; empty if it did not.
	message    string
}

// podStatus makes the status of a pod. The old status gives the times of the
// conditions that did not change, and the conditions that others set.
func podStatus(pod *corev1.Pod, f facts, now metav1.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	status.InitContainerStatuses, status.ContainerStatuses = f.init, f.main
	status.HostIP, status.HostIPs = "127.0.0.1", []corev1.HostIP{{IP: "127.0.0.1"}}
	status.PodIP, status.PodIPs = f.ip, []corev1.PodIP{{IP: f.ip}}
	status.StartTime = &f.started
	status.Reason, status.Message = f.reason, f.message
	status.Phase = phase(pod.Spec, f)
	for _, c := range conditions(status, f) {
		c.ObservedGeneration = pod.Generation
		setCondition(&status.Conditions, c, now)
	}
	return status
}

// phase follows the kubelet's rules.
func phase(spec corev1.PodSpec, f facts) corev1.PodPhase {
	if f.over {
		return endPhase(f)
	}
	if !initialized(f.init) {
		return corev1.PodPending
	}
	n := count(f.main)
	switch {
	case n.waiting > 0:
		return corev1.PodPending
	case n.running > 0 || spec.RestartPolicy == corev1.RestartPolicyAlways:
		return corev1.PodRunning
	case n.stopped == n.succeeded:
		return corev1.PodSucceeded
	case spec.RestartPolicy == corev1.RestartPolicyNever:
		return corev1.PodFailed
	default:
		return corev1.PodRunning
	}
}

// tally is how many containers are in which state; those that succeeded are among the stopped ones.
type tally struct{ running, waiting, stopped, succeeded int }

func count(statuses []corev1.ContainerStatus) tally {
	var n tally
	for _, c := range statuses {
		switch {
		case c.State.Running != nil:
			n.running++
		case c.State.Terminated != nil:
			n.stopped++
			if c.State.Terminated.ExitCode == 0 {
				n.succeeded++
			}
		case c.LastTerminationState.Terminated != nil:
			n.stopped++
		default:
			n.waiting++
		}
	}
	return n
}

// endPhase is the phase of a pod that will not run again.
func endPhase(f facts) corev1.PodPhase {
	if f.reason != "" || !initialized(f.init) {
		return corev1.PodFailed
	}
	for _, c := range f.main {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// initialized reports whether the init containers are done: ended well, or,
// for one that stays beside the others, started.
func initialized(statuses []corev1.ContainerStatus) bool {
	for _, c := range statuses {
		ended := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		stays := c.Started != nil && *c.Started
		if !ended && !stays {
			return false
		}
	}
	return true
}

func conditions(status corev1.PodStatus, f facts) []corev1.PodCondition {
	initial := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if !initialized(f.init) {
		initial.Status, initial.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
		initial.Message = unready("containers with incomplete status", f.init)
	}
	ready := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	switch names := unready("containers with unready status", f.main); {
	case status.Phase == corev1.PodSucceeded:
		ready.Status, ready.Reason = corev1.ConditionFalse, "PodCompleted"
	case status.Phase == corev1.PodFailed:
		ready.Status, ready.Reason = corev1.ConditionFalse, "PodFailed"
	case names != "":
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "ContainersNotReady", names
	}
	pod := ready
	pod.Type = corev1.PodReady
	sandbox := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if f.over {
		sandbox.Status = corev1.ConditionFalse
	}
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	return []corev1.PodCondition{sandbox, initial, pod, ready, scheduled}
}

func unready(what string, statuses []corev1.ContainerStatus) string {
	var names []string
	for _, c := range statuses {
		if !c.Ready {
			names = append(names, c.Name)
		}
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf("%s: [%s]", what, strings.Join(names, " "))
}

// setCondition replaces a condition and keeps the time of its last change.
func setCondition(list *[]corev1.PodCondition, c corev1.PodCondition, now metav1.Time) {
	c.LastTransitionTime = now
	at := slices.IndexFunc(*list, func(old corev1.PodCondition) bool { return old.Type == c.Type })
	if at < 0 {
		*list = append(*list, c)
		return
	}
	if old := (*list)[at]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	(*list)[at] = c
}

// restarts says whether a policy starts a container again after an exit code.
func restarts(policy corev1.RestartPolicy, code int32) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	default:
		return true
	}
}
