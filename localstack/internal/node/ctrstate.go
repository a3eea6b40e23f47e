package node

import (
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/localstack/internal/container"
)

// Limits of a termination message, as a kubelet has them.
const (
	wordsLimit    = 4096
	logWordsLimit = 2048
	logWordsLines = 80
)

// waits records that the container is not running yet, and why.
func (c *ctr) waits(reason, message string) {
	c.pod.mu.Lock()
	if ended := c.status.State.Terminated; ended != nil {
		c.status.LastTerminationState = corev1.ContainerState{Terminated: ended}
	}
	c.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	c.pod.mu.Unlock()
	c.pod.changed()
}

// runs records that the container runs. It is ready at once unless a probe has
// to say so first.
func (c *ctr) runs(process *container.Process, spec container.Spec, begun metav1.Time) {
	c.pod.mu.Lock()
	if ended := c.status.State.Terminated; ended != nil {
		c.status.LastTerminationState = corev1.ContainerState{Terminated: ended}
	}
	if c.status.LastTerminationState.Terminated != nil {
		c.status.RestartCount++
	}
	c.process, c.running = process, spec
	c.status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begun}}
	c.status.ContainerID = c.id(process)
	started := c.spec.StartupProbe == nil
	c.status.Started = &started
	c.status.Ready = started && c.spec.ReadinessProbe == nil && (!c.init || c.beside())
	c.pod.mu.Unlock()
	c.pod.changed()
}

// ready records what the readiness probe found.
func (c *ctr) ready(ready bool) {
	c.pod.mu.Lock()
	c.status.Ready = ready && c.status.State.Running != nil
	c.pod.mu.Unlock()
	c.pod.changed()
}

// started records that the startup probe succeeded.
func (c *ctr) started() {
	c.pod.mu.Lock()
	started := true
	c.status.Started = &started
	if c.spec.ReadinessProbe == nil {
		c.status.Ready = c.status.State.Running != nil
	}
	c.pod.mu.Unlock()
	c.pod.changed()
}

// end records that the container has ended.
func (c *ctr) end(state corev1.ContainerStateTerminated) {
	c.pod.mu.Lock()
	c.ended(state)
	c.pod.mu.Unlock()
	c.pod.changed()
}

// ended is end for a caller that holds the lock.
func (c *ctr) ended(state corev1.ContainerStateTerminated) {
	if before := c.status.State.Terminated; before != nil {
		c.status.LastTerminationState = corev1.ContainerState{Terminated: before}
	}
	if c.status.State.Running == nil && c.status.LastTerminationState.Terminated != nil {
		c.status.RestartCount++ // it was to run again, but could not start.
	}
	c.process = nil
	c.status.State = corev1.ContainerState{Terminated: &state}
	stopped := false
	c.status.Started = &stopped
	c.status.Ready = c.init && !c.beside() && state.ExitCode == 0
}

// lastWords is the termination message of a container that ended.
func (c *ctr) lastWords(code int32) string {
	raw, err := os.ReadFile(c.wordsFile())
	if err != nil {
		return "Error on reading termination log: " + err.Error()
	}
	if len(raw) > wordsLimit {
		raw = raw[len(raw)-wordsLimit:]
	}
	if len(raw) > 0 || code == 0 || c.spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	lines, err := lastLines(logFile(c.dir), logWordsLines)
	if err != nil {
		return "Error on reading termination message from logs: " + err.Error()
	}
	text := strings.Join(lines, "")
	return strings.ToValidUTF8(text[max(0, len(text)-logWordsLimit):], "\uFFFD")
}
