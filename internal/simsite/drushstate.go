package simsite

import (
	"strconv"
	"strings"
	"time"
)

func (c *call) drushRebuild(_ []string, _ flags) int {
	c.cost(2 * time.Second)
	broken := c.rel.is(crBroken) || c.rel.is(brokenService) || (c.rel.is(crFailsOnce) && c.failures() == 0)
	_ = c.change(func(s *State) { // the connection was good a moment ago
		s.PageCacheWarm = false
		if !broken {
			s.BuiltWith = c.rel.Core
		}
	})
	if broken {
		c.log(Event{Event: "cr-failed", Exit: 1})
		return c.fail(1, "%s", c.block("CheckExceptionOnInvalidReferenceBehaviorPass.php", 119,
			"The service \"study_upd.svc\" has a dependency on a non-existent service \"no_such.service\"."))
	}
	c.log(Event{Event: "cr"})
	c.warn(" [success] Cache rebuild complete.\n")
	return 0
}

// failures counts the failed rebuilds of this release in the journal.
func (c *call) failures() int {
	n := 0
	events, _ := Journal(c.dir(), c.journalName()) // an unreadable journal counts as empty
	for _, e := range events {
		if e.Event == "cr-failed" && e.Release == c.rel.Tag {
			n++
		}
	}
	return n
}

func (c *call) drushClear(args []string, _ flags) int {
	if len(args) < 2 || args[0] != "bin" {
		return c.fail(1, "%s", c.block("CacheCommands.php", 112, "'"+strings.Join(args, " ")+"' cache not found. Valid choices: bin"))
	}
	if args[1] == "page" {
		_ = c.change(func(s *State) { s.PageCacheWarm = false }) // the connection was good a moment ago
	}
	c.log(Event{Event: "cache-clear", Detail: args[1]})
	c.warn(" [success] %s cache bin cleared.\n", args[1])
	return 0
}

func (c *call) setMaintenance(on bool) {
	_ = c.change(func(s *State) { s.Maintenance = on }) // the connection was good a moment ago
	name := "maint-off"
	if on {
		name = "maint-on"
	}
	c.log(Event{Event: name})
}

func (c *call) maintenance() bool {
	s, _ := c.load() // the connection was good a moment ago
	return s.Maintenance
}

func (c *call) drushMaintGet(_ []string, _ flags) int {
	c.print("%d\n", btoi(c.maintenance()))
	return 0
}

// drushMaintSet takes every word but 0 and the empty one for on, "false" included.
func (c *call) drushMaintSet(args []string, _ flags) int {
	if len(args) != 1 {
		return c.fail(1, "%s", c.block("", 0, "Not enough arguments (missing: \"value\")."))
	}
	c.setMaintenance(args[0] != "0" && args[0] != "")
	return 0
}

func (c *call) drushMaintStatus(_ []string, _ flags) int { return 3 * btoi(c.maintenance()) }

func (c *call) drushStateGet(args []string, o flags) int {
	s, _ := c.load() // the connection was good a moment ago
	key := strings.Join(args, " ")
	text, raw := "", "null"
	switch key {
	case "system.maintenance_mode":
		raw = strconv.FormatBool(s.Maintenance)
		text = map[bool]string{true: "1"}[s.Maintenance]
	case "install_task":
		text, raw = s.InstallTask, quote(s.InstallTask)
	}
	if o["format"] == "json" {
		c.json(object([][2]string{{key, raw}}))
		return 0
	}
	c.print("%s\n", text)
	return 0
}

func (c *call) drushStateSet(args []string, _ flags) int {
	if len(args) != 2 {
		return c.fail(1, "%s", c.block("", 0, "Not enough arguments (missing: \"value\")."))
	}
	if args[0] == "system.maintenance_mode" {
		c.setMaintenance(args[1] != "0" && args[1] != "" && !strings.EqualFold(args[1], "false"))
	}
	return 0
}

func (c *call) drushRequirements(_ []string, o flags) int {
	c.warn(" [error]  Failed to retrieve security advisory data. \n")
	if o["format"] == "json" {
		c.json("[]")
	}
	return 0
}

func (c *call) drushEnable(args []string, _ flags) int {
	c.warn(" [success] Successfully installed: %s\n", strings.Join(args, ", "))
	return 0
}

func (c *call) drushLogin(_ []string, o flags) int {
	c.print("%s/user/reset/1/%d/simsite-one-time-hash/login\n", c.uri(o), time.Now().Unix())
	return 0
}

func (c *call) drushUser(args []string, _ flags) int {
	s, _ := c.load() // the connection was good a moment ago
	for i, u := range s.Users {
		if len(args) > 0 && u == args[0] {
			id := strconv.Itoa(i + 1)
			c.json(object([][2]string{{id, object([][2]string{{"uid", quote(id)}, {"name", quote(u)}})}}))
			return 0
		}
	}
	return c.fail(1, "%s", c.block("UserCommands.php", 81, "Unable to find a matching user"))
}
