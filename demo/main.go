package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

const usage = `usage: demo [-state DIR] [-ports BASE] [-timeout D] up|down

up    starts the stack, the watcher and the worker, makes six sites, updates them, and shows how each ends
down  stops all that up started
`

func main() {
	state := flag.String("state", ".localstack", "folder of the embedded stack")
	timeout := flag.Duration("timeout", 10*time.Minute, "how long the six updates may take")
	ports := flag.Int("ports", 0, "use twelve ports in a row from this one, instead of the usual ones")
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard()) // The client's own words are no part of the demo.
	if err := run(ctx, flag.Arg(0), options{*state, *ports, *timeout}); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// options are what the command line asks for.
type options struct {
	state string
	// ports is the first of twelve ports in a row; 0 means the usual ones.
	ports   int
	timeout time.Duration
}

func run(ctx context.Context, verb string, o options) error {
	state, err := filepath.Abs(o.state)
	if err != nil {
		return err
	}
	s := &stack{state: state, ports: o.ports}
	switch verb {
	case "up":
		return s.up(ctx, o.timeout)
	case "down":
		return s.down(ctx)
	default:
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("say up or down, not %q", verb)
	}
}

// up is the whole demo. It fails unless every site ended as announced.
func (s *stack) up(ctx context.Context, timeout time.Duration) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.start(ctx); err != nil {
		return s.told(ctx, err)
	}
	sites := cast()
	if err := s.makeSites(ctx, sites); err != nil {
		return s.told(ctx, err)
	}
	fmt.Println("Six sites are at their first release. Asking each for another one:")
	fmt.Println()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.askForTargets(limited, sites); err != nil {
		return s.told(ctx, err)
	}
	watched := s.watch(limited, sites)
	if ctx.Err() == nil {
		fmt.Print(s.whereIsWhat())
	}
	return s.told(ctx, watched)
}

// told says what an interrupted demo leaves behind, in place of what happened to be under way.
func (s *stack) told(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case s.env == nil:
		return errors.New("interrupted while the stack was starting")
	default:
		return errors.New("interrupted; the stack runs on until make demo-down, and make demo begins anew")
	}
}
