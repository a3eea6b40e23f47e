package cli

import (
	"github.com/spf13/cobra"
)

// nodeCommand is what up starts: the node of the cluster, in the foreground.
func nodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "node",
		Short:  "Run the node of the cluster in the foreground; up starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := open(cmd)
			if err != nil {
				return err
			}
			return s.RunNode(cmd.Context())
		},
	}
}
