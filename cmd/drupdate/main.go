// Command drupdate is the watcher, the worker, or both in one process.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // Update windows name time zones, and images rarely carry the database.

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// lookup reads the environment; os.LookupEnv but in tests.
type lookup func(name string) (string, bool)

// run is main without the process. Problems go to errs, one clear sentence a line.
func run(ctx context.Context, args []string, env lookup, out, errs io.Writer) int {
	root := newRoot(env)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintln(errs, "drupdate:", strings.TrimSpace(line)) // Nobody is left to be told.
	}
	return 1
}

func newRoot(env lookup) *cobra.Command {
	root := &cobra.Command{
		Use:   "drupdate",
		Short: "Keeps a fleet of Drupal sites on Kubernetes at the release their owners asked for",
		Long: "drupdate keeps a fleet of Drupal sites on Kubernetes at the release their owners asked for.\n\n" +
			"Every flag can be given as an environment variable: --task-queue is DRUPDATE_TASK_QUEUE. A flag wins.\n" +
			"Temporal is reached by its own settings: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS_…, or a profile file.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(watcherCommand(env), workerCommand(env), allCommand(env), codecServerCommand(env), versionCommand())
	return root
}
