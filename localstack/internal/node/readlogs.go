package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// followPoll is how often a followed log is looked at.
const followPoll = 100 * time.Millisecond

// containerLogs is kubectl logs.
func (n *Node) containerLogs(ctx context.Context, namespace, name, containerName string, o api.ContainerLogOpts) (io.ReadCloser, error) {
	p, err := n.find(namespace, name)
	if err != nil {
		return nil, err
	}
	c, err := p.container(containerName)
	if err != nil {
		return nil, errdefs.AsNotFound(err)
	}
	path := logFile(c.dir)
	if o.Previous {
		path = previousLog(c.dir)
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errdefs.InvalidInput(c.noLog(o.Previous))
	}
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.Close() })
	go func() {
		err := c.copyLog(ctx, w, file, o)
		w.CloseWithError(errors.Join(err, file.Close()))
	}()
	return r, nil
}

// noLog words the absence of a log as a kubelet does.
func (c *ctr) noLog(previous bool) string {
	if previous {
		return fmt.Sprintf("previous terminated container %q in pod %q not found", c.spec.Name, c.pod.name)
	}
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	reason := reasonCreating
	if w := c.status.State.Waiting; w != nil {
		reason = w.Reason
	}
	return fmt.Sprintf("container %q in pod %q is waiting to start: %s", c.spec.Name, c.pod.name, reason)
}

// copyLog writes what the options choose of a log, and, when following, what
// comes until the container ends.
func (c *ctr) copyLog(ctx context.Context, w io.Writer, file *os.File, o api.ContainerLogOpts) error {
	skip, err := linesBefore(file, o.Tail)
	if err != nil {
		return err
	}
	since := begin(o)
	out := &limited{w: w, left: o.LimitBytes}
	lines, partial := bufio.NewReader(file), ""
	last := false
	for ctx.Err() == nil {
		raw, err := lines.ReadString('\n')
		partial += raw
		switch {
		case err == nil:
			line := partial
			partial = ""
			if skip--; skip >= 0 {
				continue
			}
			if err := out.writeSince(since, line, o.Timestamps); err != nil {
				return err
			}
		case !errors.Is(err, io.EOF):
			return fmt.Errorf("read log: %w", err)
		case last || !o.Follow || o.Previous:
			return nil
		default:
			last = !c.isRunning() // one more look, for what it wrote at its end.
			pause(ctx, followPoll)
		}
	}
	return nil
}

// begin is the time before which the options leave lines out; zero leaves out none.
func begin(o api.ContainerLogOpts) time.Time {
	if o.SinceSeconds > 0 {
		return time.Now().Add(-time.Duration(o.SinceSeconds) * time.Second)
	}
	return o.SinceTime
}

func (c *ctr) isRunning() bool {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	return c.process != nil
}

// linesBefore counts the lines before the last few; none of them is the whole.
func linesBefore(file *os.File, tail int) (int, error) {
	if tail <= 0 {
		return 0, nil
	}
	count := 0
	for lines := bufio.NewReader(file); ; count++ {
		if _, err := lines.ReadString('\n'); err != nil {
			break
		}
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	return max(0, count-tail), nil
}

// errLimit ends a log at the number of bytes that was asked for.
var errLimit = io.EOF

type limited struct {
	w    io.Writer
	left int // 0 is no limit.
}

// writeSince writes a line of the file, unless it is older or no line of a log.
func (l *limited) writeSince(since time.Time, raw string, timestamps bool) error {
	line, ok := parseLine(raw)
	if !ok || line.time.Before(since) {
		return nil
	}
	return l.write(line, timestamps)
}

func (l *limited) write(line logLine, timestamps bool) error {
	text := line.text
	if timestamps {
		text = line.time.Format(time.RFC3339Nano) + " " + text
	}
	if l.left == 0 {
		_, err := io.WriteString(l.w, text)
		return err
	}
	text = text[:min(len(text), l.left)]
	l.left -= len(text)
	if _, err := io.WriteString(l.w, text); err != nil {
		return err
	}
	if l.left == 0 {
		return errLimit
	}
	return nil
}
