package simsite

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	dropRE   = regexp.MustCompile(`(?is)^DROP TABLE (IF EXISTS )?(.+?)( CASCADE)?$`)
	createRE = regexp.MustCompile(`(?is)^CREATE TABLE (IF NOT EXISTS )?(\S+)\s*\(.*\)`)
	insertRE = regexp.MustCompile(`(?is)^INSERT INTO (\S+) VALUES ?\('([^']*)','([^']*)'\)$`)
	ignoreRE = regexp.MustCompile(`(?is)^(SET |LOCK |UNLOCK |/\*|ALTER |PRAGMA |ANALYZE|COMMENT |GRANT |REVOKE |CREATE EXTENSION IF NOT EXISTS|CREATE (UNIQUE )?INDEX|SELECT pg_catalog\.)`)
	beginRE  = regexp.MustCompile(`(?i)^(BEGIN|START TRANSACTION|BEGIN TRANSACTION)$`)
)

func (r *script) exec(s statement) {
	if r.transaction(s) {
		return
	}
	if r.failed {
		r.fault(s, "ERROR:  current transaction is aborted, commands ignored until end of transaction block")
		return
	}
	switch {
	case r.query(s), ignoreRE.MatchString(s.text):
	case dropRE.MatchString(s.text):
		r.dropTables(s, dropRE.FindStringSubmatch(s.text))
	case createRE.MatchString(s.text):
		r.createTable(s, createRE.FindStringSubmatch(s.text))
	case insertRE.MatchString(s.text):
		r.insertRow(s, insertRE.FindStringSubmatch(s.text))
	case r.driver == pgDriver && r.pgObject(s):
	default:
		r.fault(s, r.syntax(s))
	}
}

func (r *script) transaction(s statement) bool {
	switch {
	case beginRE.MatchString(s.text):
		r.begin()
	case strings.EqualFold(s.text, "COMMIT"), strings.EqualFold(s.text, "END"):
		r.commit()
	case strings.EqualFold(s.text, "ROLLBACK"):
		r.rollback()
	default:
		return false
	}
	return true
}

func bare(name string) string {
	return strings.TrimPrefix(strings.Trim(strings.TrimSpace(name), "`\""), "public.")
}

// ddl ends a transaction on MySQL, where there is no way back from it.
func (r *script) ddl() {
	if r.driver == mysqlDriver {
		r.saved = nil
	}
}

func (r *script) dropTables(s statement, m []string) {
	r.ddl()
	for name := range strings.SplitSeq(m[2], ",") {
		name = bare(name)
		if m[1] == "" && !r.st.has(name) {
			r.fault(s, r.text(s, map[string]string{
				mysqlDriver: "ERROR 1051 (42S02) at line %d: Unknown table '" + r.name + "." + name + "'",
				pgDriver:    "ERROR:  table \"" + name + "\" does not exist",
			}, "no such table: "+name))
			return
		}
		r.st.drop(name)
	}
}

func (r *script) createTable(s statement, m []string) {
	r.ddl()
	name := bare(m[2])
	switch {
	case r.full:
		r.fault(s, r.noSpace(s, name))
	case r.driver == sqliteDriver && strings.Contains(s.text, "NOCASE_UTF8"):
		r.fault(s, r.text(s, nil, "no such collation sequence: NOCASE_UTF8"))
	case r.st.has(name) && m[1] == "":
		r.fault(s, r.text(s, map[string]string{
			mysqlDriver: "ERROR 1050 (42S01) at line %d: Table '" + name + "' already exists",
			pgDriver:    "ERROR:  relation \"" + name + "\" already exists",
		}, "table "+name+" already exists"))
	default:
		r.st.create(name)
	}
}

func (r *script) insertRow(s statement, m []string) {
	name := bare(m[1])
	switch {
	case r.full:
		r.fault(s, r.noSpace(s, name))
	case !r.st.has(name):
		r.fault(s, r.missing(s, name))
	default:
		r.st.insert(name, m[2], m[3])
	}
}

// pgObject handles what is not a table: functions, extensions and schemas.
func (r *script) pgObject(s statement) bool {
	up := strings.ToUpper(s.text)
	switch {
	case strings.HasPrefix(up, "CREATE FUNCTION"):
		if r.st.Functions {
			r.fault(s, `ERROR:  function "rand" already exists with same argument types`)
		}
		r.st.Functions = true
	case strings.HasPrefix(up, "DROP FUNCTION"):
		if !r.st.Functions && !strings.Contains(up, "IF EXISTS") {
			r.fault(s, "ERROR:  function public.rand() does not exist")
		}
		r.st.Functions = false
	case strings.HasPrefix(up, "DROP EXTENSION"):
		r.fault(s, "ERROR:  must be owner of extension pg_trgm")
	case strings.HasPrefix(up, "DROP SCHEMA"):
		r.st.dropAll()
		r.st.Functions = false
	case strings.HasPrefix(up, "CREATE SCHEMA"):
	default:
		return false
	}
	return true
}

// text picks the message of the driver; a %d in it becomes the line.
func (r *script) text(s statement, by map[string]string, lite string) string {
	if t, ok := by[r.driver]; ok {
		return strings.Replace(t, "%d", strconv.Itoa(s.line), 1)
	}
	return fmt.Sprintf("Parse error near line %d: %s", s.line, lite)
}

func (r *script) noSpace(s statement, table string) string {
	return r.text(s, map[string]string{
		mysqlDriver: "ERROR 1114 (HY000) at line %d: The table '" + table + "' is full",
		pgDriver:    "ERROR:  could not extend file: No space left on device",
	}, "database or disk is full")
}

func (r *script) missing(s statement, table string) string {
	return r.text(s, map[string]string{
		mysqlDriver: "ERROR 1146 (42S02) at line %d: Table '" + r.name + "." + table + "' doesn't exist",
		pgDriver:    fmt.Sprintf("ERROR:  relation \"%s\" does not exist\n%s", table, caret(s.text, strings.Index(s.text, table))),
	}, "no such table: "+table)
}

func (r *script) syntax(s statement) string {
	word, _, _ := strings.Cut(s.text, " ")
	return r.text(s, map[string]string{
		mysqlDriver: "ERROR 1064 (42000) at line %d: You have an error in your SQL syntax; check the manual that corresponds" +
			" to your MariaDB server version for the right syntax to use near '" + s.text + "' at line 1",
		pgDriver: fmt.Sprintf("ERROR:  syntax error at or near \"%s\"\n%s", word, caret(s.text+";", 0)),
	}, `near "`+word+`": syntax error`)
}

// caret is PostgreSQL's pointer at the fault.
func caret(line string, at int) string {
	line, _, _ = strings.Cut(line, "\n")
	return "LINE 1: " + line + "\n" + strings.Repeat(" ", len("LINE 1: ")+max(at, 0)) + "^"
}
