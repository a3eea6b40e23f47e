package simsite

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// runSQL runs a script against the database; single wraps it in one transaction.
func (c *call) runSQL(text string, strict, single bool) (*script, *dbError) {
	t := c.target()
	r := &script{driver: t.driver, name: t.name, strict: strict}
	makes := strings.Contains(text, "CREATE TABLE")
	e := c.change(func(s *State) {
		r.st, r.full = s, s.RestoreBroken || c.rel.is(restoreFails)
		if single && t.driver == pgDriver {
			text = "BEGIN;\n" + text + "\nCOMMIT;\n"
		}
		r.run(text)
	})
	if makes && e == nil {
		c.log(Event{Event: "restore", Detail: fmt.Sprintf("%d errors", len(r.errs)), Exit: btoi(len(r.errs) > 0)})
	}
	return r, e
}

func strictOption(extra string) (strict, single bool) {
	words := strings.Fields(extra)
	return strings.Contains(extra, "ON_ERROR_STOP=1") || strings.Contains(extra, "ON_ERROR_STOP=on"),
		slices.Contains(words, "--single-transaction") || slices.Contains(words, "-1")
}

// drushQuery prints what the client printed and one newline more. On PostgreSQL an error in the SQL is silent.
func (c *call) drushQuery(args []string, o flags) int {
	text := strings.Join(args, " ")
	const failed = "Query failed. Rerun with --debug to see any error message. "
	if file := o["file"]; file != "" {
		raw, problem := readScript(file)
		if problem != "" {
			c.warn(" [error]  Failed to decompress input file. \n")
			return c.fail(1, "%s", c.block("SqlCommands.php", 183, strings.TrimSpace(failed)+"\n"+problem))
		}
		text = raw
	}
	strict, single := strictOption(o["extra"])
	r, e := c.runSQL(text, strict, single)
	switch {
	case e != nil:
		return c.fail(1, "%s", c.block("SqlCommands.php", 183, failed+e.client()))
	case len(r.errs) > 0 && (r.driver != pgDriver || r.strict):
		return c.fail(1, "%s", c.block("SqlCommands.php", 183, failed+strings.TrimRight(r.report(), "\n")))
	}
	c.print("%s\n", r.out.String())
	return 0
}

// readScript reads a file; a compressed one is consumed, as gzip -d does.
func readScript(file string) (text, problem string) {
	raw, err := os.ReadFile(file) //nolint:gosec // the caller names the file
	if err != nil {
		return "", "bash: line 1: " + file + ": No such file or directory"
	}
	if !strings.HasSuffix(file, ".gz") {
		return string(raw), ""
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err == nil {
		raw, err = io.ReadAll(z)
	}
	if err != nil {
		return "", "gzip: " + file + ": unexpected end of file"
	}
	plain := strings.TrimSuffix(file, ".gz")
	if os.WriteFile(plain, raw, 0o600) == nil { //nolint:gosec // the caller names the file
		_ = os.Remove(file) // the plain file is what remains
	}
	return string(raw), ""
}

// drushCli feeds standard input to the client.
func (c *call) drushCli(_ []string, o flags) int {
	raw, err := io.ReadAll(c.in)
	if err != nil {
		return c.fail(1, "simsite: %v\n", err)
	}
	strict, single := strictOption(o["extra"])
	r, e := c.runSQL(string(raw), strict, single)
	code, text := 1, ""
	switch {
	case e != nil:
		text = e.client()
		if e.t.driver == pgDriver {
			code = 2
		}
	case len(r.errs) == 0:
		c.print("%s", r.out.String())
		return 0
	case r.driver == pgDriver && !r.strict:
		c.print("%s", r.out.String())
		c.warn("%s", quoted(r.report()))
		return 0
	default:
		text = strings.TrimSuffix(r.report(), "\n")
		if r.driver == pgDriver {
			code = 3
		}
	}
	c.warn("%s", quoted(text+"\n"))
	return c.fail(1, "%s", c.processBlock(c.connectLine(o["extra"]), code, text))
}

// quoted marks the lines of a child process.
func quoted(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("> " + line)
	}
	return b.String()
}

func (c *call) processBlock(cmd string, code int, stderr string) string {
	kind := map[int]string{1: "General error", 2: "Misuse of shell builtins"}[code]
	if kind == "" {
		kind = "Unknown error"
	}
	return c.block("Process.php", 270, fmt.Sprintf("The command \"%s\" failed.\n\nExit Code: %d(%s)\n\nWorking directory: /app/web\n\n"+
		"Output:\n================\n\n\nError Output:\n================\n%s", cmd, code, kind, stderr))
}

func (c *call) connectLine(extra string) string {
	t := c.target()
	switch t.driver {
	case pgDriver:
		return strings.TrimRight(fmt.Sprintf("psql -q ON_ERROR_STOP=1  --dbname=%s --host=%s --port=%s --username=%s %s", t.name, t.host, t.port, t.user, extra), " ")
	case sqliteDriver:
		return "sqlite3 " + t.file
	}
	return strings.TrimRight(fmt.Sprintf("mysql --defaults-file=/tmp/drush_simsite --database=%s --host=%s --port=%s -A %s", t.name, t.host, t.port, extra), " ")
}

func (c *call) drushConnect(_ []string, o flags) int {
	t := c.target()
	if t.driver == mysqlDriver {
		c.print("mysql --user=%s --password=%s --database=%s --host=%s --port=%s -A\n", t.user, t.password, t.name, t.host, t.port)
		return 0
	}
	c.print("%s\n", c.connectLine(o["extra"]))
	return 0
}

// drushDrop says yes to everything, also when there is nothing it can drop.
func (c *call) drushDrop(_ []string, _ flags) int {
	name := c.target().name
	c.print("%s", c.comment("Do you really want to drop all tables in the database "+name+"?: yes."))
	dropped := 0
	e := c.change(func(s *State) {
		dropped = len(s.Tables)
		s.dropAll()
	})
	c.log(Event{Event: "drop", Detail: fmt.Sprintf("%d tables", dropped), Exit: btoi(e != nil)})
	return 0
}
