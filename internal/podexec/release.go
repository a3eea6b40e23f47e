package podexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoReplicaSet means that no ReplicaSet of the Deployment's current template exists yet; there may be one later.
var ErrNoReplicaSet = errors.New("no ReplicaSet of the current template")

const revisionAnnotation = "deployment.kubernetes.io/revision"

// PodsOfRelease returns the ReplicaSet that the Deployment's controller made of its current template, and that
// ReplicaSet's pods. Reader must read live, not from a cache. Without such a ReplicaSet the error is ErrNoReplicaSet.
func PodsOfRelease(ctx context.Context, reader client.Reader, d *appsv1.Deployment) ([]corev1.Pod, *appsv1.ReplicaSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, nil, fmt.Errorf("selector of Deployment %q: %w", d.Name, err)
	}
	in := []client.ListOption{client.InNamespace(d.Namespace), client.MatchingLabelsSelector{Selector: selector}}
	var sets appsv1.ReplicaSetList
	if err := reader.List(ctx, &sets, in...); err != nil {
		return nil, nil, fmt.Errorf("list ReplicaSets: %w", err)
	}
	current := newest(sets.Items, d)
	if current == nil {
		return nil, nil, fmt.Errorf("%w: Deployment %q", ErrNoReplicaSet, d.Name)
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, in...); err != nil {
		return nil, nil, fmt.Errorf("list pods: %w", err)
	}
	owned := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, current) })
	return owned, current, nil
}

// newest returns the ReplicaSet of the highest revision among those of the Deployment's own current template.
func newest(sets []appsv1.ReplicaSet, d *appsv1.Deployment) *appsv1.ReplicaSet {
	var found *appsv1.ReplicaSet
	for i := range sets {
		rs := &sets[i]
		if !metav1.IsControlledBy(rs, d) || !sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			continue
		}
		if found == nil || cmp.Or(
			cmp.Compare(revision(rs), revision(found)),
			rs.CreationTimestamp.Compare(found.CreationTimestamp.Time),
			cmp.Compare(rs.Name, found.Name),
		) > 0 {
			found = rs
		}
	}
	return found
}

func revision(rs *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// sameTemplate compares as the Deployment's controller does: without the label that it adds itself.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return apiequality.Semantic.DeepEqual(a, b)
}
