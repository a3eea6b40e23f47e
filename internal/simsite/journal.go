package simsite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Event is one line of the journal of a database. The journal is beside the database, so it survives drops and
// restores.
type Event struct {
	Time        time.Time `json:"time"`
	PID         int       `json:"pid"`
	Pod         string    `json:"pod"` // Pod is POD_IP, or else HOSTNAME.
	Release     string    `json:"release"`
	Event       string    `json:"event"`
	Detail      string    `json:"detail,omitempty"`
	Pending     int       `json:"pending,omitempty"`
	Exit        int       `json:"exit"`
	Maintenance bool      `json:"maintenance"` // Maintenance is the flag at the time of the event.
}

// journalPath is where the journal of a database is. A database file of SQLite is known by its base name.
func journalPath(dir, name string) string {
	name = strings.TrimSuffix(filepath.Base(name), ".json")
	return filepath.Join(dir, name+".journal.jsonl")
}

// journalName is the name of the database for the journal: DB_NAME also for SQLite, when it is set.
func (c *call) journalName() string { return c.get("DB_NAME", c.target().name) }

func (c *call) log(e Event) {
	if s, err := c.load(); err == nil {
		e.Maintenance = s.Maintenance
	}
	e.Time, e.PID, e.Pod, e.Release = time.Now().UTC(), os.Getpid(), c.get("POD_IP", c.env["HOSTNAME"]), c.rel.Tag
	raw, _ := json.Marshal(e)                                                                                // an Event always marshals
	f, err := os.OpenFile(journalPath(c.dir(), c.journalName()), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666) //nolint:gosec // shared by pods of other users
	if err != nil {
		c.warn("simsite: journal: %v\n", err)
		return
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(append(raw, '\n')); err != nil {
		c.warn("simsite: journal: %v\n", err)
	}
}

// Journal reads the events of a database, oldest first. No file means no events.
func Journal(dir, name string) ([]Event, error) {
	raw, err := os.ReadFile(journalPath(dir, name))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var events []Event
	for line := range strings.Lines(string(raw)) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}
