package main

import "github.com/spf13/cobra"

func watcherCommand(env lookup) *cobra.Command {
	var cfg config
	c := &cobra.Command{
		Use:   "watcher",
		Short: "Watch sites and start runs",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, &cfg, env, (*process).addWatcher)
		},
	}
	cfg.commonFlags(c.Flags())
	cfg.watcherFlags(c.Flags())
	return c
}
