package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retryWrite is how long to wait after the API server refused or was away.
const retryWrite = 500 * time.Millisecond

// report writes the status of the pod whenever it changed, until the pod is
// over and its last status is written, or the API server has forgotten it.
func (p *pod) report() {
	for {
		select {
		case <-p.gone:
			return
		case <-p.dirty:
		}
		for !p.write() {
			select {
			case <-p.gone:
				return
			case <-time.After(retryWrite):
			}
		}
	}
}

// write writes the status if it changed, and reports whether that is settled.
func (p *pod) write() bool {
	p.mu.Lock()
	object := p.object.DeepCopy()
	f := p.facts()
	p.mu.Unlock()
	status := podStatus(object, f, now())
	if apiequality.Semantic.DeepEqual(object.Status, status) {
		return true
	}
	object.Status = status
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 10*time.Second)
	defer cancel()
	written, err := p.node.client.CoreV1().Pods(object.Namespace).UpdateStatus(ctx, object, metav1.UpdateOptions{})
	switch {
	case err == nil:
		p.update(written)
		return true
	case apierrors.IsNotFound(err):
		return true
	case apierrors.IsConflict(err):
		p.reread(ctx)
		return p.write()
	default:
		p.node.log.Warn("write pod status", "pod", object.Name, "namespace", object.Namespace, "error", err)
		return false
	}
}

// reread takes the newest object after a conflict.
func (p *pod) reread(ctx context.Context) {
	object, err := p.node.client.CoreV1().Pods(p.namespace).Get(ctx, p.name, metav1.GetOptions{})
	if err != nil || object.UID != p.uid {
		return // the next attempt shows why.
	}
	p.update(object)
}

// facts gathers what the status is made of. The caller holds the lock.
func (p *pod) facts() facts {
	f := facts{ip: p.ip, started: p.started, over: p.ended, reason: p.reason, message: p.message}
	for _, c := range p.init {
		f.init = append(f.init, *c.status.DeepCopy())
	}
	for _, c := range p.main {
		f.main = append(f.main, *c.status.DeepCopy())
	}
	return f
}

// forget tells the API server, once everything has ended and was reported,
// that the pod can go.
func (p *pod) forget() {
	for !(p.past || p.write()) || !p.remove() {
		select {
		case <-p.gone:
			return
		case <-p.node.ctx.Done():
			return
		case <-time.After(retryWrite):
		}
	}
}

func (p *pod) remove() bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 10*time.Second)
	defer cancel()
	grace := int64(0)
	err := p.node.client.CoreV1().Pods(p.namespace).Delete(ctx, p.name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &p.uid},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true
	}
	p.node.log.Warn("delete pod", "pod", p.name, "namespace", p.namespace, "error", err)
	return false
}

func (p *pod) warn(reason, message string) { p.event(corev1.EventTypeWarning, reason, message) }
func (p *pod) note(reason, message string) { p.event(corev1.EventTypeNormal, reason, message) }

func (p *pod) event(kind, reason, message string) {
	p.mu.Lock()
	object := p.object
	p.mu.Unlock()
	p.node.recorder.Event(object, kind, reason, message)
}
