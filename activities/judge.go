package activities

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/siteimage"
	"github.com/drupdate/drupdate/internal/update"
)

// Reasons of a failed rollout, besides those that Kubernetes itself gives to a waiting container.
const (
	reasonReplicaFailure    = "ReplicaFailure"
	reasonProgressDeadline  = "ProgressDeadlineExceeded"
	reasonCrashLoop         = "CrashLoopBackOff"
	reasonImagePullBackOff  = "ImagePullBackOff"
	reasonErrImagePull      = "ErrImagePull"
	reasonErrImageNever     = "ErrImageNeverPull"
	reasonInvalidImageName  = "InvalidImageName"
	reasonConfigError       = "CreateContainerConfigError"
	reasonContainerError    = "CreateContainerError"
	reasonReplicaSetMissing = "ReplicaSetCreateError"
)

// How long, and so in at least two looks, a sign of failure must be seen before it counts.
const (
	pullPatience    = 5 * time.Second  // a first failed pull often heals
	configPatience  = 30 * time.Second // a Secret may still be on its way
	replicaPatience = 10 * time.Second // a quota may be freed by the old pods
	latePatience    = 15 * time.Second // the controller now and then reports a rollout late that is done seconds after
	idlePatience    = 30 * time.Second // controllers that restart take over within that
	minRestarts     = 3
	mostApplies     = 2
)

// annotationRevision is the Deployment controller's number of a ReplicaSet.
const annotationRevision = "deployment.kubernetes.io/revision"

// wanted is what a rollout is judged against.
type wanted struct {
	site       *v1alpha1.DrupalSite
	release    string
	uid        types.UID
	generation int64
	deadline   time.Time
	// notReady is content with running containers of the release.
	notReady bool
}

// look is what was seen of a Deployment at one time. A Deployment that is gone is nil.
type look struct {
	now         time.Time
	deployment  *appsv1.Deployment
	replicaSets []appsv1.ReplicaSet
	pods        []corev1.Pod
}

// sightings are what earlier looks saw: since when a sign of failure is there. It travels in heartbeats.
type sightings struct {
	Since map[string]time.Time `json:"since,omitempty"`
	// Applied counts how often the image was set again against somebody else.
	Applied int `json:"applied,omitempty"`
	// Generation is what the newest of those writes asked for.
	Generation int64 `json:"generation,omitempty"`
	// Idle is for how long, in all, the cluster's controllers did nothing: the deadline is put off by it.
	Idle time.Duration `json:"idle,omitempty"`
	// At is when the last look was, and Unseen for how long, in all, nobody could look: the deadline is put off by that too.
	At     time.Time     `json:"at,omitzero"`
	Unseen time.Duration `json:"unseen,omitempty"`
}

// after is what earlier looks saw, for a look at now. A worker or an API server that was away has left a gap: that time says
// nothing of the release, and what was seen before it may have come and gone.
func (s sightings) after(now time.Time) sightings {
	if gap := now.Sub(s.At); !s.At.IsZero() && gap > mostGap {
		s.Since, s.Unseen = nil, s.Unseen+gap
	}
	s.At = now
	return s
}

// judgement is what one look says. A nil result means: wait on.
type judgement struct {
	result *update.Rollout
	// reapply asks for the image to be set again.
	reapply bool
	// progress says, for the heartbeat, how far the rollout is.
	progress string
	// waitingFor says, for the deadline, what is missing: no pod names, no counters.
	waitingFor string
	// idle names what the cluster's own controllers have not done for idlePatience; empty while they work.
	idle string
	seen sightings
}

