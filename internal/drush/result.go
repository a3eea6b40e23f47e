package drush

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Outcome is the verdict on a remote command. The zero value is Unknown.
type Outcome int

// The three outcomes. Unknown is not a failure: the command may have done its work.
const (
	Unknown Outcome = iota
	Succeeded
	Failed
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "Succeeded"
	case Failed:
		return "Failed"
	case Unknown:
	}
	return "Unknown"
}

// Result is what came back from one remote command.
type Result struct {
	// ExitCode is the command's own exit code. It means nothing unless Complete.
	ExitCode int
	// Stdout and Stderr are what arrived, with the middle cut out where it was too long.
	Stdout, Stderr string
	// Complete says that the end frame was seen and every byte arrived.
	Complete bool
	// Note says why an incomplete result is incomplete, in a few words. Empty when complete.
	Note string
}

// Outcome judges the command by its exit code alone, for commands without a better proof.
func (r Result) Outcome() Outcome {
	switch {
	case !r.Complete:
		return Unknown
	case r.ExitCode == 0:
		return Succeeded
	default:
		return Failed
	}
}

// Reason says in one line why the command did not answer well. It carries no timestamp, and is empty after exit 0.
func (r Result) Reason() string {
	switch {
	case !r.Complete && r.Note != "":
		return "the answer is incomplete: " + cut(oneLine(r.Note), MaxMessage)
	case !r.Complete:
		return "the answer is incomplete"
	case r.ExitCode == 0:
		return ""
	}
	if line := FirstError(r.Stderr); line != "" {
		return line
	}
	if line := FirstError(r.Stdout); line != "" {
		return line
	}
	return fmt.Sprintf("exit code %d without a message", r.ExitCode)
}

// ParseField returns the one line that "status --field=…" printed, and false when there is none.
func ParseField(r Result) (string, bool) {
	if r.Outcome() != Succeeded {
		return "", false
	}
	value := strings.TrimSpace(withoutPollution(r.Stdout))
	return value, value != "" && !strings.Contains(value, "\n")
}

// ParseDriver returns the database driver that DriverField asked for, and false for any driver but the three known.
func ParseDriver(r Result) (Driver, bool) {
	value, ok := ParseField(r)
	switch d := Driver(value); d {
	case MySQL, Pgsql, SQLite:
		return d, ok
	}
	return "", false
}

// ParseMaintenance returns the maintenance flag that MaintenanceGet asked for. The second value is false for
// anything but a plain 0 or 1.
func ParseMaintenance(r Result) (on, known bool) {
	value, ok := ParseField(r)
	return value == "1", ok && (value == "0" || value == "1")
}

// ParseCacheRebuild judges CacheRebuild: Succeeded needs exit code 0 and Drush's own words. The second value is the
// reason for any other outcome.
func ParseCacheRebuild(r Result) (Outcome, string) {
	outcome := r.Outcome()
	if outcome != Succeeded {
		return outcome, r.Reason()
	}
	if strings.Contains(r.Stderr+r.Stdout, "Cache rebuild complete") {
		return Succeeded, ""
	}
	return Unknown, "exit code 0 without the words \"Cache rebuild complete\""
}

// ParseMissingCode reads from the answer to Requirements whether an enabled module or theme has no code in the image,
// which Drush passes over in silence everywhere else. False is no proof that all code is there: the answer may not have
// come. Drupal's other requirements are no business of an update.
func ParseMissingCode(r Result) bool {
	var found map[string]json.RawMessage
	if r.Outcome() != Succeeded || !decodeObject(r, &found) {
		return false
	}
	return found["invalid_module"] != nil || found["invalid_theme"] != nil
}

// decodeObject reads the first JSON object that begins a line of the answer; PHP may have printed anything before it.
func decodeObject(r Result, into any) bool {
	text := withoutPollution(r.Stdout)
	start := strings.Index("\n"+text, "\n{")
	return start >= 0 && json.NewDecoder(strings.NewReader(text[start:])).Decode(into) == nil
}
