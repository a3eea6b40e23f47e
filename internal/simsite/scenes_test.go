package simsite_test

import "github.com/drupdate/drupdate/internal/simsite"

// hook is a recorded update of the module study_upd.
func hook(id, message, fault string) []simsite.Update {
	return []simsite.Update{{ID: id, Desc: id + " - Study. *", Message: message, Fault: fault}}
}

func post(id, message, fault string) simsite.Update {
	return simsite.Update{ID: id, Desc: "Study.", Message: message, Fault: fault}
}

var (
	empty     = []string{}
	half      = []string{"--half"}
	level0    = []string{"--schema=10000"}
	level1    = []string{"--schema=10001", "--posts=one"}
	maintOn   = [][]string{{"drush", "maint:set", "1"}}
	thrown    = [][]string{{"drush", "updatedb", "-y"}}
	container = "10.4.0-broken-container"
)

func scenes() []given {
	var list []given
	for _, group := range [][]given{statusScenes(), sqlScenes(), stateScenes(), updateScenes(), driverScenes()} {
		list = append(list, group...)
	}
	return list
}

// plain are scenes on an installed site with nothing special.
func plain(names ...string) []given {
	var list []given
	for _, n := range names {
		list = append(list, given{scene: n})
	}
	return list
}

func statusScenes() []given {
	return append(plain(
		"installed status bootstrap db-status json", "installed status db-status", "installed status json",
		"installed db down status bootstrap", "installed unknown database status bootstrap",
		"installed unknown host status bootstrap", "installed unknown host status bootstrap db-status json",
		"installed wrong credentials status bootstrap", "installed wrong credentials status bootstrap db-status json",
		"pre-install drush version", "status HOME unset root", "uri by env DRUSH_OPTIONS_URI", "uri option unknown site",
		"outside of site dir without root", "pre-install status json db down", "user-login url default uri",
		"user-login url DRUSH_OPTIONS_URI", "core-requirements errors only json",
	), []given{
		{scene: "pre-install status bootstrap", db: empty},
		{scene: "pre-install status db-status", db: empty},
		{scene: "pre-install core-status bootstrap two fields", db: empty},
		{scene: "half installed status", db: half},
		{scene: "status after sql-drop", before: [][]string{{"drush", "sql:drop", "-y"}}},
		{scene: "pre-install maint-status", db: empty},
		{scene: "pre-install cache-rebuild", db: empty},
		{scene: "pre-install updatedb-status", db: empty},
		{scene: "pre-install updatedb", db: empty},
	}...)
}

func sqlScenes() []given {
	return append(plain(
		"installed db down sql-query", "installed unknown host sql-query", "installed wrong credentials sql-query",
		"sql-query install_task", "sql-query tmp not writable", "sql-drop yes", "sql-drop wrong credentials",
		"sql-dump db down", "sql-dump wrong credentials", "sql-dump gzip result-file absolute",
		"sql-dump extra-dump single-transaction", "sql-dump result-file relative path",
		"sql-dump result-file unwritable dir", "sql-dump structure-tables-list",
	), []given{
		{scene: "half installed sql-query install_task", db: half},
		{scene: "sql-query install_task empty database", db: empty},
		{scene: "sql-dump result-file exists already", before: [][]string{{"drush", "sql:dump", "--gzip", "--result-file=/run-dir/backup/b.sql"}}},
		{scene: "restore via sql-query file gz", before: [][]string{{"drush", "sql:dump", "--gzip", "--result-file=/run-dir/backup/b.sql"}}},
		{scene: "restore of a broken file by sql-query file", files: map[string]string{"bad.sql": "SELECT 1;\nTHIS IS NOT SQL;\n"}},
		{scene: "restore truncated gz by sql-query file", files: map[string]string{"trunc.sql.gz": "\x1f\x8b\x08\x00"}},
		{scene: "install site-install minimal db in settings", db: empty},
		{scene: "site-install again over an installed site wipes it"},
		{scene: "site-install unknown profile"},
	}...)
}

