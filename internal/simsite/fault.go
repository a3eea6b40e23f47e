package simsite

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// chainDepth is how many processes stand above the one that runs the updates.
const chainDepth = 2

// fault plays a failing hook: it always leaves a partial write.
func (c *call) fault(u Update, wasOn bool) int {
	e := c.change(func(s *State) {
		s.create(partialTable)
		s.put("partial_"+u.function(), "1")
		if c.rel.is(restoreFails) {
			s.RestoreBroken = true
		}
	})
	if e != nil {
		return c.gone()
	}
	c.log(Event{Event: "hook-" + u.Fault, Detail: u.function()})
	switch u.Fault {
	case "exception", "exit0":
		return c.exception(u, wasOn)
	case "hang":
		for {
			time.Sleep(time.Hour)
		}
	case "exit":
		c.warn(">  [warning] Drush command terminated abnormally.\n")
	case "killed":
		c.warn("> Killed\n")
	default:
		return c.phpError(u, wasOn)
	}
	return c.fail(1, "%s", c.block("ProcessBase.php", 155, "Output is empty."))
}

// exception ends the batch in order, so Drush puts the flag back and the half-updated site is live.
func (c *call) exception(u Update, wasOn bool) int {
	message, code := u.Message, 1
	if u.Fault == "exit0" {
		message, code = "Simulated exception with code 256", 0
	}
	c.warn(">  [error]  %s \n>  [error]  Update failed: %s \n", message, u.function())
	c.warn(" [error]  Update aborted by: %s \n [error]  Finished performing updates. \n", u.function())
	c.flag(wasOn)
	return code
}

// phpError is an Error that is no Exception: caught in a hook, fatal in a post update.
func (c *call) phpError(u Update, wasOn bool) int {
	const undefined = "Call to undefined function no_such_function()"
	if isHook(u.ID) {
		u.Message = undefined
		return c.exception(u, wasOn)
	}
	where := undefined + " in " + u.function() + "() (line 3 of /app/web/modules/custom/study_upd/study_upd.post_update.php)"
	trace := " #0 /app/vendor/drush/drush/src/Commands/core/UpdateDBCommands.php(291): " + u.function() + "()\n> #18 {main}"
	c.warn(">  [error]  Error: %s%s. \n", where, trace)
	c.warn("> Error: %s in /app/web/modules/custom/study_upd/study_upd.post_update.php on line 3%s\n", undefined, trace)
	c.warn(">  [warning] Drush command terminated abnormally.\n")
	return c.fail(1, "%s", c.block("ProcessBase.php", 171, "Unable to decode output into JSON: Syntax error\n\nError: "+where+"."))
}

// chain puts processes above an update that takes long, as Drush does: a signal to the top one does not reach it.
func (c *call) chain() (int, bool) {
	name, _, _ := parseArgs(c.args)
	depth, _ := strconv.Atoi(c.env["SIMSITE_CHAIN"]) // absent is the top
	if depth >= chainDepth || !slices.Contains([]string{"updatedb", "updb"}, name) {
		return 0, false
	}
	if !c.rel.is(updateHangs) && !c.rel.is(slowUpdate) {
		return 0, false
	}
	exe, err := os.Executable()
	if err != nil {
		return c.fail(1, "simsite: %v\n", err), true
	}
	child := &exec.Cmd{Path: exe, Args: append([]string{"drush"}, c.args...), Stdin: c.in, Stdout: c.out, Stderr: c.err}
	for k, v := range c.env {
		if k != "SIMSITE_CHAIN" {
			child.Env = append(child.Env, k+"="+v)
		}
	}
	child.Env = append(child.Env, "SIMSITE_CHAIN="+strconv.Itoa(depth+1))
	_ = child.Run() // the exit code says it all
	if child.ProcessState == nil || child.ProcessState.ExitCode() < 0 {
		return 1, true
	}
	return child.ProcessState.ExitCode(), true
}
