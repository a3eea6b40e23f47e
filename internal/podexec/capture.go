package podexec

import "sync"

// frameRoom is kept of each end beyond the limit, so that the frames are never what is dropped.
const frameRoom = 1 << 10

// capture takes a stream of any length, keeps its head and its tail, and drops the middle. Writes never fail and
// never block. It is safe for concurrent use; writes after a snapshot change nothing in the snapshot.
type capture struct {
	mu    sync.Mutex
	limit int // limit of each of the two ends
	head  []byte
	tail  []byte // a ring once it is full
	at    int    // at is where the ring's next byte goes
	total int64
}

func newCapture(maxBytes int) *capture { return &capture{limit: maxBytes/2 + frameRoom} }

// Write implements io.Writer and always takes everything.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.total += int64(n)
	if room := c.limit - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	if len(p) > c.limit {
		p = p[len(p)-c.limit:]
	}
	if room := c.limit - len(c.tail); room > 0 {
		take := min(room, len(p))
		c.tail = append(c.tail, p[:take]...)
		p = p[take:]
	}
	for len(p) > 0 {
		took := copy(c.tail[c.at:], p)
		c.at = (c.at + took) % c.limit
		p = p[took:]
	}
	return n, nil
}

// snapshot is what was captured: the bytes, how many there were in all, and where a gap is (-1 for none).
type snapshot struct {
	data  []byte
	total int64
	gap   int
}

func (c *capture) snapshot() snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := snapshot{total: c.total, gap: -1}
	s.data = append(s.data, c.head...)
	if int64(len(c.head)+len(c.tail)) < c.total {
		s.gap = len(c.head)
	}
	s.data = append(s.data, c.tail[c.at:]...)
	s.data = append(s.data, c.tail[:c.at]...)
	return s
}