func stateScenes() []given {
	return append(plain(
		"cache-clear bin page", "cache-rebuild ok", "maint-set 0", "maint-set 0 b", "maint-status after state-set 0",
		"state-set maintenance 0 integer", "state-set maintenance 0 string", "state-set maintenance 1 integer",
		"state-set maintenance TRUE no format", "installed db down cache-rebuild", "installed unknown database cache-rebuild",
		"installed unknown host cache-rebuild", "installed wrong credentials cache-rebuild", "error message COLUMNS 1000",
		"error message wrapped COLUMNS unset", "d11 cache-rebuild db down", "module enable baseline",
		"php-eval exception exit code", "php-eval exception with code 2002", "php-eval exit 7",
		"installed db down php-eval", "pre-install php-eval", "installed wrong credentials php-eval",
	), []given{
		{scene: "cache-rebuild missing service argument", release: container},
		{scene: "cr in maintenance", before: maintOn},
		{scene: "maint-get on", before: maintOn},
		{scene: "maint-status on", before: maintOn},
		{scene: "maint-get after set false string", before: [][]string{{"drush", "maint:set", "false"}}},
		{scene: "state-get maintenance on json", before: maintOn},
		{scene: "state-get maintenance after exception"},
		{scene: "php-eval schema versions", db: []string{"--schema=10009", "--posts=one,two"}},
		{scene: "coreupdate rolled back code only post updates known", db: level0},
	}...)
}

func updateScenes() []given {
	return append(plain(
		"updatedb nothing pending", "updatedb-status json nothing pending", "updatedb-status json after success",
		"updatedb-status pretty count nothing pending", "updatedb no-cache-clear", "updatedb cache-clear=0",
		"updatedb unknown option no-post-updates", "installed db down updatedb", "installed db down updatedb-status",
		"installed unknown database updatedb", "installed unknown database updatedb-status", "installed unknown host updatedb",
		"installed unknown host updatedb-status", "installed wrong credentials updatedb-status",
	), []given{
		{scene: "updatedb-status json pending both kinds", db: level0},
		{scene: "updatedb-status table pending both kinds", db: level0},
		{scene: "updatedb hook_update exception", release: "10.4.0-hook-exception", db: level1},
		{scene: "updatedb-status after exception", release: "10.4.0-hook-exception", db: level1, before: thrown},
		{scene: "updatedb post_update php Error not Exception", release: "10.4.0-hook-error", db: level1},
		{scene: "updatedb --no refuses pending", db: level0, updates: []simsite.Update{{ID: "10002", Desc: "10002 - Study: fine. *"}}},
		{scene: "updatedb hook_update php error undefined function", db: level0, updates: hook("10005", "", "error")},
		{scene: "updatedb hook_update calls exit 0", db: level0, updates: hook("10005", "", "exit")},
		{scene: "d11 updatedb child SIGKILL", db: level0, updates: hook("11002", "", "killed")},
		{scene: "updatedb post_update exception", db: level0, updates: []simsite.Update{
			post("three", "Simulated post failure", "exception"), post("z", "", ""),
		}},
		{scene: "updatedb success both kinds with -y", db: level0, updates: append(hook("10016", "Sixteen done.", ""), post("four", "Post four done.", ""))},
		{scene: "updatedb success with maintenance set beforehand", db: level0, before: maintOn, updates: hook("10013", "ok", "")},
		{scene: "updatedb exception with maintenance set beforehand", db: level0, before: maintOn, updates: hook("10013", "no", "exception")},
		{scene: "updatedb rerun after child SIGKILL", db: level0, updates: hook("10005", "Five done.", "")},
		{scene: "updatedb with broken container exit code", release: container},
		{scene: "updatedb-status with missing service argument", release: container},
		{scene: "updatedb after sql-drop", before: [][]string{{"drush", "sql:drop", "-y"}}},
		{scene: "coreupdate rolled back code only updatedb", release: "10.3.1", db: level1},
		{scene: "coreupdate rolled back code only updatedb-status", release: "10.3.1", db: level1},
	}...)
}

func driverScenes() []given {
	return append(plain(
		"pgsql sql-drop", "pgsql sql-dump gzip", "pgsql sql-dump gzip if-exists", "pgsql updatedb nothing",
		"pgsql updatedb-status db down", "pgsql site-install minimal", "pgsql user-information after pg_restore",
		"sqlite site-install minimal", "sqlite sql-drop", "sqlite sql-dump gzip", "sqlite status after install",
		"sqlite updatedb nothing", "sqlite users after file restore", "sqlite backup by sqlite3 dot-backup",
		"sqlite status directory missing", "sqlite backup by VACUUM INTO", "sqlite en study_upd",
	), []given{
		{scene: "sqlite status after sql-drop", before: [][]string{{"drush", "sql:drop", "-y"}}},
		{scene: "pgsql user-information after strict restore", db: empty},
		{scene: "pgsql status after restore"},
		{scene: "pgsql restore of a broken file by sql-cli stdin", stdin: "THIS IS NOT SQL;\n", args: []string{"drush", "sql:cli"}},
		{
			scene: "pgsql restore strict of a broken file", stdin: "THIS IS NOT SQL;\n",
			args: []string{"drush", "sql:cli", "--extra=-v ON_ERROR_STOP=1 --single-transaction"},
		},
	}...)
}
