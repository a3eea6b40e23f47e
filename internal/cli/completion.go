package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// completionPatience is how long a shell may wait for names.
const completionPatience = 2 * time.Second

// complete offers values of a flag.
func (s *session) complete(c *cobra.Command, flag string, values func(context.Context) []string) {
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		if s.begin(c) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completionPatience)
		defer cancel()
		return values(ctx), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // a flag that does not exist, or twice: the program cannot have been started once
	}
}

// completeSites offers the names of sites as the first argument. An error offers nothing: a shell is no place for it.
func (s *session) completeSites(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || s.begin(c) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionPatience)
	defer cancel()
	sites, err := s.sites(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, 0, len(sites))
	for i := range sites {
		names = append(names, cobra.CompletionWithDesc(sites[i].Name, judge(&sites[i]).state))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// releases offers the releases that are in play anywhere in the namespace, the newest name first.
func (s *session) releases(ctx context.Context) []string {
	sites, err := s.sites(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for i := range sites {
		r := sites[i].Status.Release
		for _, name := range []string{sites[i].Spec.Release, r.Serving, r.Failsafe} {
			if name != "" && name != r.Failed && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names
}

func (s *session) contexts(context.Context) []string {
	config, err := s.loader().RawConfig()
	if err != nil {
		return nil
	}
	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *session) namespaces(ctx context.Context) []string {
	c, err := s.kube()
	if err != nil {
		return nil
	}
	var found corev1.NamespaceList
	if err := c.List(ctx, &found, kube.Limit(500)); err != nil {
		return nil
	}
	names := make([]string, 0, len(found.Items))
	for i := range found.Items {
		names = append(names, found.Items[i].Name)
	}
	return names
}
