package simsite

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func isAdmin(word string) bool { return slices.Contains([]string{"names", "releases", "db"}, word) }

// admin is the part of the program that plays nothing: lists and the database server's own door.
func (c *call) admin() int {
	if len(c.args) == 0 {
		return c.fail(2, "usage: simsite names | releases | web | drush … | db create|set|visit|get|show|journal|maint|repair|down|up|delete NAME …\n")
	}
	switch c.args[0] {
	case "names":
		c.print("%s\n", strings.Join(Names(), "\n"))
		return 0
	case "releases":
		for _, r := range Releases() {
			c.print("%s\t%s\n", r.Tag, strings.Join(r.Words, " "))
		}
		return 0
	}
	if len(c.args) < 3 {
		return c.fail(2, "usage: simsite db VERB NAME …\n")
	}
	if err := c.pickRelease(); err != nil {
		return c.fail(125, "simsite: %v\n", err)
	}
	c.name = c.args[2]
	return c.adminDB(c.args[1], c.args[3:])
}

// adminDB opens a database by name, or by path when the name has a slash, past every fault of a release.
func (c *call) adminDB(verb string, args []string) int {
	c.rel.Words = nil
	t := target{driver: c.get("DB_DRIVER", mysqlDriver), name: c.name, file: filepath.Join(c.dir(), c.name+".json")}
	if strings.Contains(c.name, "/") {
		t.driver, t.file = sqliteDriver, c.name
	}
	down := strings.TrimSuffix(t.file, ".json") + ".down"
	switch {
	case verb == "create":
		return c.adminCreate(t, args)
	case verb == "down":
		return c.done(os.WriteFile(down, nil, 0o666)) //nolint:gosec // shared by pods of other users
	case verb == "up":
		err := os.Remove(down)
		if errors.Is(err, os.ErrNotExist) {
			err = nil // twice is once
		}
		return c.done(err)
	case verb == "delete":
		return c.done(os.Remove(t.file))
	case verb == "journal":
		return c.adminJournal()
	case verb == "show":
		s, e := readState(t)
		if e != nil {
			return c.fail(1, "%s\n", e.client())
		}
		c.print("%s", s.encode())
		return 0
	case verb == "get" && len(args) == 1:
		s, _ := readState(t) // no database has no rows
		v, ok := s.Rows[args[0]]
		if !ok {
			return c.fail(1, "simsite: no row %q\n", args[0])
		}
		c.print("%s\n", v)
		return 0
	}
	if verb == "visit" && len(args) == 2 {
		return c.adminVisit(t, down, args)
	}
	return c.adminChange(t, verb, args)
}

// adminVisit writes a row as a visitor does: only while the database is up and the site is open. Nothing but the row is
// changed, and nobody can close the site in between. The exit code is 3 when the site is closed.
func (c *call) adminVisit(t target, down string, args []string) int {
	unlock, err := lock(t.file)
	if err != nil {
		return c.done(err)
	}
	defer unlock()
	s, e := readState(t)
	if _, err := os.Stat(down); err == nil || e != nil || !s.healthy() || s.Maintenance {
		return c.fail(3, "simsite: the site is closed\n")
	}
	s.put(args[0], args[1])
	return c.done(replace(t.file, s.encode()))
}

func (c *call) done(err error) int {
	if err != nil {
		return c.fail(1, "simsite: %v\n", err)
	}
	return 0
}

func (c *call) adminChange(t target, verb string, args []string) int {
	var fn func(*State)
	switch {
	case verb == "set" && len(args) == 2:
		fn = func(s *State) { s.put(args[0], args[1]) }
	case verb == "maint" && len(args) == 1:
		fn = func(s *State) { s.Maintenance = args[0] == "1" }
	case verb == "repair":
		fn = func(s *State) { s.RestoreBroken = false }
	default:
		return c.fail(2, "simsite: db %s: wrong use\n", verb)
	}
	unlock, err := lock(t.file)
	if err != nil {
		return c.done(err)
	}
	defer unlock()
	s, e := readState(t)
	if e != nil {
		return c.fail(1, "%s\n", e.client())
	}
	fn(&s)
	return c.done(replace(t.file, s.encode()))
}

func (c *call) adminJournal() int {
	events, err := Journal(c.dir(), c.name)
	for _, e := range events {
		raw, _ := json.Marshal(e) // an Event always marshals
		c.print("%s\n", raw)
	}
	return c.done(err)
}

// adminCreate makes a database: empty, installed (--install), or half installed (--half).
func (c *call) adminCreate(t target, args []string) int {
	_, _, o := parseArgs(args)
	if _, err := os.Stat(t.file); err == nil {
		return c.fail(1, "simsite: database %q exists\n", c.name)
	}
	s := State{Password: o["password"]}
	if o.on("install") || o.on("half") || o.on("schema") {
		c.fill(&s, t.driver, o)
	}
	if o.on("half") {
		s.InstallTask = "install_base_system"
	}
	if n, err := strconv.Atoi(o["schema"]); err == nil {
		s.Schema[module], s.Posts = n, nil
	} else if o.on("schema") {
		return c.fail(2, "simsite: schema: %v\n", fmt.Sprint(err))
	}
	if o["posts"] != "" {
		s.Posts = strings.Split(o["posts"], ",")
		slices.Sort(s.Posts)
	}
	return c.done(replace(t.file, s.encode()))
}
