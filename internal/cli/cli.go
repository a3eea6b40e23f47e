package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
)

// Exit codes of the program.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Config is what the commands are given by the program that they are part of. Every field is needed.
type Config struct {
	// Prepare completes a command's flags, from the environment.
	Prepare func(*cobra.Command) error
	// Temporal returns the settings of Temporal's client.
	Temporal func() (client.Options, error)
	// Env reads a variable.
	Env func(name string) (string, bool)
}

// Groups of commands in the help.
const (
	groupLook  = "look"
	groupSteer = "steer"
	groupSetUp = "setup"
)

// Add adds the commands to the program's root.
func Add(root *cobra.Command, cfg Config) {
	root.AddGroup(
		&cobra.Group{ID: groupLook, Title: "Look:"},
		&cobra.Group{ID: groupSteer, Title: "Steer:"},
		&cobra.Group{ID: groupSetUp, Title: "Set up:"},
	)
	for _, group := range []struct {
		id       string
		commands []func(Config) *cobra.Command
	}{
		{groupLook, []func(Config) *cobra.Command{statusCommand, watchCommand, historyCommand, logsCommand, backupCommand}},
		{groupSteer, []func(Config) *cobra.Command{updateCommand, pauseCommand, resumeCommand, abortCommand, retryCommand}},
		{groupSetUp, []func(Config) *cobra.Command{doctorCommand, setupCommand}},
	} {
		for _, make := range group.commands {
			c := make(cfg)
			c.GroupID = group.id
			root.AddCommand(c)
		}
	}
}

// usageError is an error of whoever wrote the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as one of the command line, or of a variable that stands for a flag. Nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// ExitCode is the code that a program ends with after an error of its commands.
func ExitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &usage):
		return ExitUsage
	}
	return ExitFailed
}

// exactly takes the named arguments and no others, and says in a sentence what is missing or too much.
func exactly(names ...string) cobra.PositionalArgs {
	return between(len(names), names...)
}

// between takes at least the first of the named arguments, and at most all of them.
func between(least int, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return Usage(fmt.Errorf("%s needs %s: see %s --help", words(c), strings.Join(names[len(args):least], " and "), c.CommandPath()))
		case len(args) > len(names):
			return Usage(fmt.Errorf("%s does not take %q: see %s --help", words(c), args[len(names)], c.CommandPath()))
		}
		return nil
	}
}

// family is a command that is nothing without one of its own commands.
func family(c *cobra.Command, members ...*cobra.Command) *cobra.Command {
	c.AddCommand(members...)
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return Usage(fmt.Errorf("%s has no command %q: see %s --help", words(c), args[0], c.CommandPath()))
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// words are a command's name without that of the program.
func words(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().CommandPath()+" ")
}
