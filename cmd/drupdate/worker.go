package main

import "github.com/spf13/cobra"

func workerCommand(env lookup) *cobra.Command {
	var cfg config
	c := &cobra.Command{
		Use:   "worker",
		Short: "Carry out runs",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, &cfg, env, (*process).addWorker)
		},
	}
	cfg.commonFlags(c.Flags())
	cfg.workerFlags(c.Flags())
	return c
}
