package simsite

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// emptyGzip is what gzip makes of no input: 20 bytes.
const emptyGzip = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// dump makes the bytes of a backup in the form that the driver's program writes.
func (c *call) dump(extra string, clean bool) ([]byte, string) {
	t := c.target()
	s, e := c.load()
	if e != nil {
		return nil, e.dump()
	}
	if c.rel.is(dumpFails) {
		return nil, map[string]string{
			mysqlDriver: "mysqldump: Got error: 1044: \"Access denied for user '" + t.user + "'@'%' to database '" + t.name + "'\" when doing LOCK TABLES",
			pgDriver:    "pg_dump: error: query failed: ERROR:  permission denied for table sessions", sqliteDriver: "Error: database is locked",
		}[t.driver]
	}
	o := pgOptions{
		clean: clean || strings.Contains(extra, "--clean"), ifExists: strings.Contains(extra, "--if-exists"),
		extension: !strings.Contains(extra, "-n public") && !strings.Contains(extra, "--schema=public"),
	}
	var raw []byte
	switch {
	case t.driver == pgDriver && wantsArchive(extra):
		raw = encodeArchive(s, o)
	case t.driver == pgDriver:
		raw = []byte(pgText(s, o))
	case t.driver == sqliteDriver:
		raw = []byte(sqliteDump(s))
	default:
		raw = []byte(mysqlDump(t, s))
	}
	if c.rel.is(dumpTruncated) {
		raw = raw[:len(raw)*2/3]
	}
	return raw, ""
}

func wantsArchive(extra string) bool {
	for f := range strings.FieldsSeq(strings.ReplaceAll(extra, "=", " ")) {
		if f == "-Fc" || f == "custom" {
			return true
		}
	}
	return false
}

func (c *call) drushDump(_ []string, o flags) int {
	raw, problem := c.dump(o["extra-dump"], true)
	path := o["result-file"]
	shown := path
	if o.on("gzip") && path != "" {
		shown += ".gz"
	}
	file := shown
	if path != "" && !filepath.IsAbs(path) {
		file = filepath.Join(c.get("SIMSITE_WEBROOT", c.get("PWD", ".")), shown)
	}
	if problem == "" {
		problem = c.writeDump(file, shown, raw, o.on("gzip"))
	} else if path != "" {
		c.leftover(file, o.on("gzip"))
	}
	c.log(Event{Event: "dump", Detail: file, Exit: btoi(problem != "")})
	if problem != "" {
		c.warn("%s", quoted(problem+"\n"))
		return c.fail(1, "%s", c.block("SqlCommands.php", 215, "Unable to dump database. Rerun with --debug to see any error message."))
	}
	if path != "" {
		c.warn(" [success] Database dump saved to %s\n", shown)
	}
	return 0
}

// writeDump writes over what is there; an empty name is standard output.
func (c *call) writeDump(file, shown string, raw []byte, zip bool) string {
	var b bytes.Buffer
	var w io.Writer = &b
	if zip {
		z := gzip.NewWriter(&b)
		_, _ = z.Write(raw) // a buffer takes everything
		_ = z.Close()
	} else {
		_, _ = w.Write(raw)
	}
	if file == "" {
		_, _ = c.out.Write(b.Bytes())
		return ""
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil { //nolint:gosec // a dump as the shell would write it
		reason := "Permission denied"
		if os.IsNotExist(err) {
			reason = "No such file or directory"
		}
		return "bash: line 1: " + shown + ": " + reason + "\nmariadb-dump: Got errno 32 on write"
	}
	return ""
}

// leftover is the file that the shell's redirection made before the dump failed.
func (c *call) leftover(file string, zip bool) {
	content := ""
	if zip {
		content = emptyGzip
	}
	_ = os.WriteFile(file, []byte(content), 0o644) //nolint:gosec // as the shell would write it; failing twice is no news
}
