package simsite

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// notFound is the exit code of a shell for a program that is not there.
const notFound = 127

type call struct {
	name string
	args []string
	env  map[string]string
	in   io.Reader
	out  io.Writer
	err  io.Writer
	rel  Release
}

// Names lists the names under which the program must be on PATH.
func Names() []string {
	return []string{
		"simsite", "drush", "php", "apache2-foreground", "mysql", "mariadb", "mysqldump", "mariadb-dump",
		"psql", "pg_dump", "pg_restore", "sqlite3",
	}
}

// Run plays the program named by the base name of args[0] and returns its exit code. Calling it from several
// goroutines is safe: all shared state is in files.
func Run(args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &call{env: map[string]string{}, in: stdin, out: stdout, err: stderr}
	for _, pair := range env {
		key, value, _ := strings.Cut(pair, "=")
		c.env[key] = value
	}
	c.name, c.args = filepath.Base(args[0]), args[1:]
	if c.name == "simsite" && len(c.args) > 0 && !isAdmin(c.args[0]) {
		c.name, c.args = c.args[0], c.args[1:]
	}
	if c.name == "simsite" {
		return c.admin()
	}
	if err := c.pickRelease(); err != nil {
		return c.fail(125, "simsite: %v\n", err)
	}
	return c.dispatch()
}

func (c *call) dispatch() int {
	switch c.name {
	case "web", "apache2-foreground":
		return c.web()
	case "drush", "drush.php":
		return c.drush()
	case "php":
		return c.php()
	case "mysql", "mariadb", "psql":
		return c.client()
	case "mysqldump", "mariadb-dump", "pg_dump":
		return c.dumper()
	case "pg_restore":
		return c.pgRestore()
	case "sqlite3":
		return c.sqlite()
	}
	return c.fail(notFound, "simsite: %s: not found\n", c.name)
}

// pickRelease reads SIMSITE_RELEASE; SIMSITE_UPDATES and SIMSITE_WORDS replace parts of it in tests.
func (c *call) pickRelease() error {
	tag := c.get("SIMSITE_RELEASE", Baseline)
	rel, ok := FindRelease(tag)
	if !ok {
		return fmt.Errorf("no such release: %q", tag)
	}
	if words := c.env["SIMSITE_WORDS"]; words != "" {
		rel.Words = strings.Fields(words)
	}
	if list := c.env["SIMSITE_UPDATES"]; list != "" {
		rel.Updates = nil
		if err := json.Unmarshal([]byte(list), &rel.Updates); err != nil {
			return fmt.Errorf("SIMSITE_UPDATES: %w", err)
		}
	}
	c.rel = rel
	return nil
}

func (c *call) get(key, fallback string) string {
	if v := c.env[key]; v != "" {
		return v
	}
	return fallback
}

func (c *call) print(format string, args ...any) { _, _ = fmt.Fprintf(c.out, format, args...) }

func (c *call) warn(format string, args ...any) { _, _ = fmt.Fprintf(c.err, format, args...) }

func (c *call) fail(code int, format string, args ...any) int {
	c.warn(format, args...)
	return code
}

// pace stretches a duration by SIMSITE_PACE (a factor, 1 when unset).
func (c *call) pace(d time.Duration) time.Duration {
	factor, err := strconv.ParseFloat(c.get("SIMSITE_PACE", "1"), 64)
	if err != nil {
		return d
	}
	return time.Duration(float64(d) * factor)
}

// cost takes the time that the real call takes, when SIMSITE_SLOW is set.
func (c *call) cost(d time.Duration) {
	if c.env["SIMSITE_SLOW"] == "1" {
		time.Sleep(c.pace(d))
	}
}
