package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drupdate/drupdate/localstack/internal/container"
)

// ctr is one container of a pod.
type ctr struct {
	pod  *pod
	spec corev1.Container
	init bool
	dir  string // holds rootfs, the logs and the record of the process.

	ctx    context.Context // ends when the container is to stop.
	stop   context.CancelFunc
	cutOff bool // it ran in an earlier life of this node.

	// What follows is guarded by the pod's lock.
	status  corev1.ContainerStatus
	process *container.Process // nil while nothing runs.
	running container.Spec     // what the process sees, for commands that join it.
}

// newCtr makes a container as it is in the API. What ran in an earlier life
// of this node has ended since.
func newCtr(p *pod, spec corev1.Container, init bool, known []corev1.ContainerStatus) *ctr {
	c := &ctr{pod: p, spec: spec, init: init, dir: filepath.Join(p.dir, spec.Name)}
	c.ctx, c.stop = context.WithCancel(p.ctx)
	at := slices.IndexFunc(known, func(s corev1.ContainerStatus) bool { return s.Name == spec.Name })
	if at < 0 {
		c.status = corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, Started: new(bool)}
		c.status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCreating}
		if !init && len(p.spec.InitContainers) > 0 {
			c.status.State.Waiting.Reason = reasonInitializing
		}
		return c
	}
	c.status = *known[at].DeepCopy()
	if ran := c.status.State.Running; ran != nil {
		c.cutOff = true
		c.ended(corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "ContainerStatusUnknown", StartedAt: ran.StartedAt, FinishedAt: now(), ContainerID: c.status.ContainerID,
			Message: "The container could not be located when the node restarted",
		})
	}
	return c
}

// beside reports whether the container is an init container that stays.
func (c *ctr) beside() bool {
	return c.init && c.spec.RestartPolicy != nil && *c.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// run keeps the container going until the policy, or the pod, says enough.
func (c *ctr) run(policy corev1.RestartPolicy) {
	var wait backoff
	c.pod.mu.Lock()
	last := c.status.State.Terminated
	c.pod.mu.Unlock()
	if last != nil && !restarts(policy, last.ExitCode) {
		return // it was done in an earlier life of this node.
	}
	for {
		begun := time.Now()
		code, ok := c.once()
		if !ok || !restarts(policy, code) || c.ctx.Err() != nil {
			return
		}
		delay := wait.next(time.Since(begun))
		where := fmt.Sprintf("%s pod=%s_%s(%s)", c.spec.Name, c.pod.name, c.pod.namespace, c.pod.uid)
		c.waits(reasonCrashLoop, fmt.Sprintf("back-off %s restarting failed container=%s", delay, where))
		c.pod.warn("BackOff", "Back-off restarting failed container "+where)
		if !c.sleep(delay) {
			return
		}
	}
}

// runToSuccess runs an init container until it exits with 0. It reports false
// when that will not happen.
func (c *ctr) runToSuccess() bool {
	policy := corev1.RestartPolicyOnFailure
	if c.pod.spec.RestartPolicy == corev1.RestartPolicyNever {
		policy = corev1.RestartPolicyNever
	}
	c.run(policy)
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	ended := c.status.State.Terminated
	return ended != nil && ended.ExitCode == 0 && c.pod.ctx.Err() == nil
}

// awaitStart waits until a container that stays has started.
func (c *ctr) awaitStart() bool {
	for {
		c.pod.mu.Lock()
		started := *c.status.Started
		c.pod.mu.Unlock()
		if started {
			return true
		}
		if !c.sleep(50 * time.Millisecond) {
			return false
		}
	}
}

// once runs the container one time and returns its exit code. It reports false
// when the container was stopped before it ran.
func (c *ctr) once() (int32, bool) {
	spec, ok := c.prepare()
	if !ok {
		return 0, false
	}
	c.pod.note("Created", "Created container: "+c.spec.Name)
	begun := now()
	process, logs, err := c.start(spec)
	if err != nil {
		c.pod.warn("Failed", "Error: "+err.Error())
		ended := corev1.ContainerStateTerminated{ExitCode: 128, Reason: reasonStartError, Message: err.Error(), StartedAt: begun, FinishedAt: now()}
		c.end(ended)
		return ended.ExitCode, true
	}
	c.runs(process, spec, begun)
	c.pod.note("Started", "Started container "+c.spec.Name)
	probes, stopProbes := context.WithCancel(c.ctx)
	dead := c.probe(probes)
	c.supervise(process, dead)
	stopProbes()
	logs.wait()
	code := int32(process.Code())
	c.end(corev1.ContainerStateTerminated{
		ExitCode: code, Reason: exitReason(code), Message: c.lastWords(code), StartedAt: begun, FinishedAt: now(),
		ContainerID: c.id(process),
	})
	return code, true
}

// supervise waits for the process to exit, and ends it when the pod stops or a
// probe finds it dead.
func (c *ctr) supervise(process *container.Process, dead <-chan string) {
	select {
	case <-process.Done():
		return
	case why := <-dead:
		c.pod.note("Killing", fmt.Sprintf("Container %s failed %s, will be restarted", c.spec.Name, why))
	case <-c.ctx.Done():
		c.pod.note("Killing", "Stopping container "+c.spec.Name)
	}
	c.signal(process, syscall.SIGTERM)
	select {
	case <-process.Done():
		return
	case <-c.pod.killed:
	case <-time.After(c.pod.grace()):
	}
	c.signal(process, syscall.SIGKILL)
	<-process.Done()
}

func (c *ctr) signal(process *container.Process, sig syscall.Signal) {
	if err := process.Signal(sig); err != nil {
		c.pod.node.log.Warn("signal container", "pod", c.pod.name, "container", c.spec.Name, "error", err)
	}
}

// start runs the prepared container with its output going to its log.
func (c *ctr) start(spec container.Spec) (*container.Process, *logWriter, error) {
	if err := os.RemoveAll(spec.Root); err != nil {
		return nil, nil, fmt.Errorf("make root folder: %w", err)
	}
	if err := os.MkdirAll(spec.Root, 0o755); err != nil {
		return nil, nil, fmt.Errorf("make root folder: %w", err)
	}
	if err := os.WriteFile(c.wordsFile(), nil, 0o666); err != nil {
		return nil, nil, fmt.Errorf("make termination log: %w", err)
	}
	if err := os.Chmod(c.wordsFile(), 0o666); err != nil { // the umask took bits away.
		return nil, nil, fmt.Errorf("make termination log: %w", err)
	}
	logs, err := openLog(c.dir)
	if err != nil {
		return nil, nil, err
	}
	process, err := c.pod.node.runtime.Start(spec, logs.streams())
	logs.handedOver()
	if err != nil {
		logs.wait()
		return nil, nil, err
	}
	if err := process.ID.Save(filepath.Join(c.dir, recordFile)); err != nil {
		return nil, nil, errors.Join(err, process.Signal(syscall.SIGKILL))
	}
	return process, logs, nil
}

func (c *ctr) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return c.ctx.Err() == nil
	case <-c.ctx.Done():
		return false
	}
}

func (c *ctr) wordsFile() string { return filepath.Join(c.dir, "termination-log") }
func (c *ctr) id(process *container.Process) string {
	return fmt.Sprintf("localstack://%d-%d", process.ID.PID, process.ID.Start)
}

func exitReason(code int32) string {
	if code == 0 {
		return reasonCompleted
	}
	return reasonError
}
