package main

import "github.com/spf13/cobra"

func allCommand(env lookup) *cobra.Command {
	var cfg config
	c := &cobra.Command{
		Use:   "all",
		Short: "Watch sites and carry out runs, in one process",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, &cfg, env, (*process).addWatcher, (*process).addWorker)
		},
	}
	cfg.commonFlags(c.Flags())
	cfg.watcherFlags(c.Flags())
	cfg.workerFlags(c.Flags())
	return c
}
