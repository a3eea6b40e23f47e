package watcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestPacerDoublesTheWaitOfARequestThatChangesNothing(t *testing.T) {
	t.Parallel()
	var p pacer
	now := epoch
	require.LessOrEqual(t, p.wait("a", now), time.Duration(0), "the first request is due at once")
	var waits []time.Duration
	for range 6 {
		p.done("a", now)
		waits = append(waits, p.wait("a", now))
		now = now.Add(p.wait("a", now))
	}
	require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute}, waits)
	require.LessOrEqual(t, p.wait("b", now), time.Duration(0), "another request is due at once")
	p.done("b", now)
	require.Equal(t, time.Minute, p.wait("b", now))
}

func TestBreakerLetsOneCallerThroughAWait(t *testing.T) {
	t.Parallel()
	var b breaker
	now := epoch
	require.True(t, b.allow(now))
	b.report(false, now)
	b.report(false, now) // was under way when the first one failed: no longer wait for it
	var waits []time.Duration
	for range 7 {
		waits = append(waits, b.retryIn(now))
		require.False(t, b.allow(now))
		now = now.Add(b.retryIn(now))
		require.True(t, b.allow(now))
		require.False(t, b.allow(now), "a second caller waits for the first one's answer")
		b.report(false, now)
	}
	require.Equal(t, []time.Duration{
		5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 2 * time.Minute, 2 * time.Minute,
	}, waits)
	now = now.Add(b.retryIn(now))
	require.True(t, b.allow(now))
	b.report(true, now)
	require.True(t, b.allow(now))
	require.True(t, b.allow(now))
}

func TestACallerThatNeverReportsDoesNotBlockTheOthers(t *testing.T) {
	t.Parallel()
	var b breaker
	b.report(false, epoch)
	now := epoch.Add(b.retryIn(epoch))
	require.True(t, b.allow(now))
	require.False(t, b.allow(now))
	require.True(t, b.allow(now.Add(2*callTimeout)))
}

func TestAnotherSiteOfTheNameIsRememberedAfresh(t *testing.T) {
	t.Parallel()
	var m memory
	key := types.NamespacedName{Namespace: "shops", Name: "shop"}
	m.of(key, "a").update.done("k", epoch)
	require.True(t, m.of(key, "a").update.repeats("k"))
	require.False(t, m.of(key, "b").update.repeats("k"))
	m.forget(key)
	require.Empty(t, m.sites)
}

func TestJitterAddsAtMostAFifth(t *testing.T) {
	t.Parallel()
	require.Zero(t, jitter(0))
	for range 100 {
		d := jitter(time.Minute)
		require.GreaterOrEqual(t, d, time.Minute)
		require.LessOrEqual(t, d, 72*time.Second)
	}
}
