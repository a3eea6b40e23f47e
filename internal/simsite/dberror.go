package simsite

import "fmt"

const (
	unreachable = iota
	unknownHost
	refused
	unknownDatabase
	malformed
)

// dbError says why there is no connection, in the words of the driver's own tools.
type dbError struct {
	t    target
	kind int
}

// client is the text of mysql, psql or sqlite3.
func (e *dbError) client() string {
	switch e.t.driver {
	case pgDriver:
		return "psql: error: " + e.pg()
	case sqliteDriver:
		return e.lite()
	}
	code, text := e.mysql()
	return "ERROR " + code + ": " + text
}

// dump is the text of mysqldump, pg_dump or sqlite3.
func (e *dbError) dump() string {
	switch e.t.driver {
	case pgDriver:
		return "pg_dump: error: " + e.pg()
	case sqliteDriver:
		return e.lite()
	}
	code, text := e.mysql()
	return fmt.Sprintf("mysqldump: Got error: %s: \"%s\" when trying to connect", code[:4], text)
}

// pdo is the text of PHP's own connection.
func (e *dbError) pdo() string {
	switch {
	case e.t.driver == pgDriver:
		return "SQLSTATE[08006] [7] " + e.pg()
	case e.t.driver == sqliteDriver:
		return "SQLSTATE[HY000] [14] unable to open database file"
	case e.kind == unreachable:
		return "SQLSTATE[HY000] [2002] Connection refused"
	}
	code, text := e.mysql()
	return "SQLSTATE[HY000] [" + code[:4] + "] " + text
}

func (e *dbError) mysql() (code, text string) {
	switch e.kind {
	case unknownHost:
		return "2005 (HY000)", fmt.Sprintf("Unknown server host '%s' (-2)", e.t.host)
	case refused:
		using := "YES"
		if e.t.password == "" {
			using = "NO"
		}
		return "1045 (28000)", fmt.Sprintf("Access denied for user '%s'@'localhost' (using password: %s)", e.t.user, using)
	case unknownDatabase:
		return "1049 (42000)", fmt.Sprintf("Unknown database '%s'", e.t.name)
	}
	return "2002 (HY000)", fmt.Sprintf("Can't connect to server on '%s' (115)", e.t.host)
}

func (e *dbError) pg() string {
	if e.kind == unknownHost {
		return fmt.Sprintf("could not translate host name \"%s\" to address: Name or service not known", e.t.host)
	}
	text := fmt.Sprintf("connection to server at \"%s\", port %s failed: ", e.t.host, e.t.port)
	switch e.kind {
	case refused:
		return text + fmt.Sprintf("FATAL:  password authentication failed for user \"%s\"", e.t.user)
	case unknownDatabase:
		return text + fmt.Sprintf("FATAL:  database \"%s\" does not exist", e.t.name)
	}
	return text + "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?"
}

func (e *dbError) lite() string {
	if e.kind == malformed {
		return "Error: in prepare, file is not a database (26)"
	}
	return fmt.Sprintf("Error: unable to open database \"%s\": unable to open database file", e.t.file)
}
