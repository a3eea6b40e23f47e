package podexec

import (
	"bytes"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/drupdate/drupdate/internal/drush"
)

// wrapper is the constant script around each command. No value is ever written into it.
//
//go:embed wrapper.sh
var wrapper string

func wrap(nonce string, argv []string) []string {
	return append([]string{"sh", "-c", wrapper, "drupdate", nonce}, argv...)
}

// stream is one stream without its frames.
type stream struct {
	started  bool
	ended    bool
	exitCode int
	counts   [2]int64 // counts are the bytes of stdout and stderr as the far side counted them
	size     int64    // size is the number of bytes between the frames
	text     string
}

// unframe cuts the frames off. Anything in front of the start frame, such as a complaint of the shell, is left out.
func unframe(nonce string, s snapshot) stream {
	var out stream
	start := []byte(nonce + " start\n")
	at := bytes.Index(s.data, start)
	if at < 0 || (s.gap >= 0 && at+len(start) > s.gap) {
		return out
	}
	out.started = true
	from := at + len(start)
	data := s.data
	if n := out.endFrame(nonce, data); n > 0 && len(data)-n >= from {
		out.ended = true
		data = data[:len(data)-n]
		out.size = s.total - int64(from) - int64(n)
	}
	if s.gap >= from && s.gap < len(data) {
		out.text = fmt.Sprintf("%s\n[%d bytes left out]\n%s", data[from:s.gap], s.total-int64(len(s.data)), data[s.gap:])
		return out
	}
	out.text = string(data[from:])
	return out
}

// endFrame reads the end frame off the end of data and returns its length, or 0.
func (out *stream) endFrame(nonce string, data []byte) int {
	mark := []byte("\n" + nonce + " end ")
	at := bytes.LastIndex(data, mark)
	if at < 0 || !bytes.HasSuffix(data, []byte("\n")) {
		return 0
	}
	fields := strings.Split(strings.TrimSuffix(string(data[at+len(mark):]), "\n"), " ")
	if len(fields) != 3 {
		return 0
	}
	var numbers [3]int64
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 62)
		if err != nil {
			return 0
		}
		numbers[i] = int64(n)
	}
	out.exitCode, out.counts = int(numbers[0]), [2]int64{numbers[1], numbers[2]}
	return len(data) - at
}

// judge joins the two streams. The result is complete only when both ended alike and every byte arrived.
func judge(nonce string, stdout, stderr *capture) (result drush.Result, started bool) {
	o, e := unframe(nonce, stdout.snapshot()), unframe(nonce, stderr.snapshot())
	result = drush.Result{Stdout: o.text, Stderr: e.text}
	switch {
	case !o.started && !e.started:
		result.Note = "no sign that the command started"
	case !o.ended || !e.ended:
		result.Note = "the output was cut off"
	case o.exitCode != e.exitCode || o.counts != e.counts || o.counts != [2]int64{o.size, e.size}:
		result.Note = "bytes of the output are missing"
	default:
		result.Complete, result.ExitCode = true, o.exitCode
	}
	return result, o.started || e.started
}
