package node

import "time"

// The waits of a real kubelet go from ten seconds to five minutes; these have
// the same shape, but let a test see the third crash.
const (
	backoffFirst = time.Second
	backoffLimit = 20 * time.Second
	backoffReset = 2 * backoffLimit // a container that ran this long is well again.
)

// backoff is the growing wait between attempts. The zero value is ready to use.
type backoff struct{ last time.Duration }

// next returns the wait before the next attempt, given how long the last
// attempt went well.
func (b *backoff) next(well time.Duration) time.Duration {
	if b.last == 0 || well >= backoffReset {
		b.last = backoffFirst
		return b.last
	}
	b.last = min(2*b.last, backoffLimit)
	return b.last
}
