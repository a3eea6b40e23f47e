package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drupdate/drupdate/internal/version"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Args:  noArgs,
		Run:   func(c *cobra.Command, _ []string) { _, _ = fmt.Fprintln(c.OutOrStdout(), version.Read()) },
	}
}
