package simsite

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	countTablesRE = regexp.MustCompile(`(?i)^SELECT COUNT\(\*\)( AS \w+)? FROM (information_schema\.tables|sqlite_master|pg_tables|pg_catalog\.pg_tables)\b`)
	keyValueRE    = regexp.MustCompile(`(?i)^SELECT value FROM key_value WHERE collection ?= ?'([^']*)' AND name ?= ?'([^']*)'$`)
	fromRE        = regexp.MustCompile(`(?i)^SELECT (1|COUNT\(\*\)) FROM (\S+)( WHERE .*| LIMIT \d+)?$`)
)

// query answers the few questions there are; false means that the statement is none of them.
func (r *script) query(s statement) bool {
	q := strings.Join(strings.Fields(s.text), " ")
	switch {
	case strings.EqualFold(q, "SELECT 1"):
		r.out.WriteString("1\n")
	case strings.EqualFold(q, "SHOW TABLES") && r.driver == mysqlDriver:
		for _, t := range r.st.Tables {
			r.out.WriteString(t + "\n")
		}
	case strings.EqualFold(q, "PRAGMA integrity_check"):
		r.out.WriteString("ok\n")
	case countTablesRE.MatchString(q):
		r.count(s, q)
	case keyValueRE.MatchString(q):
		r.keyValue(s, keyValueRE.FindStringSubmatch(q))
	case fromRE.MatchString(q):
		m := fromRE.FindStringSubmatch(q)
		if name := bare(m[2]); !r.st.has(name) {
			r.fault(s, r.missing(s, name))
		} else {
			_, _ = fmt.Fprintf(&r.out, "%d\n", max(1, len(r.st.rows(name))))
		}
	default:
		return false
	}
	return true
}

// count knows which catalogue a driver has: asking the wrong one is an error there too.
func (r *script) count(s statement, q string) {
	lite := strings.Contains(q, "sqlite_master")
	wrongFunction := strings.Contains(q, "DATABASE()") && r.driver == pgDriver ||
		strings.Contains(q, "current_schema()") && r.driver == mysqlDriver
	switch {
	case lite != (r.driver == sqliteDriver):
		r.fault(s, r.missing(s, strings.Fields(strings.SplitN(q, "FROM ", 2)[1])[0]))
	case wrongFunction:
		r.fault(s, r.syntax(s))
	default:
		_, _ = fmt.Fprintf(&r.out, "%d\n", len(r.st.Tables))
	}
}

func (r *script) keyValue(s statement, m []string) {
	if !r.st.has(keyValueTable) {
		r.fault(s, r.missing(s, keyValueTable))
		return
	}
	switch {
	case m[1] == "state" && m[2] == "install_task" && r.st.InstallTask != "":
		_, _ = fmt.Fprintf(&r.out, "s:%d:\"%s\";\n", len(r.st.InstallTask), r.st.InstallTask)
	case m[1] == "state" && m[2] == "system.maintenance_mode":
		_, _ = fmt.Fprintf(&r.out, "b:%d;\n", btoi(r.st.Maintenance))
	case m[1] == "system.schema" && r.st.Schema[m[2]] != 0:
		r.out.WriteString("i:" + strconv.Itoa(r.st.Schema[m[2]]) + ";\n")
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
