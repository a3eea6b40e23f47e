package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/internal/update"
)

// Pauses between looks at a rollout, and the limit of one look.
const (
	firstLook = time.Second
	mostLook  = 3 * time.Second
	lookLimit = 15 * time.Second
)

// rolloutBeat is what WaitRollout tells by heartbeat, and remembers by it from one attempt to the next.
type rolloutBeat struct {
	Text string    `json:"text"`
	Seen sightings `json:"seen"`
	// Told is what the condition Updating says that the rollout waits for.
	Told string `json:"told,omitempty"`
}

// WaitRollout looks at the Deployment until its rollout has ended, one way or another. A fault of the API server is
// returned for Temporal to try again; what was seen so far survives in the heartbeat.
func (a *Activities) WaitRollout(ctx context.Context, in update.RolloutWait) (update.Rollout, error) {
	site, err := a.site(ctx, in.Change.Site)
	if err != nil {
		return update.Rollout{}, err
	}
	w := wanted{
		site: site, release: in.Change.Release, uid: types.UID(in.Change.UID),
		generation: in.Change.Generation, deadline: in.Deadline, notReady: in.AllowNotReady,
	}
	state := rolloutBeat{Text: "looking at the Deployment", Seen: sightings{At: activity.GetInfo(ctx).ScheduledTime}}
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &state) // Unreadable details only make the signs count anew.
	}
	for n := 0; ; n++ {
		activity.RecordHeartbeat(ctx, state)
		j, err := a.step(ctx, w, state.Seen)
		if err != nil {
			return update.Rollout{}, err
		}
		if j.idle != state.Told {
			a.waitsForControllers(ctx, in.Change.Site, j.idle)
		}
		if j.result != nil {
			return *j.result, nil
		}
		state = rolloutBeat{Text: j.progress, Seen: j.seen, Told: j.idle}
		activity.RecordHeartbeat(ctx, state)
		if err := a.pause(ctx, backoff(n, firstLook, mostLook)); err != nil {
			return update.Rollout{}, err
		}
	}
}

// waitsForControllers says in the condition Updating that the rollout waits for the cluster itself; empty takes that away.
func (a *Activities) waitsForControllers(ctx context.Context, s update.Site, what string) {
	site, err := a.site(ctx, s)
	if err != nil {
		return // it is for people to read, and tried again with the next change
	}
	if what != "" {
		what = fmt.Sprintf("for %s; the cluster's controllers may be down.", what)
	}
	a.waits(ctx, site, what)
}

// step looks once, judges, and does what the judgement asks for.
func (a *Activities) step(ctx context.Context, w wanted, seen sightings) (judgement, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	l, err := a.look(ctx, w)
	if err != nil {
		return judgement{}, err
	}
	j := judge(w, l, seen)
	switch {
	case j.reapply:
		j.seen.Applied++
		j.seen.Generation, err = a.apply(ctx, w.site, l.deployment, w.release)
	case j.result != nil && j.result.Reason == update.ReasonRolloutTimeout:
		j.result.Message = clean(j.result.Message + a.hint(ctx, w, l))
	}
	return j, err
}

// look reads the Deployment, its ReplicaSets and its pods, live.
func (a *Activities) look(ctx context.Context, w wanted) (look, error) {
	d, err := a.deployment(ctx, w.site)
	if err != nil || d == nil {
		return look{now: a.clock.Now()}, err
	}
	sets, pods, err := a.children(ctx, d)
	return look{now: a.clock.Now(), deployment: d, replicaSets: sets, pods: pods}, err
}

// children are the ReplicaSets and pods that a Deployment selects.
func (a *Activities) children(ctx context.Context, d *appsv1.Deployment) ([]appsv1.ReplicaSet, []corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, nil, permanent(update.FailureInvalid, "read selector of Deployment %q: %w", d.Name, err)
	}
	options := []client.ListOption{client.InNamespace(d.Namespace), client.MatchingLabelsSelector{Selector: selector}}
	var sets appsv1.ReplicaSetList
	if err := a.client.List(ctx, &sets, options...); err != nil {
		return nil, nil, fmt.Errorf("list ReplicaSets of %q: %w", d.Name, err)
	}
	var pods corev1.PodList
	if err := a.client.List(ctx, &pods, options...); err != nil {
		return nil, nil, fmt.Errorf("list pods of %q: %w", d.Name, err)
	}
	return sets.Items, pods.Items, nil
}

// telling are the reasons of Events that explain a pod which does not start.
var telling = []string{"FailedAttachVolume", "FailedMount", "FailedScheduling", "FailedCreatePodSandBox"}

// hint is what Events say about the new pods that are not there yet: a volume that another node holds, mostly. It is
// for people only, so a fault of the API server leaves it out.
func (a *Activities) hint(ctx context.Context, w wanted, l look) string {
	newest := newestReplicaSet(w.site, l.deployment, l.replicaSets, w.release)
	for i := range l.pods {
		if newest == nil || !metav1.IsControlledBy(&l.pods[i], newest) || l.pods[i].Status.Phase != corev1.PodPending {
			continue
		}
		if said := a.newestEvent(ctx, &l.pods[i]); said != "" {
			return "; " + said
		}
	}
	return ""
}

// newestEvent is the message of the newest telling Event about a pod; empty when there is none, or none can be read.
func (a *Activities) newestEvent(ctx context.Context, p *corev1.Pod) string {
	var list corev1.EventList
	err := a.client.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{"involvedObject.uid": string(p.UID)})
	if err != nil {
		return ""
	}
	var newest *corev1.Event
	for i := range list.Items {
		e := &list.Items[i]
		if slices.Contains(telling, e.Reason) && (newest == nil || !eventTime(e).Before(eventTime(newest))) {
			newest = e
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Reason + ": " + withoutNames(newest.Message)
}

func eventTime(e *corev1.Event) time.Time {
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
