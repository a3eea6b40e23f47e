package node

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"golang.org/x/sys/unix"
)

// terminal connects a command with a client through a pseudo-terminal.
func (p *pipes) terminal(ctx context.Context, attach api.AttachIO) error {
	ours, theirs, err := openTerminal()
	if err != nil {
		return err
	}
	p.child.Stdin, p.child.Stdout, p.child.Stderr, p.child.TTY = theirs, theirs, theirs, true
	p.given = append(p.given, theirs)
	if in := attach.Stdin(); in != nil {
		go func() { _, _ = io.Copy(ours, in) }() // ends when either side is done.
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case size := <-attach.Resize():
				window := &unix.Winsize{Row: size.Height, Col: size.Width}
				_ = unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, window) // a wrong size is only ugly.
			}
		}
	}()
	p.copies.Go(func() { forward(attach.Stdout(), ours) })
	return nil
}

// openTerminal makes a pseudo-terminal and returns its two ends.
func openTerminal() (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	fd := int(ours.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("open terminal: unlock: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: number: %w", err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	return ours, theirs, nil
}