// judge decides from one look, and from what earlier ones saw, how a rollout stands. It is pure.
func judge(w wanted, l look, before sightings) judgement {
	before = before.after(l.now)
	j := judgement{seen: before}
	j.seen.Since = map[string]time.Time{}
	d := l.deployment
	if d == nil || (w.uid != "" && d.UID != w.uid) {
		j.end(update.RolloutReplaced, "", "the Deployment was deleted or replaced")
		return j
	}
	if why := suspended(d); why != "" {
		return j.suspended(l, before, why)
	}
	if !siteimage.Carries(w.site, &d.Spec.Template, w.release) {
		return j.overruled(w, before)
	}
	return j.rolling(w, l, before)
}

func (j *judgement) end(state update.RolloutState, reason, message string) {
	j.result = &update.Rollout{State: state, Reason: reason, Message: clean(message)}
}

func (j judgement) suspended(l look, before sightings, why string) judgement {
	j.progress, j.waitingFor = why, why
	if _, again := j.sight("suspended", l.now, before); again {
		j.end(update.RolloutSuspended, "", why)
	}
	return j
}

// overruled answers somebody who set another image: twice by setting ours again, then by giving up.
func (j judgement) overruled(w wanted, before sightings) judgement {
	j.seen.Since = before.Since
	if before.Applied < mostApplies {
		j.reapply, j.progress = true, "somebody else set another image: setting ours again"
		return j
	}
	j.end(update.RolloutOverruled, update.ReasonOverruled, fmt.Sprintf("somebody else keeps setting another image than the one of %s", w.release))
	return j
}

func (j judgement) rolling(w wanted, l look, before sightings) judgement {
	d := l.deployment
	j.progress = fmt.Sprintf("%d of %d pods of %s available", available32(d), replicas(d), w.release)
	j.waitingFor = fmt.Sprintf("the pods of %s to be available", w.release)
	newest := newestReplicaSet(w.site, d, l.replicaSets, w.release)
	observed := d.Status.ObservedGeneration >= max(w.generation, before.Generation, d.Generation)
	if !observed {
		j.waitingFor = "the Deployment controller to observe the change"
	} else if w.notReady && running(w, l, newest) {
		j.end(update.RolloutComplete, "", "")
		return j
	} else if complete(d) {
		if !oldPods(d, newest, l.replicaSets, l.pods) {
			j.end(update.RolloutComplete, "", "")
			return j
		}
		j.waitingFor = "the pods of other releases to end"
	}
	j.failing(w, l, newest, observed, before)
	waits := j.idling(l, newest, observed, before)
	if j.result == nil && !waits && !l.now.Before(w.deadline.Add(j.seen.Idle+j.seen.Unseen)) {
		j.end(update.RolloutFailed, update.ReasonRolloutTimeout, "waited in vain for "+j.waitingFor)
	}
	return j
}

// signIdle is since when nobody did what the controllers do at once.
const signIdle = "idle"

// idling tells whether the rollout waits for a controller of the cluster, and keeps account of that time: it says nothing
// of the release.
func (j *judgement) idling(l look, newest *appsv1.ReplicaSet, observed bool, before sightings) bool {
	what := undone(l, newest, observed)
	since, again := before.Since[signIdle]
	if what == "" {
		if gone := l.now.Sub(since); again && gone >= idlePatience {
			j.seen.Idle += gone
		}
		return false
	}
	if since, _ = j.sight(signIdle, l.now, before); l.now.Sub(since) >= idlePatience {
		j.progress, j.idle = "waiting for "+what, what
	}
	return true
}

// undone is what a controller of the cluster has still to do before the release can show whether it works; empty when
// nothing is. Whatever a controller refuses or fails to do it says in a condition, and that is judged.
func undone(l look, newest *appsv1.ReplicaSet, observed bool) string {
	switch {
	case !observed:
		return "the Deployment controller to observe the change"
	case newest != nil:
		return undonePods(l.pods, newest)
	case oldPods(l.deployment, nil, l.replicaSets, l.pods):
		return "" // with the strategy Recreate it waits for them
	}
	return "the Deployment controller to make the ReplicaSet"
}

