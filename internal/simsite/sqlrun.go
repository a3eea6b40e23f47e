package simsite

import "strings"

// sqlError is one failed statement.
type sqlError struct {
	line            int
	statement, text string
}

// script runs SQL text against a state with the habits of one client program.
type script struct {
	st     *State
	driver string
	name   string // name is that of the database, for messages
	strict bool   // strict stops psql at the first error; mysql always stops, sqlite3 never
	full   bool   // full means that there is no space for new data
	out    strings.Builder
	errs   []sqlError
	saved  *State // saved is the state at BEGIN
	failed bool   // failed is PostgreSQL's aborted transaction
}

// run executes the text; a transaction left open at the end, or ended by a stop, is rolled back.
func (r *script) run(text string) {
	for _, s := range splitSQL(text) {
		if strings.HasPrefix(s.text, `\`) {
			r.meta(s.text)
			continue
		}
		before := len(r.errs)
		r.exec(s)
		if len(r.errs) > before && r.stops() {
			break
		}
	}
	r.rollback()
}

func (r *script) stops() bool {
	return r.driver == mysqlDriver || (r.driver == pgDriver && r.strict)
}

func (r *script) meta(line string) {
	f := strings.Fields(line)
	if len(f) >= 2 && f[0] == `\set` && f[1] == "ON_ERROR_STOP" {
		r.strict = len(f) == 2 || (f[2] != "off" && f[2] != "0")
	}
}

func (r *script) begin() {
	saved := r.st.clone()
	r.saved, r.failed = &saved, false
}

func (r *script) rollback() {
	if r.saved != nil {
		*r.st = *r.saved
	}
	r.saved, r.failed = nil, false
}

func (r *script) commit() {
	if r.failed {
		r.rollback()
	}
	r.saved = nil
}

func (r *script) fault(s statement, text string) {
	r.errs = append(r.errs, sqlError{s.line, s.text, text})
	r.failed = r.driver == pgDriver && r.saved != nil
}

// report is what the client prints for the errors.
func (r *script) report() string {
	var b strings.Builder
	for _, e := range r.errs {
		if r.driver == mysqlDriver {
			b.WriteString("--------------\n" + e.statement + "\n--------------\n\n")
		}
		b.WriteString(e.text + "\n")
	}
	return b.String()
}

type statement struct {
	line int
	text string // text is without the final semicolon
}

// splitSQL cuts a script into statements: a statement ends with a semicolon at the end of a line, or at any
// semicolon in a line without quotes.
func splitSQL(text string) []statement {
	var list []statement
	var pending []string
	start := 0
	flush := func(s string) {
		for _, part := range splitPlain(s) {
			list = append(list, statement{start, part})
		}
		pending = nil
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		if len(pending) == 0 {
			if trimmed == "" || strings.HasPrefix(trimmed, "--") {
				continue
			}
			start = n
			if strings.HasPrefix(trimmed, `\`) {
				list = append(list, statement{n, trimmed})
				continue
			}
		}
		pending = append(pending, line)
		if strings.HasSuffix(trimmed, ";") {
			flush(strings.Join(pending, "\n"))
		}
	}
	if len(pending) > 0 {
		flush(strings.Join(pending, "\n"))
	}
	return list
}

func splitPlain(s string) []string {
	s = strings.TrimSuffix(strings.TrimSpace(s), ";")
	parts := []string{s}
	if !strings.ContainsAny(s, `'"$`) {
		parts = strings.Split(s, ";")
	}
	var list []string
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			list = append(list, p)
		}
	}
	return list
}
