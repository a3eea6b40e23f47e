package podexec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Errors of Choose.
var (
	// ErrNoPod means that no pod can be asked now; there may be one later.
	ErrNoPod = errors.New("no pod to ask")
	// ErrNoContainer means that the release's pods have no container of that name; waiting does not help.
	ErrNoContainer = errors.New("no such container")
)

// Choice says which pods may be asked.
type Choice struct {
	// Container is the name of the container to be asked. It is required: there is no first container.
	Container string
	// ReplicaSet is the UID of the owner. Empty allows any.
	ReplicaSet types.UID
	// PodTemplateHash is the value of the label of that name. Empty allows any.
	PodTemplateHash string
	// AllowNotReady allows pods that are not Ready, for the time when maintenance mode may fail a probe.
	AllowNotReady bool
}

// Choose returns the pod to be asked: one that is running, not terminating, of the release, with the container
// running. Among several it prefers the ready, then the one that has been so the longest, then the first by name, so
// that the same pods give the same answer. The pods are not changed; the result points into the list.
func Choose(pods []corev1.Pod, want Choice) (*corev1.Pod, error) {
	if want.Container == "" {
		return nil, fmt.Errorf("%w: no name given", ErrNoContainer)
	}
	var candidates []*corev1.Pod
	reasons := map[string]bool{}
	ofRelease, withContainer := 0, 0
	for i := range pods {
		p := &pods[i]
		if !want.isOfRelease(p) {
			reasons["of another release"] = true
			continue
		}
		ofRelease++
		if slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == want.Container }) {
			withContainer++
		}
		if why := want.refuses(p); why != "" {
			reasons[why] = true
			continue
		}
		candidates = append(candidates, p)
	}
	switch {
	case ofRelease > 0 && withContainer == 0:
		return nil, fmt.Errorf("%w: %q", ErrNoContainer, want.Container)
	case len(candidates) == 0:
		return nil, fmt.Errorf("%w: %s", ErrNoPod, list(reasons))
	}
	return slices.MinFunc(candidates, preferred), nil
}

func list(reasons map[string]bool) string {
	if len(reasons) == 0 {
		return "there is none"
	}
	words := make([]string, 0, len(reasons))
	for why := range reasons {
		words = append(words, why)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func (want Choice) isOfRelease(p *corev1.Pod) bool {
	if want.PodTemplateHash != "" && p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != want.PodTemplateHash {
		return false
	}
	owner := metav1.GetControllerOf(p)
	return want.ReplicaSet == "" || (owner != nil && owner.UID == want.ReplicaSet)
}

// refuses says why a pod of the release cannot be asked, without its name.
func (want Choice) refuses(p *corev1.Pod) string {
	switch {
	case p.DeletionTimestamp != nil:
		return "terminating"
	case p.Status.Phase != corev1.PodRunning:
		return "not running"
	case !containerRuns(p, want.Container):
		return "its container is not running"
	case !want.AllowNotReady && readySince(p).IsZero():
		return "not ready"
	}
	return ""
}

func containerRuns(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == name && s.State.Running != nil
	})
}

// readySince returns when the pod became Ready, or the zero time when it is not.
func readySince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			if c.LastTransitionTime.IsZero() {
				return time.Unix(1, 0)
			}
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func preferred(a, b *corev1.Pod) int {
	ra, rb := readySince(a), readySince(b)
	if ra.IsZero() != rb.IsZero() {
		if rb.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Or(ra.Compare(rb), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
