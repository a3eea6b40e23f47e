package update

import "time"

// NotifyWorkflow delivers one notification to the webhook, and ends well whatever comes of it.
const NotifyWorkflow = "Notify"

// SendNotification sends a notification to the webhook once.
const SendNotification Op[Notification, None] = "SendNotification"

// NotificationKind is what a notification tells of. It is the last part of a CloudEvent's type.
type NotificationKind string

const (
	// NotifyStarted: an update began to change a site.
	NotifyStarted NotificationKind = "started"
	// NotifyFinished: an update ended, and nobody needs to do anything: it succeeded, a person aborted it, or nothing was judged.
	NotifyFinished NotificationKind = "finished"
	// NotifyFailed: an update failed; the site was put in order, or its code was kept.
	NotifyFailed NotificationKind = "failed"
	// NotifyWaiting: an update failed, and the site waits for a person.
	NotifyWaiting NotificationKind = "waiting"
)

// Notification tells of one transition of one run. It holds nothing that a history should not: no address, no secret.
type Notification struct {
	// ID is the transition's own: a notification that is sent twice has it twice.
	ID   string           `json:"id"`
	Kind NotificationKind `json:"kind"`
	Time time.Time        `json:"time"`
	Site Site             `json:"site"`
	// Release is the target, From what the site goes, or went, back to; empty where there is none.
	Release    string `json:"release,omitempty"`
	From       string `json:"from,omitempty"`
	Phase      Phase  `json:"phase"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	WorkflowID string `json:"workflowID"`
	RunID      string `json:"runID"`
}

// NotifyID is the id of the notification's own workflow: starting it twice is starting it once.
func (n Notification) NotifyID() string {
	return "notify/" + n.Site.Namespace + "/" + n.Site.Name + "/" + n.ID
}

// NotificationOf is what a report tells the outside, without its ID, Time, From and Reason; false where it tells nothing.
func NotificationOf(r Report) (Notification, bool) {
	if r.RunID == "" || r.Phase == "" || !(r.Started || r.Finished) {
		return Notification{}, false
	}
	n := Notification{Site: r.Site, Phase: r.Phase, Message: r.Message, WorkflowID: r.WorkflowID, RunID: r.RunID}
	switch {
	case !r.Finished:
		n.Kind = NotifyStarted
	case r.Phase.NeedsPerson():
		n.Kind = NotifyWaiting
	case r.Phase == PhaseSucceeded, r.Phase == PhaseRewound, r.Phase == PhaseAborted, r.Phase == PhaseSuspended, r.Phase == PhaseSuperseded:
		n.Kind = NotifyFinished
	default:
		n.Kind = NotifyFailed
	}
	return n, true
}
