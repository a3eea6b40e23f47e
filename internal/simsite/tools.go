package simsite

import (
	"io"
	"os"
	"slices"
	"strings"
)

// asDriver makes a client program talk to its own kind of server, named by its own options and variables.
func (c *call) asDriver(driver string, o flags, rest []string) {
	c.env["DB_DRIVER"] = driver
	set := func(key string, values ...string) {
		for _, v := range values {
			if v != "" {
				c.env[key] = v
				return
			}
		}
	}
	name := ""
	if len(rest) > 0 {
		name = rest[0]
	}
	if driver == pgDriver {
		set("DB_NAME", o["dbname"], o["d"], name, c.env["PGDATABASE"])
		set("DB_HOST", o["host"], o["h"], c.env["PGHOST"])
		set("DB_PORT", o["port"], o["p"], c.env["PGPORT"])
		set("DB_USER", o["username"], o["U"], c.env["PGUSER"])
		set("DB_PASSWORD", c.env["PGPASSWORD"])
		return
	}
	set("DB_NAME", o["database"], o["D"], name)
	set("DB_HOST", o["host"], o["h"])
	set("DB_PORT", o["port"], o["P"])
	set("DB_USER", o["user"], o["u"])
	set("DB_PASSWORD", o["password"], o["p"], c.env["MYSQL_PWD"])
}

// clientFlags parses the options of a database client: -x value, -xvalue, --name=value, --name value.
func clientFlags(args []string, withValue string, long ...string) (rest []string, o flags) {
	o = flags{}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case strings.HasPrefix(a, "--"):
			name, value, given := strings.Cut(a[2:], "=")
			if !given && slices.Contains(long, name) && i+1 < len(args) {
				i++
				value = args[i]
			}
			o[name] = value
		case len(a) > 1 && a[0] == '-':
			name, value := a[1:2], a[2:]
			if value == "" && strings.Contains(withValue, name) && i+1 < len(args) {
				i++
				value = args[i]
			}
			o[name] += value
		default:
			rest = append(rest, a)
		}
	}
	return rest, o
}

// client is mysql and psql.
func (c *call) client() int {
	pg := c.name == "psql"
	values := "eDhPu"
	driver := mysqlDriver
	if pg {
		values, driver = "cfdhpUv", pgDriver
	}
	rest, o := clientFlags(c.args, values, "execute", "database", "host", "port", "user", "command", "file", "dbname", "username", "set")
	c.asDriver(driver, o, rest)
	text := first(o, "e", "execute", "c", "command")
	oneLine := text != ""
	if file := first(o, "f", "file"); file != "" {
		raw, err := os.ReadFile(file) //nolint:gosec // the caller names the file
		if err != nil {
			return c.fail(1, "psql: error: %s: No such file or directory\n", file)
		}
		text = string(raw)
	} else if !oneLine {
		raw, err := io.ReadAll(c.in)
		if err != nil {
			return c.fail(1, "simsite: %v\n", err)
		}
		text = string(raw)
	}
	r, e := c.runSQL(text, strings.Contains(o["v"]+o["set"], "ON_ERROR_STOP"), o.on("1") || o.on("single-transaction"))
	return c.clientEnd(r, e, oneLine)
}

func (c *call) clientEnd(r *script, e *dbError, oneLine bool) int {
	if e != nil {
		code := 1
		if r.driver == pgDriver {
			code = 2
		}
		return c.fail(code, "%s\n", e.client())
	}
	c.print("%s", r.out.String())
	c.warn("%s", r.report())
	switch {
	case len(r.errs) == 0, r.driver == pgDriver && !r.strict && !oneLine:
		return 0
	case r.driver == pgDriver && !oneLine:
		return 3
	}
	return 1
}

func first(o flags, names ...string) string {
	for _, n := range names {
		if o[n] != "" {
			return o[n]
		}
	}
	return ""
}

// dumper is mysqldump and pg_dump.
func (c *call) dumper() int {
	driver, values := mysqlDriver, "DhPur"
	if c.name == "pg_dump" {
		driver, values = pgDriver, "fdhpUFnt"
	}
	rest, o := clientFlags(c.args, values, "file", "dbname", "host", "port", "username", "user", "result-file", "format", "schema")
	c.asDriver(driver, o, rest)
	extra := strings.Join(c.args, " ")
	if o["F"] == "c" {
		extra += " -Fc"
	}
	raw, problem := c.dump(extra, false)
	file := first(o, "f", "file", "r", "result-file")
	if problem == "" {
		problem = c.writeDump(file, file, raw, false)
	}
	c.log(Event{Event: "dump", Detail: file, Exit: btoi(problem != "")})
	if problem != "" {
		return c.fail(1, "%s\n", problem)
	}
	return 0
}

// pgRestore lists an archive, turns it into text, or runs it.
func (c *call) pgRestore() int {
	rest, o := clientFlags(c.args, "fdhpUFnLj", "file", "dbname", "host", "port", "username", "format", "schema", "use-list")
	var raw []byte
	var err error
	if len(rest) > 0 {
		raw, err = os.ReadFile(rest[0])
	} else {
		raw, err = io.ReadAll(c.in)
	}
	if err != nil {
		return c.fail(1, "pg_restore: error: could not open input file \"%s\": No such file or directory\n", strings.Join(rest, " "))
	}
	a, err := decodeArchive(raw)
	if err != nil {
		return c.fail(1, "pg_restore: error: %v\n", err)
	}
	if o.on("list") || o.on("l") {
		return c.list(a)
	}
	listed := o.on("L") || o.on("use-list")
	text := pgText(a.State, pgOptions{
		clean: o.on("clean") || o.on("c"), ifExists: o.on("if-exists"), extension: a.Extension && !listed,
	})
	if db := first(o, "d", "dbname"); db != "" {
		return c.pgRun(text, o)
	}
	file := first(o, "f", "file")
	if file == "" {
		return c.fail(1, "pg_restore: error: one of -d/--dbname and -f/--file must be specified\n")
	}
	if file == "-" {
		file = ""
	}
	if problem := c.writeDump(file, file, []byte(text), false); problem != "" {
		return c.fail(1, "pg_restore: error: could not open output file \"%s\"\n", file)
	}
	return 0
}

func (c *call) list(a archive) int {
	c.print(";\n; Archive created by simsite\n;     Format: CUSTOM\n;\n")
	for i, t := range a.State.Tables {
		c.print("%d; 1259 %d TABLE public %s drupal\n", 200+i, 16384+i, t)
	}
	return 0
}

func (c *call) pgRun(text string, o flags) int {
	c.asDriver(pgDriver, o, nil)
	r, e := c.runSQL(text, o.on("e") || o.on("exit-on-error") || o.on("1"), o.on("1") || o.on("single-transaction"))
	if e != nil {
		return c.fail(1, "%s\n", strings.Replace(e.client(), "psql:", "pg_restore:", 1))
	}
	for _, f := range r.errs {
		c.warn("pg_restore: error: could not execute query: %s\nCommand was: %s;\n\n\n", f.text, f.statement)
	}
	return btoi(len(r.errs) > 0)
}

// php runs drush.php; there is no other PHP here.
func (c *call) php() int {
	for i, a := range c.args {
		if strings.HasSuffix(a, "drush.php") || strings.HasSuffix(a, "/drush") {
			c.name, c.args = "drush", c.args[i+1:]
			return c.drush()
		}
	}
	if len(c.args) == 1 && (c.args[0] == "-v" || c.args[0] == "--version") {
		c.print("PHP 8.2.36 (cli)\n")
		return 0
	}
	return c.fail(notFound, "php: not available in simsite\n")
}
