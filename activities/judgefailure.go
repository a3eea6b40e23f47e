package activities

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// failing looks for signs that the rollout will not complete: in the new ReplicaSet, in its pods, in the Deployment.
func (j *judgement) failing(w wanted, l look, newest *appsv1.ReplicaSet, observed bool, before sightings) {
	if newest != nil {
		j.failingReplicaSet(w, l, newest, before)
	}
	if j.result == nil && observed {
		j.failingDeployment(l, newest, before)
	}
}

// failingReplicaSet looks at the pods of the new ReplicaSet first: they say more than the ReplicaSet itself.
func (j *judgement) failingReplicaSet(w wanted, l look, newest *appsv1.ReplicaSet, before sightings) {
	for i := range l.pods {
		if p := &l.pods[i]; metav1.IsControlledBy(p, newest) && p.DeletionTimestamp == nil && !podEnded(p) {
			j.failingPod(w, l.now, p, before)
		}
		if j.result != nil {
			return
		}
	}
	if why, refused := refusal(newest); refused {
		j.refused(l.now, why, before)
	}
}

// refusal is why the pods of a ReplicaSet cannot be created, if its controller says so.
func refusal(set *appsv1.ReplicaSet) (why string, refused bool) {
	for _, c := range set.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message, true
		}
	}
	return "", false
}

// failingDeployment reads why the Deployment controller sees no progress.
func (j *judgement) failingDeployment(l look, newest *appsv1.ReplicaSet, before sightings) {
	for _, c := range l.deployment.Status.Conditions {
		if j.result != nil || c.Type != appsv1.DeploymentProgressing || c.Status != corev1.ConditionFalse {
			continue
		}
		switch c.Reason {
		case reasonReplicaSetMissing:
			j.refused(l.now, c.Message, before)
		case reasonProgressDeadline:
			j.pastDeadline(l, newest, c.LastUpdateTime.Time, before)
		}
	}
}

// refused is a pod, or a ReplicaSet, that the API server refuses to create: quota or admission.
func (j *judgement) refused(now time.Time, why string, before sightings) {
	why = withoutNames(why)
	j.waitingFor = "pods that the API server refuses to create: " + why
	if j.lasting(reasonReplicaFailure, now, before, replicaPatience) {
		j.end(update.RolloutFailed, reasonReplicaFailure, "the pods cannot be created: "+why)
	}
}

// generatedName is the start of a message about a pod, whose name is another one each time.
var generatedName = regexp.MustCompile(`\b(pods|replicasets\.apps) "[^"]*"`)

func withoutNames(text string) string { return generatedName.ReplaceAllString(text, "$1") }

// pastDeadline is the Deployment controller's own verdict. It counts only if it is younger than our write, both by the
// API server's clock: after a failed rollout the old verdict stays until there is progress.
func (j *judgement) pastDeadline(l look, newest *appsv1.ReplicaSet, judged time.Time, before sightings) {
	written, known := writtenAt(l.deployment)
	if !known && newest != nil {
		written, known = newest.CreationTimestamp.Time, true
	}
	if _, idle := before.Since[signIdle]; idle || before.Idle > 0 || before.Unseen > 0 {
		return // the time in which nothing was done, or seen, counts there, and here it does not
	}
	if !known || !judged.After(written) {
		return
	}
	if j.lasting(reasonProgressDeadline, l.now, before, latePatience) {
		j.end(update.RolloutFailed, reasonProgressDeadline,
			fmt.Sprintf("the rollout exceeded the Deployment's progress deadline while waiting for %s", j.waitingFor))
	}
}

// writtenAt is when the image was last set, by the API server's clock.
func writtenAt(d *appsv1.Deployment) (time.Time, bool) {
	for _, f := range d.ManagedFields {
		if f.Manager == v1alpha1.ManagerImage && f.Time != nil {
			return f.Time.Time, true
		}
	}
	return time.Time{}, false
}

func (j *judgement) failingPod(w wanted, now time.Time, p *corev1.Pod, before sightings) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			j.waitingFor = "a pod to be scheduled: " + c.Message
		}
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if j.failingContainer(w, now, &list[i], before); j.result != nil {
				return
			}
		}
	}
}

func (j *judgement) failingContainer(w wanted, now time.Time, c *corev1.ContainerStatus, before sightings) {
	j.waitForContainer(w, c)
	waiting := c.State.Waiting
	if waiting == nil {
		return
	}
	fail := func(reason, why string) {
		j.end(update.RolloutFailed, reason, fmt.Sprintf("container %q of %s: %s", c.Name, w.release, why))
	}
	switch waiting.Reason {
	case reasonInvalidImageName:
		fail(waiting.Reason, text(waiting.Message, "the image's name is not valid"))
	case reasonImagePullBackOff, reasonErrImageNever, reasonErrImagePull:
		j.failingPull(now, waiting, before, fail)
	case reasonConfigError, reasonContainerError:
		if j.lasting(waiting.Reason, now, before, configPatience) {
			fail(waiting.Reason, text(waiting.Message, "the container cannot be created"))
		}
	case reasonCrashLoop:
		if c.RestartCount >= minRestarts {
			fail(waiting.Reason, "it keeps crashing: "+lastCrash(c))
		}
	}
}

// waitForContainer notes what a container that is not ready waits for.
func (j *judgement) waitForContainer(w wanted, c *corev1.ContainerStatus) {
	switch waiting := c.State.Waiting; {
	case waiting == nil:
		if !c.Ready && c.State.Running != nil {
			j.waitingFor = fmt.Sprintf("container %q of %s to be ready", c.Name, w.release)
		}
	case waiting.Reason != "" && waiting.Reason != "PodInitializing":
		j.waitingFor = fmt.Sprintf("container %q of %s, which is waiting: %s", c.Name, w.release, waiting.Reason)
	}
}

// failingPull counts from the first back-off on: the kubelet alternates between it and ErrImagePull, which alone heals.
func (j *judgement) failingPull(now time.Time, waiting *corev1.ContainerStateWaiting, before sightings, fail func(reason, why string)) {
	backingOff := waiting.Reason != reasonErrImagePull
	if _, seen := before.Since[reasonImagePullBackOff]; !seen && !backingOff {
		return
	}
	if j.lasting(reasonImagePullBackOff, now, before, pullPatience) && backingOff {
		fail(waiting.Reason, text(waiting.Message, "the image cannot be pulled"))
	}
}

// lastCrash says how a container ended last, without time stamps and names.
func lastCrash(c *corev1.ContainerStatus) string {
	t := c.LastTerminationState.Terminated
	if t == nil {
		return "it ended without a trace"
	}
	said := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Signal != 0 {
		said = fmt.Sprintf("signal %d", t.Signal)
	}
	if t.Reason != "" && t.Reason != "Error" {
		said += " (" + t.Reason + ")"
	}
	if t.Message != "" {
		said += ": " + lastWords(t.Message)
	}
	return said
}

// lastWords is the end of what a container said before it crashed: its termination message, or the end of its log.
func lastWords(said string) string {
	if _, whole, more := strings.Cut(said, "\n"); more && len(said) >= kubeletCuts {
		said = whole // of the first line only an end is there, by which no secret is known
	}
	said = oneLine(said)
	if len(said) <= maxWords {
		return said
	}
	start := len(said) - maxWords
	for !utf8.RuneStart(said[start]) {
		start++
	}
	return "…" + said[start:]
}

func text(said, otherwise string) string {
	if said == "" {
		return otherwise
	}
	return said
}
