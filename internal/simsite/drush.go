package simsite

import (
	"fmt"
	"strings"
	"time"
)

const drushVersion = "13.3.0.0"

const homeUnset = "PHP Fatal error:  Uncaught Symfony\\Component\\Filesystem\\Exception\\RuntimeException: Cannot find the home" +
	" directory path: Your environment or operating system isn't supported. in /app/vendor/symfony/filesystem/Path.php:201\n" +
	"Stack trace:\n#0 /app/vendor/drush/drush/drush.php(130): Symfony\\Component\\Filesystem\\Path::getHomeDirectory()\n" +
	"#1 /app/vendor/bin/drush.php(120): include('...')\n#2 {main}\n  thrown in /app/vendor/symfony/filesystem/Path.php on line 201\n"

// need says how far a command must bootstrap.
type need int

const (
	needNothing  need = iota
	needFull          // needFull ends with "Bootstrap failed"
	needDatabase      // needDatabase makes the command unknown without a database
)

type command struct {
	names   []string
	need    need
	options []string
	run     func(c *call, args []string, o flags) int
}

var sqlOptions = []string{"database", "target", "db-url", "extra", "db-prefix"}

func commands() []command {
	return []command{
		{[]string{"status", "core:status", "core-status", "st"}, needNothing, []string{"project"}, (*call).drushStatus},
		{[]string{"sql:query", "sql-query", "sqlq"}, needNothing, append([]string{"file", "file-delete", "result-file"}, sqlOptions...), (*call).drushQuery},
		{[]string{"sql:cli", "sql-cli", "sqlc"}, needNothing, sqlOptions, (*call).drushCli},
		{[]string{"sql:dump", "sql-dump"}, needNothing, append([]string{
			"result-file", "gzip", "extra-dump", "skip-tables-list", "skip-tables-key", "structure-tables-list",
			"structure-tables-key", "tables-list", "tables-key", "create-db", "data-only", "ordered-dump",
		}, sqlOptions...), (*call).drushDump},
		{[]string{"sql:drop", "sql-drop"}, needNothing, sqlOptions, (*call).drushDrop},
		{[]string{"sql:connect", "sql-connect"}, needNothing, sqlOptions, (*call).drushConnect},
		{[]string{"updatedb:status", "updatedb-status", "updbst"}, needFull, nil, (*call).drushPending},
		{[]string{"updatedb", "updb"}, needFull, []string{"cache-clear", "no-cache-clear"}, (*call).drushUpdate},
		{[]string{"cache:rebuild", "cache-rebuild", "cr", "rebuild"}, needDatabase, []string{"cache-clear"}, (*call).drushRebuild},
		{[]string{"cache:clear", "cache-clear", "cc"}, needDatabase, []string{"cache-clear"}, (*call).drushClear},
		{[]string{"maint:get", "mget"}, needDatabase, nil, (*call).drushMaintGet},
		{[]string{"maint:set", "mset"}, needDatabase, nil, (*call).drushMaintSet},
		{[]string{"maint:status", "mstatus"}, needDatabase, nil, (*call).drushMaintStatus},
		{[]string{"state:get", "state-get", "sget"}, needDatabase, nil, (*call).drushStateGet},
		{[]string{"state:set", "state-set", "sset"}, needDatabase, []string{"input-format"}, (*call).drushStateSet},
		{[]string{"core:requirements", "core-requirements", "rq", "status-report"}, needDatabase, []string{"severity", "ignore"}, (*call).drushRequirements},
		{[]string{"site:install", "site-install", "si"}, needNothing, []string{
			"db-url", "db-prefix", "db-su", "db-su-pw", "account-name", "account-mail", "site-mail", "account-pass",
			"locale", "site-name", "site-pass", "sites-subdir", "config-dir", "existing-config",
		}, (*call).drushInstall},
		{[]string{"php:eval", "php-eval", "ev", "eval"}, needNothing, nil, (*call).drushEval},
		{[]string{"pm:install", "pm-install", "en", "in"}, needDatabase, nil, (*call).drushEnable},
		{[]string{"user:login", "user-login", "uli"}, needDatabase, []string{"name", "uid", "mail", "browser", "no-browser", "redirect-port"}, (*call).drushLogin},
		{[]string{"user:information", "user-information", "uinf"}, needDatabase, []string{"uid", "mail"}, (*call).drushUser},
	}
}

func (c *call) drush() int {
	if c.rel.is(noDrush) {
		return c.fail(notFound, "sh: 1: drush: not found\n")
	}
	if code, done := c.chain(); done {
		return code
	}
	c.cost(1800 * time.Millisecond)
	if _, ok := c.env["HOME"]; !ok {
		return c.fail(255, "%s", homeUnset)
	}
	name, args, opts := parseArgs(c.args)
	if opts.on("version") {
		c.print("Drush Commandline Tool %s\n", drushVersion)
		return 0
	}
	for _, cmd := range commands() {
		for _, n := range cmd.names {
			if n == name {
				return c.start(name, cmd, args, opts)
			}
		}
	}
	return c.fail(1, "%s", c.block("", 0, fmt.Sprintf("Command \"%s\" is not defined.", name)))
}

func (c *call) start(name string, cmd command, args []string, opts flags) int {
	if bad := opts.unknown(cmd.options); bad != "" {
		return c.fail(1, "%s", c.block("", 0, fmt.Sprintf("The \"--%s\" option does not exist.", bad)))
	}
	if cmd.need != needNothing {
		s, e := c.load()
		if e != nil || !s.healthy() {
			if cmd.need == needFull {
				return c.fail(1, "%s", c.block("BootstrapHook.php", 40, "Bootstrap failed. Run your command with -vvv for more information."))
			}
			return c.fail(1, "%s", c.block("", 0, "Command "+name+" was not found. Drush was unable to query the database. As a"+
				" result, many commands are unavailable. Re-run your command with --debug to see relevant log messages."))
		}
	}
	return cmd.run(c, args, opts)
}

// json writes a document, behind PHP's notices when the release has them.
func (c *call) json(text string) {
	if c.rel.is(polluted) {
		c.print("\nDeprecated: Creation of dynamic property Drupal\\study\\Thing::$x is deprecated in /app/web/modules/custom/study_upd/study_upd.module on line 7\n")
	}
	c.print("%s\n", text)
}

// object renders pairs as PHP's pretty printer does; without pairs that is an empty list.
func object(pairs [][2]string) string {
	if len(pairs) == 0 {
		return "[]"
	}
	var b strings.Builder
	b.WriteString("{")
	for i, p := range pairs {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n    " + quote(p[0]) + ": " + strings.ReplaceAll(p[1], "\n", "\n    "))
	}
	b.WriteString("\n}")
	return b.String()
}
