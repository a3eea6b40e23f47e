// Command drupdate is the watcher, the worker, or both in one process; and, as drupdate or as kubectl drupdate, what
// people see and steer their sites with.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	_ "time/tzdata" // Update windows name time zones, and images rarely carry the database.

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/drupdate/drupdate/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runAs(ctx, os.Args[0], os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// lookup reads the environment; os.LookupEnv but in tests.
type lookup func(name string) (string, bool)

// run is main without the process. Problems go to errs, one clear sentence a line.
func run(ctx context.Context, args []string, env lookup, out, errs io.Writer) int {
	return runAs(ctx, "drupdate", args, env, out, errs)
}

// plugin is the name under which kubectl finds the program, and completer the one under which it asks for completions.
const (
	plugin    = "kubectl-drupdate"
	completer = "kubectl_complete-drupdate"
)

// runAs is run under the name that the program was called by.
func runAs(ctx context.Context, name string, args []string, env lookup, out, errs io.Writer) int {
	root := newRoot(env)
	switch strings.TrimSuffix(filepath.Base(name), ".exe") {
	case completer:
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
		fallthrough
	case plugin:
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl drupdate"}
	}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return cli.ExitDone
	}
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintln(errs, "drupdate:", strings.TrimSpace(line)) // Nobody is left to be told.
	}
	return cli.ExitCode(err)
}

func newRoot(env lookup) *cobra.Command {
	root := &cobra.Command{
		Use:   "drupdate",
		Short: "Keeps a fleet of Drupal sites on Kubernetes at the release their owners asked for",
		Long: "drupdate keeps a fleet of Drupal sites on Kubernetes at the release their owners asked for.\n\n" +
			"Every flag can be given as an environment variable: --task-queue is DRUPDATE_TASK_QUEUE. A flag wins.\n" +
			"Temporal is reached by its own settings: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS_…, or a profile file.\n" +
			"NO_COLOR turns colours off. Exit codes: 0 done, 1 failed, 2 not understood.",
		Args:                       knownCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		SilenceErrors:              true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return cli.Usage(fmt.Errorf("%w: see %s --help", err, c.CommandPath()))
	})
	cli.Add(root, cli.Config{
		Prepare:  func(c *cobra.Command) error { return fromEnvironment(c, env) },
		Temporal: func() (client.Options, error) { return temporalOptions(env) },
		Env:      env,
	})
	root.AddGroup(&cobra.Group{ID: groupServe, Title: "Serve:"})
	for _, c := range []*cobra.Command{watcherCommand(env), workerCommand(env), allCommand(env), codecServerCommand(env)} {
		c.GroupID = groupServe
		root.AddCommand(c)
	}
	root.AddCommand(versionCommand())
	return root
}

// groupServe is the group of the commands that run until they are told to stop.
const groupServe = "serve"

// knownCommand refuses a word that is no command, and says which may have been meant.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := c.CommandPath() + " --help lists them"
	if similar := c.SuggestionsFor(args[0]); len(similar) > 0 {
		meant = "perhaps " + strings.Join(similar, " or ")
	}
	return cli.Usage(fmt.Errorf("there is no command %q: %s", args[0], meant))
}

func noArgs(c *cobra.Command, args []string) error { return cli.Usage(cobra.NoArgs(c, args)) }
