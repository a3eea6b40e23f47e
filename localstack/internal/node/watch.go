package node

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// watchPods takes up the pods of this node and follows what becomes of them.
func (n *Node) watchPods(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(n.client, resync, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", n.config.Name).String()
	}))
	pods := factory.Core().V1().Pods()
	informer := pods.Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("watch pods: stopped before the first list")
	}
	keep := map[types.UID]bool{}
	for _, object := range informer.GetStore().List() {
		keep[object.(*corev1.Pod).UID] = true
	}
	if err := n.clean(keep); err != nil {
		return err
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.saw(o.(*corev1.Pod)) },    //nolint:contextcheck // a pod has the context of the node.
		UpdateFunc: func(_, o any) { n.saw(o.(*corev1.Pod)) }, //nolint:contextcheck // a pod has the context of the node.
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			n.lost(o.(*corev1.Pod).UID)
		},
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return nil
}

// saw takes a pod up, or passes on how it is now.
func (n *Node) saw(object *corev1.Pod) {
	n.mu.Lock()
	p, known := n.pods[object.UID]
	if !known {
		var err error
		if p, err = n.take(object); err != nil {
			n.mu.Unlock()
			n.log.Error("take up pod", "pod", object.Name, "namespace", object.Namespace, "error", err)
			return
		}
		n.pods[object.UID] = p
	}
	n.mu.Unlock()
	p.update(object)
	if !known {
		go p.live()
		return
	}
	// Somebody else may have changed the status: the controller manager marks the pods of a node that it took for lost,
	// and nobody but the node says that they are ready again.
	p.changed()
}

// take makes a pod, with the address that it had before if it had one.
func (n *Node) take(object *corev1.Pod) (*pod, error) {
	ip := object.Status.PodIP
	if !terminal(object) {
		var err error
		if ip, err = n.addresses.take(ip); err != nil {
			return nil, err
		}
	}
	p := newPod(n.ctx, n, object, ip)
	for _, c := range append(append([]*ctr{}, p.init...), p.main...) {
		if err := os.MkdirAll(c.dir, 0o755); err != nil {
			return nil, fmt.Errorf("make pod folder: %w", err)
		}
	}
	return p, nil
}

// lost ends what is left of a pod that the API server has forgotten, and
// removes its folder.
func (n *Node) lost(uid types.UID) {
	n.mu.Lock()
	p := n.pods[uid]
	n.mu.Unlock()
	if p == nil {
		return
	}
	close(p.gone)
	p.kill()
	p.stop()
	go func() {
		<-p.over
		n.mu.Lock()
		delete(n.pods, uid)
		n.mu.Unlock()
		if !p.past {
			n.addresses.release(p.ip)
		}
		if err := os.RemoveAll(p.dir); err != nil {
			n.log.Warn("remove pod folder", "pod", p.name, "namespace", p.namespace, "error", err)
		}
	}()
}
