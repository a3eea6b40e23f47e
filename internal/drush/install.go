package drush

import (
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

// Bootstrap is the judged answer to Status.
type Bootstrap struct {
	// Healthy says that Drupal bootstraps and reaches its database. False means unknown, never "not installed".
	Healthy bool
	// Drupal and Drush are the versions where they were told.
	Drupal, Drush string
	// Reason says why the site is not known to be healthy. Empty when it is.
	Reason string
}

// ParseBootstrap judges the answer to Status. Drush prints the same empty list for a site that is not installed, a
// database that is down and a wrong password, so there is no other answer than healthy and unknown.
func ParseBootstrap(r Result) Bootstrap {
	if r.Outcome() != Succeeded {
		return Bootstrap{Reason: r.Reason()}
	}
	var fields struct {
		Bootstrap string `json:"bootstrap"`
		Database  string `json:"db-status"`
		Drupal    string `json:"drupal-version"`
		Drush     string `json:"drush-version"`
	}
	if !decodeObject(r, &fields) {
		return Bootstrap{Reason: "Drush does not say that Drupal bootstraps"}
	}
	b := Bootstrap{Drupal: fields.Drupal, Drush: fields.Drush}
	b.Healthy = fields.Bootstrap == "Successful" && fields.Database == "Connected"
	if !b.Healthy {
		b.Reason = "Drush does not say that Drupal bootstraps and reaches its database"
	}
	return b
}

// InstallTask is the judged answer to the question of the same name. The zero value is TaskUnknown.
type InstallTask int

// The answers of the database to the question how far the installation went.
const (
	TaskUnknown         InstallTask = iota // nothing can be said
	TaskDone                               // Drupal says that its installation ended
	TaskHalf                               // the installation began and did not end
	TaskNoRow                              // the query worked, or seemed to, and gave nothing (PostgreSQL hides errors)
	TaskNoTable                            // the database can be queried and has no such table
	TaskUnreachable                        // no connection to the server
	TaskRefused                            // the server refuses the user
	TaskUnknownDatabase                    // the server has no such database
)

// String returns the name of the answer.
func (t InstallTask) String() string {
	names := [...]string{"unknown", "done", "half-installed", "no row", "no table", "unreachable", "refused", "unknown database"}
	if t < 0 || int(t) >= len(names) {
		return "unknown"
	}
	return names[t]
}

var (
	serialized = regexp.MustCompile(`^s:\d+:"([a-z_]*)";$`)
	hexBytes   = regexp.MustCompile(`^\\x([0-9a-f]+)$`)
)

// ParseInstallTask judges the answer to InstallTask by the value, or by the database's own error text. The second
// value is a one-line reason.
func ParseInstallTask(r Result) (InstallTask, string) {
	if !r.Complete {
		return TaskUnknown, r.Reason()
	}
	if task := classifySQLError(r.Stderr + "\n" + r.Stdout); task != TaskUnknown {
		reason := FirstError(r.Stderr)
		if reason == "" {
			reason = FirstError(r.Stdout)
		}
		return task, reason
	}
	if r.ExitCode != 0 {
		return TaskUnknown, r.Reason()
	}
	value := strings.TrimSpace(withoutPollution(r.Stdout))
	if value == "" {
		return TaskNoRow, "the database holds no record of an installation"
	}
	if m := hexBytes.FindStringSubmatch(value); m != nil {
		if raw, err := hex.DecodeString(m[1]); err == nil {
			value = string(raw)
		}
	}
	m := serialized.FindStringSubmatch(value)
	switch {
	case m == nil:
		return TaskUnknown, "the record of the installation cannot be read"
	case m[1] == "done":
		return TaskDone, "Drupal records its installation as done"
	}
	return TaskHalf, "Drupal records its installation as unfinished"
}

var sqlErrors = []struct {
	task    InstallTask
	pattern *regexp.Regexp
}{
	{TaskNoTable, regexp.MustCompile(`ERROR 1146 \(|no such table: "?(main\.)?key_value|relation "[^"]*key_value" does not exist`)},
	{TaskUnknownDatabase, regexp.MustCompile(`ERROR 1049 \(|\[1049\]|Got error: 1049:|FATAL: +database "[^"]*" does not exist`)},
	{TaskRefused, regexp.MustCompile(`ERROR (1044|1045|1130|1698) \(|\[(1044|1045|1130|1698)\]|Got error: (1044|1045|1130|1698):|` +
		`password authentication failed|no pg_hba\.conf entry|FATAL: +role "[^"]*" does not exist|no password supplied`)},
	{TaskUnreachable, regexp.MustCompile(`ERROR (2002|2003|2005|2006|2013) \(|\[(2002|2003|2005|2006|2013)\]|` +
		`Got error: (2002|2003|2005|2006|2013):|could not connect to server|could not translate host name|` +
		`connection to server [^\n]* failed: (Connection refused|Connection timed out|timeout expired|No such file|No route to host|Network is unreachable)|` +
		`Connection refused|the database system is (starting up|shutting down)|unable to open database`)},
}

func classifySQLError(text string) InstallTask {
	flat := collapse(Unwrap(text))
	for _, e := range sqlErrors {
		if e.pattern.MatchString(flat) {
			return e.task
		}
	}
	return TaskUnknown
}

// ParseTableCount returns the number that TableCount asked for, and false unless the answer is one number and nothing
// else. A header of psql is tolerated.
func ParseTableCount(r Result) (int, bool) {
	if r.Outcome() != Succeeded {
		return 0, false
	}
	found, count := 0, 0
	for line := range strings.Lines(withoutPollution(r.Stdout)) {
		line = strings.TrimSpace(line)
		if line == "" || line == "count" || line == "(1 row)" || strings.Trim(line, "-") == "" {
			continue
		}
		n, err := strconv.ParseUint(line, 10, 31)
		if err != nil || line[0] == '+' {
			return 0, false
		}
		found, count = found+1, int(n)
	}
	return count, found == 1
}

// Installation says what is known about a site's database. The zero value is InstallationUnknown.
type Installation int

// The states of a site's database.
const (
	InstallationUnknown Installation = iota
	Installed
	Empty
	HalfInstalled
)

// String returns the name of the state.
func (i Installation) String() string {
	switch i {
	case Installed:
		return "Installed"
	case Empty:
		return "Empty"
	case HalfInstalled:
		return "HalfInstalled"
	case InstallationUnknown:
	}
	return "Unknown"
}

// Tables is the answer of ParseTableCount, kept as one value.
type Tables struct {
	Count int
	Known bool
}

// Classify joins the three answers. Installed needs a healthy bootstrap and Drupal's own record; Empty needs proof:
// the database answers, holds no table at all, and nothing contradicts that. A failed question never proves anything.
func Classify(b Bootstrap, task InstallTask, tables Tables) Installation {
	switch {
	case task == TaskDone && b.Healthy:
		return Installed
	case task == TaskHalf:
		return HalfInstalled
	case b.Healthy:
		return InstallationUnknown
	case (task == TaskNoTable || task == TaskNoRow) && tables.Known && tables.Count == 0:
		return Empty
	}
	return InstallationUnknown
}
