package simsite

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

func isHook(id string) bool {
	_, err := strconv.Atoi(id)
	return err == nil
}

// function is the name of the PHP function of the update.
func (u Update) function() string {
	if isHook(u.ID) {
		return module + "_update_" + u.ID
	}
	return module + "_post_update_" + u.ID
}

func (u Update) kind() string {
	if isHook(u.ID) {
		return "hook_update_n"
	}
	return "post-update"
}

// pending are the updates above the level of the database: hooks by number, then post updates by name.
func pending(r Release, s State) []Update {
	var list []Update
	for _, u := range r.Updates {
		if n, err := strconv.Atoi(u.ID); err == nil && n <= s.Schema[module] {
			continue
		}
		if !slices.Contains(s.Posts, u.ID) {
			list = append(list, u)
		}
	}
	slices.SortStableFunc(list, func(a, b Update) int {
		if isHook(a.ID) != isHook(b.ID) {
			return btoi(isHook(b.ID)) - btoi(isHook(a.ID))
		}
		if d := len(a.ID) - len(b.ID); isHook(a.ID) && d != 0 {
			return d
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

func updateTable(list []Update) string {
	rows := [][]string{{"Module", "Update ID", "Type", "Description"}}
	for _, u := range list {
		rows = append(rows, []string{module, u.ID, u.kind(), u.Desc})
	}
	return table(rows)
}

func (c *call) drushPending(_ []string, o flags) int {
	if c.rel.is(statusFails) {
		return c.fail(1, "%s", c.block("ExceptionHandler.php", 56, "Simulated failure of updatedb:status"))
	}
	s, e := c.load()
	if e != nil {
		return c.fail(1, "%s", c.block("ExceptionHandler.php", 56, e.pdo()))
	}
	list := pending(c.rel, s)
	switch {
	case c.rel.is(brokenService) || len(list) == 0:
		c.warn(" [success] No database updates required.\n")
	case c.rel.is(invalidJSON):
		c.print("\n")
	case o["format"] == "json":
		c.json(pendingJSON(list))
	default:
		c.print("%s", updateTable(list))
	}
	return 0
}

func pendingJSON(list []Update) string {
	var pairs [][2]string
	for _, u := range list {
		key, id := module+"-post-"+u.ID, quote(u.ID)
		if isHook(u.ID) {
			key, id = u.function(), u.ID
		}
		pairs = append(pairs, [2]string{key, object([][2]string{
			{"module", quote(module)}, {"update_id", id}, {"description", quote(u.Desc)}, {"type", quote(u.kind())},
		})})
	}
	return object(pairs)
}

// drushUpdate has no lock, like the real one: what is pending is decided once, at the start.
func (c *call) drushUpdate(_ []string, o flags) int {
	s, e := c.load()
	if e != nil {
		return c.fail(1, "%s", c.block("ExceptionHandler.php", 56, e.pdo()))
	}
	list := pending(c.rel, s)
	if c.rel.is(brokenService) {
		list = nil
	}
	if o.on("no") && len(list) > 0 {
		c.print("%s\n\n ! [WARNING] Do you wish to run the specified pending updates?: no.%s\n\n", updateTable(list), strings.Repeat(" ", 13))
		return c.fail(1, "%s", c.block("UpdateDBCommands.php", 77, "Cancelled."))
	}
	c.log(Event{Event: "updatedb-start", Pending: len(list)})
	code := 0
	if len(list) == 0 {
		c.warn(" [success] No pending updates.\n")
	} else {
		c.print("%s\n%s", updateTable(list), c.comment("Do you wish to run the specified pending updates?: yes."))
		code = c.runUpdates(list, s.Maintenance)
	}
	c.log(Event{Event: "updatedb-end", Pending: len(list), Exit: code})
	return code
}

// runUpdates runs the hooks one after the other; wasOn keeps the maintenance flag as it was.
func (c *call) runUpdates(list []Update, wasOn bool) int {
	c.flag(true)
	c.cost(4 * time.Second)
	if c.rel.is(slowUpdate) {
		time.Sleep(c.pace(8 * time.Second))
	}
	for _, u := range list {
		if code, stop := c.runUpdate(u, wasOn); stop {
			return code
		}
	}
	if e := c.change(func(s *State) { s.Maintenance, s.PageCacheWarm, s.BuiltWith = wasOn, false, c.rel.Core }); e != nil {
		return c.gone()
	}
	if c.rel.is(exit1Applied) {
		return c.fail(1, " [error]  Simulated failure after the last update \n [error]  Finished performing updates. \n")
	}
	c.warn(" [success] Finished performing updates.\n")
	return 0
}

func (c *call) flag(on bool) {
	_ = c.change(func(s *State) { s.Maintenance = on }) // without a database the next write reports it
}

func (c *call) runUpdate(u Update, wasOn bool) (code int, stop bool) {
	c.warn(">  [notice] Update started: %s\n", u.function())
	if u.Fault != "" {
		return c.fault(u, wasOn), true
	}
	time.Sleep(c.pace(20 * time.Millisecond))
	e := c.change(func(s *State) {
		n, err := strconv.Atoi(u.ID)
		if s.Schema == nil { // the tables were dropped under the running update
			s.Schema = map[string]int{}
		}
		if err == nil {
			s.Schema[module] = n
		} else if !slices.Contains(s.Posts, u.ID) {
			s.Posts = append(s.Posts, u.ID)
			slices.Sort(s.Posts)
		}
		times, _ := strconv.Atoi(s.Rows[u.function()]) // absent counts as none
		s.put(u.function(), strconv.Itoa(times+1))
	})
	if e != nil {
		return c.gone(), true
	}
	c.log(Event{Event: "hook", Detail: u.function()})
	if u.Message != "" {
		c.warn(">  [notice] %s\n", u.Message)
	}
	c.warn(">  [notice] Update completed: %s\n", u.function())
	return 0, false
}

// gone is the end of an update whose database went away; the flag stays on.
func (c *call) gone() int {
	c.warn(">  [error]  SQLSTATE[HY000]: General error: 2006 MySQL server has gone away: SELECT 1 AS \"expression\"\n")
	return c.fail(1, "%s", c.block("ProcessBase.php", 155, "Output is empty."))
}
