package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drupdate/drupdate/localstack/internal/container"
)

// The log of a container has a line of output a line, after its time and its
// stream, as a container runtime writes it.
func logFile(dir string) string     { return filepath.Join(dir, "log") }
func previousLog(dir string) string { return filepath.Join(dir, "log.previous") }

// longestLine is where a longer line is cut into several.
const longestLine = 16 << 10

// logWriter takes the output of one run of a container.
type logWriter struct {
	mu    sync.Mutex
	file  *os.File
	given []*os.File
	tasks sync.WaitGroup
	child container.Streams
}

// openLog starts a new log and keeps the one before.
func openLog(dir string) (*logWriter, error) {
	if err := os.Rename(logFile(dir), previousLog(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open log: %w", err)
	}
	file, err := os.Create(logFile(dir))
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &logWriter{file: file}
	for _, stream := range []struct {
		name string
		at   **os.File
	}{{"stdout", &l.child.Stdout}, {"stderr", &l.child.Stderr}} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
		*stream.at, l.given = w, append(l.given, w)
		l.tasks.Go(func() { l.record(stream.name, r) })
	}
	return l, nil
}

func (l *logWriter) streams() container.Streams { return l.child }

// handedOver is to be called when the container has the streams.
func (l *logWriter) handedOver() {
	for _, f := range l.given {
		_ = f.Close() // the container has its own copy.
	}
}

// wait returns when all output is in the log.
func (l *logWriter) wait() {
	l.tasks.Wait()
	_ = l.file.Close() // every write was checked.
}

func (l *logWriter) record(stream string, from io.ReadCloser) {
	lines := bufio.NewReaderSize(from, longestLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			l.write(stream, line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	_ = from.Close() // it was read to its end.
}

func (l *logWriter) write(stream string, line []byte) {
	tag := "F"
	text := strings.TrimSuffix(string(line), "\n")
	if len(text) == len(line) {
		tag = "P" // the rest of the line follows, or the output ended without a newline.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.file, "%s %s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), stream, tag, text) // a full disk must not block the container.
}

// logLine is one line of a log file.
type logLine struct {
	time time.Time
	text string // with its newline, unless it is a part.
}

func parseLine(raw string) (logLine, bool) {
	parts := strings.SplitN(strings.TrimSuffix(raw, "\n"), " ", 4)
	if len(parts) != 4 {
		return logLine{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, parts[0])
	if err != nil {
		return logLine{}, false
	}
	text := parts[3]
	if parts[2] == "F" {
		text += "\n"
	}
	return logLine{time: at, text: text}, true
}

// lastLines returns the end of a log.
func lastLines(path string, count int) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	var lines []string
	for line := range strings.Lines(string(raw)) {
		if parsed, ok := parseLine(line); ok {
			lines = append(lines, parsed.text)
		}
	}
	return lines[max(0, len(lines)-count):], nil
}
