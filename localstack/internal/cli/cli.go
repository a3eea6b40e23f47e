// Package cli is the command line of localstack.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/drupdate/drupdate/localstack/internal/build"
	"github.com/drupdate/drupdate/localstack/internal/stack"
)

// errNotRunning makes status exit with 1 without a further word.
var errNotRunning = errors.New("not everything runs")

// Run runs the command line and returns the exit code.
func Run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch err := root().ExecuteContext(ctx); {
	case err == nil:
		return 0
	case errors.Is(err, errNotRunning):
		return 1
	default:
		fmt.Fprintln(os.Stderr, "localstack:", err)
		return 1
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "localstack",
		Short:         "A real Kubernetes control plane, a node of local processes and Temporal, without a container runtime",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().String("state", defaultState(), "the folder of everything: programs, data, logs")
	cmd.AddCommand(up(), down(), status(), env(), nodeCommand())
	cmd.AddCommand(
		component("start", "Start one component, unless it runs", (*stack.Stack).Start),
		component("stop", "Stop one component in an orderly way", (*stack.Stack).Stop),
		component("restart", "Stop and start one component", (*stack.Stack).Restart),
		component("kill", "End one component with SIGKILL, as a crash would", (*stack.Stack).Kill),
		component("pause", "Freeze one component with SIGSTOP", func(s *stack.Stack, _ context.Context, name string) error { return s.Pause(name) }),
		component("resume", "Wake a component that was paused", func(s *stack.Stack, _ context.Context, name string) error { return s.Resume(name) }),
	)
	return cmd
}

// defaultState is .localstack at the root of the repository, or here.
func defaultState() string {
	const name = ".localstack"
	dir, err := os.Getwd()
	if err != nil {
		return name
	}
	module, _, err := build.FindModules(dir)
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(module), name)
}

func open(cmd *cobra.Command) (*stack.Stack, error) {
	state, err := cmd.Flags().GetString("state")
	if err != nil {
		return nil, err
	}
	return stack.Open(state)
}

func component(verb, short string, action func(*stack.Stack, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " COMPONENT",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := open(cmd)
			if err != nil {
				return err
			}
			return action(s, cmd.Context(), args[0])
		},
	}
}

func down() *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop everything, containers too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := open(cmd)
			if err != nil {
				return err
			}
			if err := s.Down(cmd.Context(), purge); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "localstack is down")
			return err
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "also delete the data, but not the programs")
	return cmd
}

func env() *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print the variables that point other programs at the stack: eval $(localstack env)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := open(cmd)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%q\nexport TEMPORAL_ADDRESS=%q\nexport TEMPORAL_UI=%q\n",
				s.Kubeconfig(), s.TemporalAddress(), s.TemporalUI())
			return err
		},
	}
}

func status() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show every component; exits with 0 only if all run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := open(cmd)
			if err != nil {
				return err
			}
			statuses, err := s.Status()
			if err != nil {
				return err
			}
			if err := printStatus(cmd, output, statuses); err != nil {
				return err
			}
			for _, status := range statuses {
				if status.State == stack.Stopped || status.State == stack.Paused {
					return errNotRunning
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func printStatus(cmd *cobra.Command, output string, statuses []stack.Status) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		return encoder.Encode(statuses)
	case "table":
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "COMPONENT\tPID\tADDRESS\tSTATE")
		for _, s := range statuses {
			pid := "-"
			if s.PID != 0 {
				pid = fmt.Sprint(s.PID)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Component, pid, s.Address, s.State)
		}
		return w.Flush()
	default:
		return fmt.Errorf("show status: %q: the formats are table and json", output)
	}
}
