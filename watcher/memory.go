package watcher

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what the process remembers of its sites. All of it may be lost at any time: then a signal is sent once more.
type memory struct {
	mu    sync.Mutex
	sites map[types.NamespacedName]*memo
}

// memo is the memory of one site. Only one reconcile of a site runs at a time, so it has no lock.
type memo struct {
	uid types.UID
	// update, recovery and check pace the requests to Temporal, image the writes of images.
	update, recovery, check, image pacer
	// askAt is when Temporal is asked again whether the run is open.
	askAt time.Time
	// aborted is the value of the annotation drupdate.dev/abort that was acted on, which the cache may not know yet.
	aborted string
	// announced is the request that the owner was last told of, by an Event.
	announced string
	refusal   refusal
	// schedule is what is remembered of the schedule of backups, and hasSchedule that there may be one.
	schedule    scheduling
	hasSchedule bool
}

// of returns the memo of a site; another UID under the same name begins afresh.
func (m *memory) of(key types.NamespacedName, uid types.UID) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sites == nil {
		m.sites = map[types.NamespacedName]*memo{}
	}
	if found := m.sites[key]; found != nil && found.uid == uid {
		return found
	}
	fresh := &memo{uid: uid}
	m.sites[key] = fresh
	return fresh
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sites, key)
}

// refusal remembers which children the API server refused, so that status events do not make the watcher ask at once again.
type refusal struct {
	// objects are the refused ones, as "Kind/name".
	objects map[string]bool
	// text is the condition's message.
	text       string
	generation int64
	until      time.Time
}

func (r refusal) holds(object string, generation int64, now time.Time) bool {
	return r.objects[object] && r.generation == generation && now.Before(r.until)
}

// pacer keeps a request that does not help from being made too often: the wait before it is made again doubles, from
// resendAfter to resendMost. Another request (another key) is made at once. The zero value is ready to use.
type pacer struct {
	key  string
	next time.Time
	step time.Duration
}

// wait is how long a request has to wait; zero or less means that it is due.
func (p *pacer) wait(key string, now time.Time) time.Duration {
	if p.key != key {
		return 0
	}
	return p.next.Sub(now)
}

// repeats tells whether the request is the one that was made last.
func (p *pacer) repeats(key string) bool { return p.key == key }

// done notes that a request was made, or need not be made now.
func (p *pacer) done(key string, now time.Time) {
	if p.key == key {
		p.step = min(2*p.step, resendMost)
	} else {
		p.key, p.step = key, resendAfter
	}
	p.next = now.Add(p.step)
}

// breaker keeps a fleet from hammering an orchestrator that is down: after a failure nobody calls until a wait is over,
// then one caller does, and the wait doubles with every further failure. The zero value is ready to use.
type breaker struct {
	mu   sync.Mutex
	next time.Time
	// step is the present wait; zero while the orchestrator is up.
	step time.Duration
	// trial: a caller was let through and has not reported.
	trial bool
}

// allow tells whether a call may be made now. Its result must be reported.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.step == 0 {
		return true
	}
	if b.shut(now) {
		return false
	}
	// Nobody else for as long as the call may take; so a caller that never reports does not block the others for ever.
	b.trial = true
	b.next = now.Add(2 * callTimeout)
	return true
}

// report notes how a call went. Failures of calls that were under way when the first one failed do not count.
func (b *breaker) report(ok bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case ok:
		b.step = 0
	case b.step == 0:
		b.step = outageFirst
		b.next = now.Add(b.step)
	case b.trial:
		b.step = min(2*b.step, outageMost)
		b.next = now.Add(b.step)
	}
	b.trial = false
}

// retryIn is how long to wait before the next call.
func (b *breaker) retryIn(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.next.Sub(now), time.Second)
}

// closedTo tells whether a call would not be let through: then nothing has to be read for it.
func (b *breaker) closedTo(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shut(now)
}

func (b *breaker) shut(now time.Time) bool { return b.step != 0 && now.Before(b.next) }

// jitter adds up to a fifth, so that many sites do not come back in the same moment.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/5+1) //nolint:gosec // spreads load, protects nothing
}
