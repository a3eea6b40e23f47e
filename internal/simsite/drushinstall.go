package simsite

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// baseLevel is the schema of the module that every release ships.
const baseLevel = 10000

var installTasks = []string{
	"install_select_language", "install_select_profile", "install_load_profile", "install_verify_requirements",
	"install_verify_database_ready", "install_base_system", "install_bootstrap_full", "install_profile_modules",
	"install_profile_themes", "install_install_profile", "install_configure_form", "install_finished",
}

// drushInstall drops everything without a word.
func (c *call) drushInstall(args []string, o flags) int {
	t := c.target()
	question := "DROP all tables in your '" + t.name + "' database."
	_, e := c.load()
	if e != nil {
		question = "CREATE the '" + t.name + "' database."
	}
	c.print(" You are about to:\n * %s\n%s", question, c.comment("Do you want to continue?: yes."))
	c.log(Event{Event: "install", Detail: strings.Join(args, " "), Exit: btoi(e != nil)})
	if e != nil {
		return c.installFailed(e)
	}
	_ = c.change((*State).dropAll) // the connection was good a moment ago
	c.warn(" [notice] Starting Drupal installation. This takes a while.\n")
	if len(args) > 0 && args[0] != "minimal" && args[0] != "standard" && args[0] != "demo_umami" {
		return c.fail(1, "%s", c.block("ExtensionList.php", 519, "The profile "+args[0]+" does not exist."))
	}
	c.cost(10 * time.Second)
	if e := c.change(func(s *State) { c.fill(s, t.driver, o) }); e != nil {
		return c.installFailed(e)
	}
	for _, task := range installTasks {
		c.warn(" [notice] Performed install task: %s\n", task)
	}
	c.warn(" [success] Installation complete.\n")
	return 0
}

func (c *call) fill(s *State, driver string, o flags) {
	level := baseLevel
	for _, u := range c.rel.Updates {
		if n, err := strconv.Atoi(u.ID); err == nil {
			level = max(level, n)
		}
	}
	s.install(driver, c.rel, level)
	for _, u := range c.rel.Updates {
		if !isHook(u.ID) {
			s.Posts = append(s.Posts, u.ID)
		}
	}
	if name := o["account-name"]; name != "" {
		s.Users = []string{name}
	}
}

func (c *call) installFailed(e *dbError) int {
	c.warn(" [warning] Failed to drop or create the database. Do it yourself before installing. %s\n\n", e.client())
	c.warn(" [notice] Starting Drupal installation. This takes a while.\n")
	for _, task := range installTasks[:3] {
		c.warn(" [notice] Performed install task: %s\n", task)
	}
	return c.fail(1, "%s", c.block("SiteInstallCommands.php", 177, "Database settings:\nResolve all issues below to continue the installation.\n"+
		" * Failed to connect to your database server. The server reports the\n   following message: /"+e.pdo()+"/."))
}

var throwRE = regexp.MustCompile(`^throw new \\Exception\('([^']*)'(?:, ?(\d+))?\);?$`)

// drushEval knows a few snippets only.
func (c *call) drushEval(args []string, _ flags) int {
	code := strings.TrimSpace(strings.Join(args, " "))
	if m := throwRE.FindStringSubmatch(code); m != nil {
		n, err := strconv.Atoi(m[2])
		if err != nil || n == 0 {
			n = 1
		}
		return c.fail(n%256, "%s", c.block("PhpCommands.php(33) : eval()'d code", 1, m[1]))
	}
	if strings.HasPrefix(code, "exit(") {
		return c.fail(1, " [warning] Drush command terminated abnormally.\n")
	}
	if code == `print \Drupal::VERSION;` || code == `echo \Drupal::VERSION;` {
		c.print("%s", c.rel.Core)
		return 0
	}
	s, e := c.load()
	if e != nil {
		return c.fail(2002%256, "%s", c.block("Connection.php", 201, e.pdo()))
	}
	if strings.Contains(code, "drupdate_ahead") {
		c.json(`{"drupdate_ahead":` + jsonList(ahead(c.rel, s)) + "}")
		return 0
	}
	return c.evalState(code, s)
}

// ahead names the updates of a database that a release's code does not ship: it ships its own, and those of every good
// release up to its version of the core.
func ahead(rel Release, s State) []string {
	level, posts := baseLevel, []string{}
	for _, r := range append(Releases(), rel) {
		if r.Tag != rel.Tag && (!r.is(good) || r.Core > rel.Core) {
			continue
		}
		for _, u := range r.Updates {
			if n, err := strconv.Atoi(u.ID); err == nil {
				level = max(level, n)
			} else {
				posts = append(posts, u.ID)
			}
		}
	}
	var names []string
	if n := s.Schema[module]; n > level {
		names = append(names, module+"_update_"+strconv.Itoa(n))
	}
	for _, p := range s.Posts {
		if !slices.Contains(posts, p) {
			names = append(names, module+"_post_update_"+p)
		}
	}
	return names
}

// jsonList renders names as PHP's json_encode does.
func jsonList(names []string) string {
	raw, _ := json.Marshal(append([]string{}, names...)) // strings always marshal
	return string(raw)
}

func (c *call) evalState(code string, s State) int {
	schema, _ := json.Marshal(s.Schema) // a map of numbers always marshals
	posts := strconv.Itoa(corePosts + len(s.Posts))
	switch {
	case strings.HasPrefix(code, "print json_encode(['core'=>"):
		c.print(`{"core":"%s","php":"8.2.36","schema":%s,"maint":%t,"post":%s}`, c.rel.Core, schema, s.Maintenance, posts)
	case strings.HasPrefix(code, `print \Drupal::VERSION.' '.json_encode(`):
		c.print("%s %s", c.rel.Core, schema)
	case strings.HasPrefix(code, `print count(\Drupal::keyValue('post_update')`):
		c.print("%s", posts)
	default:
		return c.fail(1, "%s", c.block("PhpCommands.php(33) : eval()'d code", 1, "simsite does not know this snippet"))
	}
	return 0
}
