package drush

import "strings"

// Driver is a Drupal database driver as Drush names it.
type Driver string

// The drivers that this package can count tables for.
const (
	MySQL  Driver = "mysql"
	Pgsql  Driver = "pgsql"
	SQLite Driver = "sqlite"
)

// Command is how Drush is reached on a site. The zero value runs "drush" from the PATH.
//
// Every method returns a new argv and shares nothing with the receiver. No value becomes an option by starting with a
// dash: values travel behind "--name=", and SQL that starts with a dash gets a leading space, which SQL ignores.
type Command struct {
	// Prefix is the start of the argv, for example [vendor/bin/drush]. Empty means [drush].
	Prefix []string
	// URI is the value of --uri. Empty leaves the option out.
	URI string
	// Root is the value of --root. Empty leaves the option out.
	Root string
}

// Argv returns the prefix, the options that choose the site, and args as given.
func (c Command) Argv(args ...string) []string {
	argv := make([]string, 0, len(c.Prefix)+len(args)+2)
	argv = append(argv, c.Prefix...)
	if len(argv) == 0 {
		argv = append(argv, "drush")
	}
	if c.URI != "" {
		argv = append(argv, "--uri="+c.URI)
	}
	if c.Root != "" {
		argv = append(argv, "--root="+c.Root)
	}
	return append(argv, args...)
}

// Status asks whether Drupal bootstraps, and for the versions; see ParseBootstrap. It names its fields because the
// full status prints the database password.
func (c Command) Status() []string {
	return c.Argv("status", "--fields=bootstrap,db-status,drupal-version,drush-version", "--format=json")
}

// DriverField asks for the database driver; see ParseDriver.
func (c Command) DriverField() []string { return c.Argv("status", "--field=db-driver") }

// DatabaseField asks for the database's name, which is a path with SQLite; see ParseField.
func (c Command) DatabaseField() []string { return c.Argv("status", "--field=db-name") }

// UpdateStatus asks which database updates are pending; see ParseUpdateStatus.
func (c Command) UpdateStatus() []string { return c.Argv("updatedb:status", "--format=json") }

// CacheRebuild rebuilds the caches; see ParseCacheRebuild. It may be repeated.
func (c Command) CacheRebuild() []string { return c.Argv("cache:rebuild") }

// MaintenanceGet asks for the maintenance flag; see ParseMaintenance. Drush has it since 11.5.
func (c Command) MaintenanceGet() []string { return c.Argv("maint:get") }

// MaintenanceOn sets the maintenance flag. Read it back: the exit code alone proves nothing.
func (c Command) MaintenanceOn() []string { return c.Argv("maint:set", "1") }

// MaintenanceOff clears the maintenance flag. Read it back: the exit code alone proves nothing.
func (c Command) MaintenanceOff() []string { return c.Argv("maint:set", "0") }

// PageCacheClear empties the page cache, so that a maintenance flag just set is seen by anonymous visitors.
func (c Command) PageCacheClear() []string { return c.Argv("cache:clear", "bin", "page") }

// Requirements asks for the requirements that are errors; see ParseMissingCode.
func (c Command) Requirements() []string {
	return c.Argv("core:requirements", "--severity=2", "--format=json")
}

// Query runs one SQL statement through the site's own database client.
func (c Command) Query(sql string) []string {
	if strings.HasPrefix(sql, "-") {
		sql = " " + sql
	}
	return c.Argv("sql:query", sql)
}

// Ping asks the database for the number 1, and so whether it can be queried at all.
func (c Command) Ping() []string { return c.Query("SELECT 1") }

// InstallTask asks for Drupal's own record of how far its installation went; see ParseInstallTask.
func (c Command) InstallTask() []string {
	return c.Query("SELECT value FROM key_value WHERE collection='state' AND name='install_task'")
}

// TableCount asks how many tables the database holds; see ParseTableCount. An unknown driver is asked as MySQL is.
func (c Command) TableCount(driver Driver) []string {
	switch driver {
	case Pgsql:
		return c.Query("SELECT COUNT(*) FROM pg_catalog.pg_tables " +
			"WHERE schemaname NOT IN ('pg_catalog','information_schema')")
	case SQLite:
		return c.Query("SELECT COUNT(*) FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'")
	case MySQL:
	}
	return c.Query("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=DATABASE()")
}
