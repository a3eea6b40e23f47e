package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func backupCreateCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	var wait patience
	c := &cobra.Command{
		Use:   "create SITE",
		Short: "Take a backup of a site's database, while the site serves",
		Long: "Take a backup of a site's database, while the site serves. It is kept as those that updates take, under spec.update.backup.keep.\n\n" +
			"This starts the workflow BackupSite under the id of the site's updates: it is refused while a run of the site is open, and an\n" +
			"update that is asked for meanwhile begins when it has ended. A run that only waits for its window makes room.",
		Args:              exactly("SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	s.queueFlag(c.Flags())
	wait.flagsFor(c, "the backup is taken", "it")
	c.RunE = s.does(func(ctx context.Context, args []string) error { return s.backupCreate(ctx, args[0], wait) })
	return c
}

func (s *session) backupCreate(ctx context.Context, name string, wait patience) error {
	c, site, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	err = s.runBeside(ctx, site, siteRun{
		workflow: update.BackupSiteWorkflow, request: update.BackupRequest{Site: siteOf(site)},
		summary: fmt.Sprintf("backup of %s", siteOf(site)), begun: "The backup of %s is begun.",
	}, wait)
	if err != nil || !wait.wait {
		return err
	}
	after, err := s.site(ctx, c, name)
	if err != nil {
		return fmt.Errorf("which backups are still kept cannot be read: %w", err)
	}
	if dropped := noLongerKept(site, after); len(dropped) > 0 {
		s.out.say("No longer kept, by spec.update.backup.keep: %s.", strings.Join(dropped, ", "))
	}
	return nil
}

// noLongerKept are the backups that a newer one took the place of.
func noLongerKept(before, after *v1alpha1.DrupalSite) []string {
	var names []string
	for _, b := range before.Status.Backups {
		if !slices.ContainsFunc(after.Status.Backups, func(a v1alpha1.BackupStatus) bool { return a.Name == b.Name }) {
			names = append(names, b.Name)
		}
	}
	return names
}

func backupRestoreCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	var wait patience
	var r update.RestoreRequest
	c := &cobra.Command{
		Use:   "restore SITE BACKUP",
		Short: "Put a backup back: what was written since then is lost",
		Long: "Put a backup back, as backup list names it: what was written since then is lost, but for the safety backup that is taken first.\n\n" +
			"The site is in maintenance mode meanwhile, and afterwards as it was before. A backup of another release than the one that runs is refused,\n" +
			"unless --other-release says otherwise: database updates that are pending on it are then applied by an update that begins at once, and a\n" +
			"database that is newer than the code leaves the site in maintenance mode for a person.\n\n" +
			"This starts the workflow RestoreSite under the id of the site's updates: it is refused while a run of the site is open.",
		Args:              exactly("SITE", "BACKUP"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	s.queueFlag(c.Flags())
	c.Flags().BoolVar(&r.OtherRelease, "other-release", false, "put back a backup of another release than the one that runs")
	c.Flags().BoolVar(&r.NoSafetyBackup, "no-safety-backup", false, "take no backup of what is there: for a database that is too broken for one, or a full volume")
	wait.flagsFor(c, "the backup is put back", "it")
	c.RunE = s.does(func(ctx context.Context, args []string) error {
		r.Backup = args[1]
		return s.backupRestore(ctx, args[0], r, wait)
	})
	return c
}

func (s *session) backupRestore(ctx context.Context, name string, r update.RestoreRequest, wait patience) error {
	_, site, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	if err := s.refuseRestore(site, r); err != nil {
		return err
	}
	r.Site = siteOf(site)
	return s.runBeside(ctx, site, siteRun{
		workflow: update.RestoreSiteWorkflow, request: r,
		summary: fmt.Sprintf("restore of %s from %s", r.Site, r.Backup), begun: "The restore of %s is begun.",
	}, wait)
}

// refuseRestore says what the run would refuse too, before there is one: without --wait nobody would read it there.
func (s *session) refuseRestore(site *v1alpha1.DrupalSite, r update.RestoreRequest) error {
	full := site.Namespace + "/" + site.Name
	for _, b := range site.Status.Backups {
		if b.Name != r.Backup {
			continue
		}
		if b.Release != site.Status.Release.Serving && !r.OtherRelease {
			return fmt.Errorf("the backup %s is of %s and %s serves %s, so that the code may not fit the database; to put it back all the same: %s",
				b.Name, short(b.Release), full, short(site.Status.Release.Serving), s.command(site, "backup restore", b.Name, "--other-release"))
		}
		return nil
	}
	return fmt.Errorf("%s has no backup %q: see %s", full, r.Backup, s.command(site, "backup list"))
}

// lower makes a sentence of a run the end of another.
func lower(sentence string) string {
	sentence = strings.TrimSuffix(sentence, ".")
	if sentence == "" {
		return "nothing is known of it"
	}
	return strings.ToLower(sentence[:1]) + sentence[1:]
}