// undonePods is the part of undone that is about the pods of the new ReplicaSet.
func undonePods(pods []corev1.Pod, newest *appsv1.ReplicaSet) string {
	var there int32
	for i := range pods {
		p := &pods[i]
		if !metav1.IsControlledBy(p, newest) || p.DeletionTimestamp != nil || podEnded(p) {
			continue
		}
		if there++; unseen(p) {
			return "the scheduler to place a pod"
		}
	}
	_, refused := refusal(newest)
	if newest.Status.ObservedGeneration < newest.Generation || there < ptr.Deref(newest.Spec.Replicas, 1) && !refused {
		return "the ReplicaSet controller to make the pods"
	}
	return ""
}

// unseen tells whether no scheduler has looked at a pod yet.
func unseen(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && len(p.Status.ContainerStatuses) == 0 &&
		!slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// complete tells whether every counter says that only updated and available pods are there.
func complete(d *appsv1.Deployment) bool {
	want, s := replicas(d), d.Status
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want && s.UnavailableReplicas == 0
}

// running tells whether the release's own pods run, ready or not. Where maintenance mode fails the readiness probe, the
// Deployment controller keeps the pods before them until that is over; they answer 503 as well.
func running(w wanted, l look, newest *appsv1.ReplicaSet) bool {
	var n int32
	for i := range l.pods {
		p := &l.pods[i]
		if newest == nil || !metav1.IsControlledBy(p, newest) || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			continue
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == w.site.Spec.Runtime.Container && s.State.Running != nil {
				n++
			}
		}
	}
	return n > 0 && n >= replicas(l.deployment)
}

func available32(d *appsv1.Deployment) int32 {
	return min(d.Status.AvailableReplicas, d.Status.UpdatedReplicas)
}

// newestReplicaSet is the Deployment's own ReplicaSet of the release with the highest revision, if it is the highest
// of all: before the controller made it, or reused an older one, there is none.
func newestReplicaSet(site *v1alpha1.DrupalSite, d *appsv1.Deployment, sets []appsv1.ReplicaSet, release string) *appsv1.ReplicaSet {
	var newest *appsv1.ReplicaSet
	for i := range sets {
		if metav1.IsControlledBy(&sets[i], d) && (newest == nil || revision(&sets[i]) > revision(newest)) {
			newest = &sets[i]
		}
	}
	if newest == nil || !siteimage.Carries(site, &newest.Spec.Template, release) {
		return nil
	}
	return newest
}

func revision(set *appsv1.ReplicaSet) int64 {
	n, _ := strconv.ParseInt(set.Annotations[annotationRevision], 10, 64) // Absent counts as the oldest.
	return n
}

// oldPods tells whether a pod of any other ReplicaSet of this Deployment still runs, or ends. Pods that have ended
// (evicted ones stay in the list) do not count, nor do those of a ReplicaSet that another Deployment owns.
func oldPods(d *appsv1.Deployment, newest *appsv1.ReplicaSet, sets []appsv1.ReplicaSet, pods []corev1.Pod) bool {
	foreign := map[types.UID]bool{}
	for i := range sets {
		foreign[sets[i].UID] = !metav1.IsControlledBy(&sets[i], d)
	}
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		if owner == nil || owner.Kind != "ReplicaSet" || foreign[owner.UID] || podEnded(&p) {
			return false
		}
		return newest == nil || owner.UID != newest.UID
	})
}

func podEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// sight notes a sign of failure. It returns since when it is there, and whether an earlier look saw it too.
func (j *judgement) sight(key string, now time.Time, before sightings) (since time.Time, again bool) {
	since, again = before.Since[key]
	if !again {
		since = now
	}
	j.seen.Since[key] = since
	return since, again
}

// lasting notes a sign, and tells whether it has been there for so long, over at least two looks.
func (j *judgement) lasting(key string, now time.Time, before sightings, patience time.Duration) bool {
	since, again := j.sight(key, now, before)
	return again && now.Sub(since) >= patience
}
