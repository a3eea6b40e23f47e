package node

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	utilexec "k8s.io/utils/exec"

	"github.com/drupdate/drupdate/localstack/internal/container"
)

// drainLimit is how long the output of a command that ended is waited for. A
// child that it left behind may hold the streams open for ever.
const drainLimit = 10 * time.Second

// runInContainer is kubectl exec. A client that goes away leaves the command
// running, as with a kubelet.
func (n *Node) runInContainer(ctx context.Context, namespace, name, containerName string, command []string, attach api.AttachIO) error {
	p, err := n.find(namespace, name)
	if err != nil {
		return err
	}
	c, err := p.container(containerName)
	if err != nil {
		return errdefs.AsNotFound(err)
	}
	pipes, err := openPipes(ctx, attach)
	if err != nil {
		return err
	}
	var env []string
	if attach.TTY() {
		env = []string{"TERM=xterm"}
	}
	process, err := c.join(command, pipes.child, env)
	pipes.handOver()
	if err != nil {
		return startFailure(err, attach)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-process.Done():
	}
	pipes.drain(ctx)
	if code := process.Code(); code != 0 {
		return utilexec.CodeExitError{Err: errors.New("command failed"), Code: code}
	}
	return nil
}

// startFailure tells the client in a runtime's words why a command did not
// start, with the exit code of a shell in the same place.
func startFailure(err error, attach api.AttachIO) error {
	var start *container.StartError
	if !errors.As(err, &start) {
		return err
	}
	words := "OCI runtime exec failed: exec failed: unable to start container process: " + start.Message + "\n"
	out := attach.Stderr()
	if out == nil {
		out = attach.Stdout()
	}
	if out != nil {
		_, _ = io.WriteString(out, words) // a client that went away does not want to know.
	}
	return utilexec.CodeExitError{Err: err, Code: start.Code}
}

// pipes connect a command with the streams of a client.
type pipes struct {
	child  container.Streams
	given  []*os.File // the command's ends, closed once it has them.
	copies sync.WaitGroup
}

func openPipes(ctx context.Context, attach api.AttachIO) (*pipes, error) {
	p := &pipes{}
	if attach.TTY() {
		return p, p.terminal(ctx, attach)
	}
	if in := attach.Stdin(); in != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		p.child.Stdin, p.given = r, append(p.given, r)
		go func() {
			_, _ = io.Copy(w, in) // ends when either side is done.
			_ = w.Close()
		}()
	}
	for _, stream := range []struct {
		to io.Writer
		at **os.File
	}{{attach.Stdout(), &p.child.Stdout}, {attach.Stderr(), &p.child.Stderr}} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		*stream.at, p.given = w, append(p.given, w)
		p.copies.Go(func() { forward(stream.to, r) })
	}
	return p, nil
}

// forward copies output to a client, and throws it away once the client is
// gone, so that the command is never blocked by it.
func forward(to io.Writer, from io.ReadCloser) {
	if to != nil {
		_, _ = io.Copy(to, from)
	}
	_, _ = io.Copy(io.Discard, from)
	_ = from.Close()
}

func (p *pipes) handOver() {
	for _, f := range p.given {
		_ = f.Close() // the command has its own copy.
	}
}

func (p *pipes) drain(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		p.copies.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(drainLimit):
	}
}
