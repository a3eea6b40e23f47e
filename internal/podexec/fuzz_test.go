package podexec

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const fuzzNonce = "drupdate-00112233445566778899aabbccddeeff"

// frames is what the wrapper writes around two streams.
func frames(stdout, stderr []byte, exit uint8) (o, e []byte) {
	end := fmt.Sprintf("\n%s end %d %d %d\n", fuzzNonce, exit, len(stdout), len(stderr))
	start := fuzzNonce + " start\n"
	return []byte(start + string(stdout) + end), []byte(start + string(stderr) + end)
}

// fed is a capture that a stream arrived at in pieces.
func fed(t *testing.T, stream []byte, limit, piece int) *capture {
	t.Helper()
	c := newCapture(limit)
	for len(stream) > 0 {
		n := min(max(piece, 1), len(stream))
		if wrote, err := c.Write(stream[:n]); err != nil || wrote != n {
			t.Fatalf("a capture takes everything: %d of %d, %v", wrote, n, err)
		}
		stream = stream[n:]
	}
	return c
}

// FuzzFramesRoundTrip: what was framed comes back whole, in whatever pieces it arrives; without its last byte, or any
// bytes in the middle, it is not complete.
func FuzzFramesRoundTrip(f *testing.F) {
	f.Add([]byte("out\n"), []byte("err"), uint8(0), uint16(3), uint16(5))
	f.Add([]byte{}, []byte{}, uint8(255), uint16(1), uint16(0))
	f.Add([]byte("\n"+fuzzNonce+" end 0 0 0\n"), []byte(fuzzNonce+" start\n"), uint8(7), uint16(64), uint16(40))
	f.Add(bytes.Repeat([]byte("x"), 4000), []byte("\x00\xff"), uint8(1), uint16(1000), uint16(2000))
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, exit uint8, piece, lost uint16) {
		const limit = 1 << 10
		o, e := frames(stdout, stderr, exit)
		got, started := judge(fuzzNonce, fed(t, o, limit, int(piece)), fed(t, e, limit, int(piece)))
		if !started || !got.Complete || got.ExitCode != int(exit) {
			t.Fatalf("not the answer that was sent: %+v", got)
		}
		for name, pair := range map[string][2]string{"stdout": {string(stdout), got.Stdout}, "stderr": {string(stderr), got.Stderr}} {
			sent, came := pair[0], pair[1]
			if len(came) > limit+2*frameRoom+64 {
				t.Fatalf("%s: %d bytes are kept", name, len(came))
			}
			if came != sent && !strings.Contains(came, "bytes left out]") {
				t.Fatalf("%s: %q is not %q", name, came, sent)
			}
		}
		from := int(lost) % len(o)
		for _, cut := range [][]byte{o[:from], append(bytes.Clone(o[:from]), o[from+1:]...)} {
			if len(stdout) > limit && bytes.Equal(cut, o) {
				continue
			}
			if got, _ := judge(fuzzNonce, fed(t, cut, limit, int(piece)), fed(t, e, limit, int(piece))); got.Complete {
				t.Fatalf("complete though %d of %d bytes came", len(cut), len(o))
			}
		}
	})
}

// FuzzJudge: streams of who knows what are complete only with both end frames and the right number of bytes.
func FuzzJudge(f *testing.F) {
	o, e := frames([]byte("[]"), []byte("x"), 0)
	f.Add(o, e)
	f.Add(o, []byte{})
	f.Add(o[:len(o)-1], e)
	f.Add([]byte("sh: warning\n"+string(o)), e)
	f.Add([]byte(fuzzNonce+" start\n\n"+fuzzNonce+" end 99999999999999999999 1 1\n"), e)
	f.Add([]byte(fuzzNonce+" start\n"+fuzzNonce+" end 0 -1 -1\n"), e)
	f.Add([]byte(" end 0 0 0\n"+fuzzNonce), bytes.Repeat([]byte(fuzzNonce), 100))
	f.Fuzz(func(t *testing.T, stdout, stderr []byte) {
		got, started := judge(fuzzNonce, fed(t, stdout, 1<<10, 100), fed(t, stderr, 1<<10, 100))
		start, end := []byte(fuzzNonce+" start\n"), []byte("\n"+fuzzNonce+" end ")
		if started && !bytes.Contains(stdout, start) && !bytes.Contains(stderr, start) {
			t.Fatal("started without the frame")
		}
		if got.Complete == (got.Note != "") {
			t.Fatalf("complete and a reason why not, or neither: %+v", got)
		}
		if !got.Complete {
			return
		}
		for _, s := range [][]byte{stdout, stderr} {
			if !bytes.Contains(s, start) || !bytes.Contains(s, end) || !bytes.HasSuffix(s, []byte("\n")) {
				t.Fatalf("complete without both frames: %q", s)
			}
		}
		if got.ExitCode < 0 {
			t.Fatalf("exit code %d", got.ExitCode)
		}
		size := len(stdout) - bytes.Index(stdout, start) - len(start) - (len(stdout) - bytes.LastIndex(stdout, end))
		if !bytes.Contains(stdout[bytes.LastIndex(stdout, end):], fmt.Appendf(nil, " %d ", size)) {
			t.Fatalf("complete with another number of bytes than %d: %q", size, stdout)
		}
	})
}
