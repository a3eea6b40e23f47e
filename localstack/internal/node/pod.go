package node

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod is one pod that this node runs, from the moment it is seen until it is
// gone from the API server.
type pod struct {
	node *Node
	dir  string // holds one folder a container, and .volumes.

	ctx    context.Context // ends when the pod is to stop.
	stop   context.CancelFunc
	killed chan struct{} // closed when the grace period is not to be waited for.
	kill   func()        // closes killed, once.
	dirty  chan struct{} // has an element when the status is to be written.
	over   chan struct{} // closed when every container has ended for good.
	gone   chan struct{} // closed when the API server has forgotten the pod.

	name, namespace string
	uid             types.UID
	spec            corev1.PodSpec // as it was when the pod was first seen.
	past            bool           // over before this node saw it.
	init            []*ctr
	main            []*ctr

	mu      sync.Mutex
	object  *corev1.Pod   // as last seen from the API server, or written to it.
	unwant  chan struct{} // closed when the API server wants the pod gone.
	volumes map[string]string
	ip      string
	started metav1.Time
	deleted bool // unwant is closed.
	ended   bool // over, guarded.
	reason  string
	message string
}

// newPod takes up a pod. Its context does not end with the node's: a node that
// stops leaves its pods as they are in the API, to be taken up by the next.
func newPod(ctx context.Context, n *Node, object *corev1.Pod, ip string) *pod {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	killed := make(chan struct{})
	object = object.DeepCopy()
	p := &pod{
		node: n, dir: filepath.Join(n.config.Pods, string(object.UID)), object: object, ip: ip,
		ctx: ctx, stop: stop, killed: killed, kill: sync.OnceFunc(func() { close(killed) }),
		dirty: make(chan struct{}, 1), over: make(chan struct{}), gone: make(chan struct{}), unwant: make(chan struct{}),
		name: object.Name, namespace: object.Namespace, uid: object.UID, spec: object.Spec, past: terminal(object),
		started: now(),
	}
	if object.Status.StartTime != nil {
		p.started = *object.Status.StartTime
	}
	for _, c := range object.Spec.InitContainers {
		p.init = append(p.init, newCtr(p, c, true, object.Status.InitContainerStatuses))
	}
	for _, c := range object.Spec.Containers {
		p.main = append(p.main, newCtr(p, c, false, object.Status.ContainerStatuses))
	}
	return p
}

// terminal reports whether a pod was over before this node saw it.
func terminal(object *corev1.Pod) bool {
	return object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed
}

// live runs the pod and then waits for it to be deleted.
func (p *pod) live() {
	if !p.past {
		go p.report()
		p.watchDeadline()
		p.run()
	}
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	close(p.over)
	p.changed()
	select {
	case <-p.unwant:
		p.forget()
	case <-p.gone:
	}
}

// run runs the containers and returns when all have ended for good.
func (p *pod) run() {
	if p.interrupted() || !p.mountVolumes() {
		return
	}
	var beside sync.WaitGroup
	defer func() { // containers that stay beside the others end after them.
		for _, c := range p.init {
			c.stop()
		}
		beside.Wait()
	}()
	for _, c := range p.init {
		if !c.beside() {
			if !c.runToSuccess() {
				return
			}
			continue
		}
		beside.Go(func() { c.run(corev1.RestartPolicyAlways) })
		if !c.awaitStart() {
			return
		}
	}
	var group sync.WaitGroup
	for _, c := range p.main {
		group.Go(func() { c.run(p.spec.RestartPolicy) })
	}
	group.Wait()
}

// interrupted deals with a pod whose containers ran in an earlier life of this
// node and must not run twice.
func (p *pod) interrupted() bool {
	if p.ctx.Err() != nil {
		return true
	}
	if p.spec.RestartPolicy != corev1.RestartPolicyNever {
		return false
	}
	for _, c := range append(append([]*ctr{}, p.init...), p.main...) {
		if c.cutOff {
			p.end("NodeRestarted", "the node restarted while the pod ran, and its restart policy is Never")
			return true
		}
	}
	return false
}

// mountVolumes makes the volumes, trying until their sources are there.
func (p *pod) mountVolumes() bool {
	var wait backoff
	p.changed()
	for {
		paths, err := p.resolver().volumes(p.ctx, filepath.Join(p.dir, ".volumes"))
		if err == nil {
			p.mu.Lock()
			p.volumes = paths
			p.mu.Unlock()
			return true
		}
		p.warn("FailedMount", err.Error())
		if !p.sleep(min(wait.next(0), 5*time.Second)) {
			return false
		}
	}
}

// watchDeadline ends the pod when its active deadline has passed.
func (p *pod) watchDeadline() {
	if p.spec.ActiveDeadlineSeconds == nil {
		return
	}
	left := time.Until(p.started.Add(time.Duration(*p.spec.ActiveDeadlineSeconds) * time.Second))
	timer := time.AfterFunc(left, func() {
		p.end("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
	})
	context.AfterFunc(p.ctx, func() { timer.Stop() })
}

// end stops the pod for a reason of the node's own. It stays in the API.
func (p *pod) end(reason, message string) {
	p.mu.Lock()
	if !p.ended && p.reason == "" && !p.deleted {
		p.reason, p.message = reason, message
	}
	p.mu.Unlock()
	p.stopAll()
}

// stopAll asks every container to end. Those that linger are killed after the
// grace period.
func (p *pod) stopAll() {
	p.stop()
	grace := p.grace()
	timer := time.AfterFunc(grace, p.kill)
	go func() {
		<-p.over
		timer.Stop()
	}()
}

func (p *pod) grace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if s := p.spec.TerminationGracePeriodSeconds; s != nil {
		seconds = *s
	}
	if s := p.object.DeletionGracePeriodSeconds; s != nil && p.deleted {
		seconds = *s
	}
	return time.Duration(seconds) * time.Second
}

// update takes an object from the API server, unless a newer one is known.
func (p *pod) update(object *corev1.Pod) {
	p.mu.Lock()
	if older(object, p.object) {
		p.mu.Unlock()
		return
	}
	p.object = object.DeepCopy()
	begin := object.DeletionTimestamp != nil && !p.deleted
	p.deleted = p.deleted || begin
	p.mu.Unlock()
	if begin {
		close(p.unwant)
		p.stopAll()
	}
}

// older compares resource versions, which are growing numbers.
func older(a, b *corev1.Pod) bool {
	x, errA := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errB := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errA == nil && errB == nil && x < y
}

// now is the time as the API stores it, in whole seconds.
func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

// resolver reads what the pod refers to, with the pod as it is now.
func (p *pod) resolver() resolver {
	p.mu.Lock()
	defer p.mu.Unlock()
	object := p.object.DeepCopy()
	object.Status.PodIP, object.Status.HostIP = p.ip, "127.0.0.1"
	return resolver{client: p.node.client, pod: object}
}

// sleep waits, and reports false when the pod is to stop instead.
func (p *pod) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return p.ctx.Err() == nil
	case <-p.ctx.Done():
		return false
	}
}

// changed asks for the status to be written.
func (p *pod) changed() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

func (p *pod) container(name string) (*ctr, error) {
	for _, c := range append(append([]*ctr{}, p.init...), p.main...) {
		if c.spec.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("container %s is not valid for pod %s", name, p.name)
}
