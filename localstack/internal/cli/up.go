package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drupdate/drupdate/localstack/internal/stack"
)

func up() *cobra.Command {
	var (
		options stack.UpOptions
		base    int
		single  = stack.DefaultPorts()
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Build what is missing, start what does not run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := open(cmd)
			if err != nil {
				return err
			}
			options.Out = cmd.OutOrStdout()
			options.Ports = chosenPorts(cmd.Flags(), s.Config().Ports, base, single)
			return s.Up(cmd.Context(), options)
		},
	}
	cmd.Flags().BoolVar(&options.AuditLog, "audit-log", false, "log every request to the API server, without bodies, to logs/audit.log")
	cmd.Flags().BoolVar(&options.IgnoreEnv, "ignore-env", false, "start everything, even if KUBECONFIG or TEMPORAL_ADDRESS name something that runs")
	cmd.Flags().StringVar(&options.Simsite, "simsite", "", "the program of the simulated sites (default bin/simsite in the state folder)")
	cmd.Flags().IntVar(&options.AdvertisedNode, "advertise-node-port", 0, "let the API server look for the node on this port, where a proxy listens (default the node's own)")
	cmd.Flags().IntVar(&base, "ports", 0, "use eight ports in a row from this one")
	for name, port := range portFlags(&single) {
		cmd.Flags().IntVar(port, name, *port, "port of the component")
	}
	return cmd
}

func portFlags(p *stack.Ports) map[string]*int {
	return map[string]*int{
		"api-port": &p.API, "etcd-port": &p.Etcd, "etcd-peer-port": &p.EtcdPeer, "node-port": &p.Node,
		"controller-manager-port": &p.ControllerManager, "scheduler-port": &p.Scheduler,
		"temporal-port": &p.Temporal, "temporal-ui-port": &p.TemporalUI,
	}
}

// chosenPorts is nil when no flag names a port; otherwise the flags win over
// the base, and the base over what is recorded.
func chosenPorts(flags *pflag.FlagSet, recorded stack.Ports, base int, single stack.Ports) *stack.Ports {
	ports, chosen := recorded, false
	if flags.Changed("ports") {
		ports, chosen = stack.PortsFrom(base), true
	}
	given := portFlags(&single)
	for name, port := range portFlags(&ports) {
		if flags.Changed(name) {
			*port, chosen = *given[name], true
		}
	}
	if !chosen {
		return nil
	}
	return &ports
}
