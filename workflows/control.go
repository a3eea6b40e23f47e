package workflows

import (
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// control is what operators and the watcher ask of an open run.
type control struct {
	// aborted is set by the signal abort, paused by pause and resume.
	aborted bool
	paused  bool
	// yielded is set by the signal yield: a run that only waits makes room for another.
	yielded bool
	// woken counts signals, so that waiting steps can tell that the world may have changed.
	woken int
	// retarget is the newest wanted release that a signal named.
	retarget string
	// interrupt ends the interruptible step under way; nil while there is none.
	interrupt workflow.CancelFunc
	// target is what the run aims at: a signal that names it interrupts nothing.
	target string
}

// listen handles signals for as long as the run lives. The context must outlive the run's cancellation.
func (c *control) listen(ctx workflow.Context) {
	retarget := described(ctx, update.SignalRetarget, "The wanted release changed: look at the resource again. Payload: {\"release\": \"…\"}.")
	abort := described(ctx, update.SignalAbort, "Give the update up: roll back, or let the database operation finish first. No payload.")
	pause := described(ctx, update.SignalPause, "Hold the run between two steps. No payload.")
	resume := described(ctx, update.SignalResume, "Go on after pause. No payload.")
	makeRoom := described(ctx, update.SignalYield, "End, if the run only waits for its window or for updates to be resumed, so that a backup or restore can begin. No payload.")
	selector := workflow.NewNamedSelector(ctx, "signals")
	selector.AddReceive(retarget, func(ch workflow.ReceiveChannel, _ bool) {
		c.retargeted(retargetOf(ctx, ch))
	})
	selector.AddReceive(abort, func(ch workflow.ReceiveChannel, _ bool) {
		ch.Receive(ctx, nil)
		c.aborted = true
		c.wake(true)
	})
	selector.AddReceive(pause, func(ch workflow.ReceiveChannel, _ bool) {
		ch.Receive(ctx, nil)
		c.paused = true
		c.wake(false)
	})
	selector.AddReceive(resume, func(ch workflow.ReceiveChannel, _ bool) {
		ch.Receive(ctx, nil)
		c.paused = false
		c.wake(false)
	})
	selector.AddReceive(makeRoom, func(ch workflow.ReceiveChannel, _ bool) {
		ch.Receive(ctx, nil)
		c.yielded = true
	})
	workflow.GoNamed(ctx, "signals", func(ctx workflow.Context) {
		for {
			selector.Select(ctx)
		}
	})
}

// retargetOf takes a signal that is there. It is sent by hand as well: one that cannot be read wakes the run all the same,
// which then reads the resource. Receive would drop it, wait for another one, and so stop the run for ever. One that is
// encrypted under a key which has not arrived yet fails the workflow task, which is tried again.
func retargetOf(ctx workflow.Context, ch workflow.ReceiveChannel) update.Retarget {
	var raw converter.RawValue
	if !ch.ReceiveAsync(&raw) {
		panic("the signal " + update.SignalRetarget + " cannot be decrypted yet")
	}
	var signal update.Retarget
	if err := converter.GetDefaultDataConverter().FromPayload(raw.Payload(), &signal); err != nil {
		workflow.GetLogger(ctx).Warn("a signal cannot be read", "signal", update.SignalRetarget)
		return update.Retarget{}
	}
	return signal
}

// described is a signal's channel; the description is shown where operators choose signals.
func described(ctx workflow.Context, name, description string) workflow.ReceiveChannel {
	return workflow.GetSignalChannelWithOptions(ctx, name, workflow.SignalChannelOptions{Description: description})
}

// settle lets the signals that came with this workflow task be handled. Without it a signal that comes together with the
// last activity's result is in the hands of the listener, which has not run yet, and would be lost when the run ends.
// The coroutines of a workflow take turns in the order in which they were made, so the listener is before the new one.
func settle(ctx workflow.Context) {
	settled := false
	workflow.GoNamed(ctx, "settle", func(workflow.Context) { settled = true })
	_ = workflow.Await(ctx, func() bool { return settled }) // the context outlives cancellation: it cannot fail
}

func (c *control) retargeted(signal update.Retarget) {
	c.retarget = signal.Release
	c.wake(c.movedOn())
}

// movedOn tells whether a signal named another release than the one that the run aims at.
func (c *control) movedOn() bool {
	return c.retarget != "" && c.target != "" && c.retarget != c.target
}

func (c *control) wake(interrupt bool) {
	c.woken++
	if interrupt && c.interrupt != nil {
		c.interrupt()
	}
}

// interruptible derives a context that abort, a new target and the run's cancellation end. done must be called after the step.
func (c *control) interruptible(ctx workflow.Context) (step workflow.Context, done func()) {
	step, cancel := workflow.WithCancel(ctx)
	c.interrupt = cancel
	if c.aborted || c.movedOn() {
		cancel()
	}
	return step, func() {
		c.interrupt = nil
		cancel()
	}
}
