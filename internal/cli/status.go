package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

func statusCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	c := &cobra.Command{
		Use:   "status [SITE]",
		Short: "Show how the sites are; with SITE all that is known of one",
		Long: "Show how the sites are: what each serves and wants, and what it is up to.\n\n" +
			"With SITE: releases, the run and what it does right now, conditions, backups, and what a person can do.",
		Args:              between(0, "SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	s.everywhereFlag(c.Flags())
	s.outputFlag(c, asWide, asJSON, asYAML)
	c.RunE = s.does(func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			return s.statusOf(ctx, args[0])
		}
		return s.statusOfAll(ctx)
	})
	return c
}

func (s *session) statusOfAll(ctx context.Context) error {
	sites, err := s.sites(ctx)
	if err != nil {
		return err
	}
	if s.structured() {
		reports := make([]report, len(sites))
		for i := range sites {
			reports[i] = s.report(&sites[i])
		}
		return s.print(list[report]{reports})
	}
	if len(sites) == 0 {
		s.out.say("%s", s.noSites())
		return nil
	}
	s.siteTable(sites).write(s.out)
	return nil
}

// sites are those that the command is about, in order.
func (s *session) sites(ctx context.Context) ([]v1alpha1.DrupalSite, error) {
	c, err := s.kube()
	if err != nil {
		return nil, err
	}
	ns, err := s.scope()
	if err != nil {
		return nil, err
	}
	var found v1alpha1.DrupalSiteList
	if err := c.List(ctx, &found, kube.InNamespace(ns)); err != nil {
		return nil, err
	}
	inOrder(found.Items)
	return found.Items, nil
}

// scope is the namespace to list, empty for all.
func (s *session) scope() (string, error) {
	if s.everywhere {
		return "", nil
	}
	return s.namespace()
}

func inOrder(sites []v1alpha1.DrupalSite) {
	slices.SortFunc(sites, func(a, b v1alpha1.DrupalSite) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
}

func (s *session) noSites() string {
	if s.everywhere {
		return "There are no sites in the cluster."
	}
	ns, _ := s.namespace() // it was read a moment ago
	return fmt.Sprintf("There are no sites in the namespace %s; -A shows all namespaces.", ns)
}

// siteTable is the table of status and watch.
func (s *session) siteTable(sites []v1alpha1.DrupalSite) *table {
	t := &table{}
	if s.everywhere {
		t.head = append(t.head, "NAMESPACE")
	}
	t.head = append(t.head, "SITE", "SERVES", "WANTS", "", "STATE", "FOR")
	if s.output == asWide {
		t.head = append(t.head, "FAILSAFE", "FAILED", "RUN")
	}
	t.head = append(t.head, "MESSAGE")
	for i := range sites {
		t.add(s.siteRow(&sites[i])...)
	}
	return t
}

func (s *session) siteRow(site *v1alpha1.DrupalSite) []cell {
	v := judge(site)
	sign, look := v.health.sign()
	var row []cell
	if s.everywhere {
		row = append(row, text(site.Namespace))
	}
	wants := cell{text: short(site.Spec.Release)}
	if site.Spec.Release == site.Status.Release.Serving {
		wants.style = faint
	}
	row = append(row, cell{site.Name, strong}, text(short(site.Status.Release.Serving)), wants,
		cell{sign, look}, cell{v.state, look}, text(s.ago(v)))
	if s.output == asWide {
		run := ""
		if site.Status.Run != nil {
			run = site.Status.Run.RunID
		}
		row = append(row, text(short(site.Status.Release.Failsafe)), text(orDash(site.Status.Release.Failed)), text(orDash(run)))
	}
	return append(row, text(brief(site, v)))
}

// ago is how long a state lasts.
func (s *session) ago(v verdict) string {
	if v.since == nil || v.since.IsZero() {
		return "-"
	}
	return age(s.now().Sub(v.since.Time))
}

// age is a duration in its largest unit.
func age(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d < time.Second:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
