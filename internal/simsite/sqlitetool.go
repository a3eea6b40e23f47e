package simsite

import (
	"io"
	"os"
	"strings"
)

// sqlite is sqlite3: backup, restore, integrity check and the known queries.
func (c *call) sqlite() int {
	rest, _ := clientFlags(c.args, "")
	if len(rest) == 0 {
		return c.fail(1, "Error: no database named\n")
	}
	c.env["DB_DRIVER"], c.env["DB_PATH"] = sqliteDriver, rest[0]
	text := strings.Join(rest[1:], "\n")
	if text == "" {
		raw, err := io.ReadAll(c.in)
		if err != nil {
			return c.fail(1, "simsite: %v\n", err)
		}
		text = string(raw)
	}
	word, arg, _ := strings.Cut(strings.TrimSpace(text), " ")
	arg = strings.Trim(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(arg), "main ")), `'"`)
	switch word {
	case ".backup":
		return c.sqliteBackup(arg)
	case ".restore":
		return c.sqliteRestore(arg)
	case ".dump":
		return c.sqliteDumpText()
	case ".tables":
		text = "SELECT COUNT(*) FROM sqlite_master"
	case ".timeout":
		return 0
	}
	if strings.HasPrefix(strings.ToUpper(text), "VACUUM INTO") {
		return c.fail(1, "Error: stepping, no such collation sequence: NOCASE_UTF8\n")
	}
	r, e := c.runSQL(text, false, false)
	if e != nil && e.kind == malformed {
		return c.fail(1, "Error: in prepare, database disk image is malformed (11)\n")
	}
	return c.clientEnd(r, e, true)
}

func (c *call) sqliteDumpText() int {
	raw, problem := c.dump("", false)
	if problem != "" {
		return c.fail(1, "%s\n", problem)
	}
	c.print("%s", raw)
	return 0
}

func (c *call) sqliteBackup(to string) int {
	code := c.copyDatabase(to)
	c.log(Event{Event: "dump", Detail: to, Exit: code})
	return code
}

func (c *call) copyDatabase(to string) int {
	file := c.target().file
	if c.rel.is(dumpFails) {
		return c.fail(1, "Error: database is locked\n")
	}
	if _, e := c.load(); e != nil {
		return c.fail(1, "%s\n", e.client())
	}
	unlock, err := lock(file)
	if err != nil {
		return c.fail(1, "Error: database is locked\n")
	}
	defer unlock()
	raw, err := os.ReadFile(file) //nolint:gosec // the caller names the file
	if err == nil {
		if c.rel.is(dumpTruncated) {
			raw = raw[:len(raw)*2/3]
		}
		err = replace(to, raw)
	}
	if err != nil {
		return c.fail(1, "Error: cannot open \"%s\"\n", to)
	}
	return 0
}

func (c *call) sqliteRestore(from string) int {
	t := c.target()
	raw, err := os.ReadFile(from) //nolint:gosec // the caller names the file
	s, e := readState(target{driver: sqliteDriver, file: from})
	if err != nil || e != nil {
		return c.fail(1, "Error: cannot open \"%s\"\n", from)
	}
	now, e := c.load()
	full := c.rel.is(restoreFails) || (e == nil && now.RestoreBroken)
	code := 0
	if full || len(raw) == 0 || replace(t.file, s.encode()) != nil {
		code = c.fail(1, "Error: database or disk is full\n")
	}
	c.log(Event{Event: "restore", Detail: from, Exit: code})
	return code
}
