package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// probe runs the probes of a container that just started, until the context
// ends. The channel gets the name of the probe that found the container dead.
func (c *ctr) probe(ctx context.Context) <-chan string {
	dead := make(chan string, 2)
	die := func(what string) { dead <- what }
	go func() {
		if p := c.spec.StartupProbe; p != nil {
			if !c.watch("Startup", p).untilStarted(ctx) {
				if ctx.Err() == nil {
					die("startup probe")
				}
				return
			}
			c.started()
		}
		if p := c.spec.LivenessProbe; p != nil {
			go func() {
				if !c.watch("Liveness", p).whileAlive(ctx) && ctx.Err() == nil {
					die("liveness probe")
				}
			}()
		}
		if p := c.spec.ReadinessProbe; p != nil {
			c.watch("Readiness", p).each(ctx, c.ready)
		}
	}()
	return dead
}

// watch makes the prober of one probe, which reports failures as events.
func (c *ctr) watch(kind string, p *corev1.Probe) *prober {
	return &prober{
		delay:   time.Duration(p.InitialDelaySeconds) * time.Second,
		period:  time.Duration(max(p.PeriodSeconds, 1)) * time.Second,
		success: max(p.SuccessThreshold, 1),
		failure: max(p.FailureThreshold, 1),
		check: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
			defer cancel()
			err := c.check(ctx, p.ProbeHandler)
			if err != nil && !errors.Is(err, context.Canceled) {
				c.pod.warn("Unhealthy", fmt.Sprintf("%s probe failed: %v", kind, err))
			}
			return err
		},
	}
}

// prober runs one check again and again and counts how often it went well or
// badly in a row.
type prober struct {
	delay, period    time.Duration
	success, failure int32
	check            func(context.Context) error
}

// each calls verdict whenever enough checks in a row agree on another answer
// than before. Before the first answer the container counts as failing.
func (p *prober) each(ctx context.Context, verdict func(ok bool)) {
	p.loop(ctx, false, func(ok bool) bool {
		verdict(ok)
		return true
	})
}

// untilStarted reports true when the check succeeds, false when it failed too
// often or the context ended.
func (p *prober) untilStarted(ctx context.Context) bool {
	started := false
	p.loop(ctx, true, func(ok bool) bool {
		started = ok
		return false
	})
	return started
}

// whileAlive returns false when the check failed too often, and true when the
// context ended before that.
func (p *prober) whileAlive(ctx context.Context) bool {
	alive := true
	p.loop(ctx, true, func(ok bool) bool {
		alive = ok
		return ok
	})
	return alive
}

// loop calls verdict when a threshold is reached; it ends when verdict returns
// false. With all, an answer that confirms the one before is told as well.
func (p *prober) loop(ctx context.Context, all bool, verdict func(ok bool) bool) {
	if !pause(ctx, p.delay) {
		return
	}
	var good, bad int32
	last := false
	for {
		err := p.check(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			good, bad = good+1, 0
		} else {
			good, bad = 0, bad+1
		}
		ok := good >= p.success
		if (ok || bad >= p.failure) && (all || ok != last) {
			last = ok
			if !verdict(ok) {
				return
			}
		}
		if !pause(ctx, p.period) {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
