package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `usage: demo [-state DIR] [-timeout D] up|down

up    starts the stack, the watcher and the worker, makes six sites, updates them, and shows how each ends
down  stops all that up started
`

func main() {
	state := flag.String("state", ".localstack", "folder of the embedded stack")
	timeout := flag.Duration("timeout", 10*time.Minute, "how long the six updates may take")
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), *state, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, verb, state string, timeout time.Duration) error {
	switch verb {
	case "up":
		return up(ctx, state, timeout)
	case "down":
		return down(ctx, state)
	default:
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("say up or down, not %q", verb)
	}
}

// up is the whole demo. It fails unless every site ended as announced.
func up(ctx context.Context, state string, timeout time.Duration) error {
	s, err := startStack(ctx, state)
	if err != nil {
		return err
	}
	sites := cast()
	if err := s.makeSites(ctx, sites); err != nil {
		return err
	}
	fmt.Println("Six sites are at their first release. Asking each for another one:")
	fmt.Println()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.askForTargets(ctx, sites); err != nil {
		return err
	}
	watched := s.watch(ctx, sites)
	fmt.Print(s.whereIsWhat())
	return watched
}
