package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

func backupCommand(cfg Config) *cobra.Command {
	return family(&cobra.Command{Use: "backup", Short: "The backups of a site's database: list, take one, put one back"},
		backupListCommand(cfg), backupCreateCommand(cfg), backupRestoreCommand(cfg))
}

func backupListCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	c := &cobra.Command{
		Use:               "list SITE",
		Short:             "List the verified backups of a site, the newest first",
		Args:              exactly("SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	s.outputFlag(c, asWide, asJSON, asYAML)
	c.RunE = s.does(func(ctx context.Context, args []string) error { return s.backupList(ctx, args[0]) })
	return c
}

func (s *session) backupList(ctx context.Context, name string) error {
	_, site, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	if s.structured() {
		return s.print(list[v1alpha1.BackupStatus]{append([]v1alpha1.BackupStatus{}, site.Status.Backups...)})
	}
	if len(site.Status.Backups) == 0 {
		why := "one is taken before every database update"
		if site.Spec.Update.Backup.Policy == v1alpha1.BackupNever {
			why = "spec.update.backup.policy is Never"
		}
		s.out.say("%s/%s has no backup: %s.", site.Namespace, site.Name, why)
		return nil
	}
	t := &table{head: []string{"BACKUP", "RELEASE", "FOR", "TAKEN", "SIZE"}}
	if s.output == asWide {
		t.head = append(t.head, "SHA256")
	}
	for _, row := range s.backupRows(site) {
		if s.output == asWide {
			row = append(row, text(sum(site, row[0].text)))
		}
		t.add(row...)
	}
	t.write(s.out)
	return nil
}

func (s *session) backupRows(site *v1alpha1.DrupalSite) [][]cell {
	var rows [][]cell
	for _, b := range site.Status.Backups {
		taken := "-"
		if !b.TakenAt.IsZero() {
			taken = age(s.now().Sub(b.TakenAt.Time)) + " ago"
		}
		rows = append(rows, []cell{text(b.Name), text(orDash(shorten(b.Release))), text(orDash(string(b.Origin))), text(taken), text(size(b.Bytes))})
	}
	return rows
}

func sum(site *v1alpha1.DrupalSite, name string) string {
	for _, b := range site.Status.Backups {
		if b.Name == name {
			return b.SHA256
		}
	}
	return ""
}

// size is a number of bytes with three digits or so.
func size(bytes int64) string {
	const step = 1024
	if bytes < step {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/step, "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if value < step {
			break
		}
		value, unit = value/step, next
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
