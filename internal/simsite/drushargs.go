package simsite

import (
	"slices"
	"strings"
)

// flags are the options of one Drush call; a switch has the value "1".
type flags map[string]string

var globalOptions = []string{
	"uri", "root", "yes", "no", "no-interaction", "verbose", "quiet", "debug", "simulate", "strict", "ansi",
	"no-ansi", "version", "help", "define", "format", "field", "fields", "include", "filter",
}

var switches = []string{
	"yes", "no", "no-interaction", "verbose", "quiet", "debug", "simulate", "ansi", "no-ansi", "version", "help",
	"gzip", "no-browser", "file-delete", "existing-config", "no-cache-clear", "create-db", "data-only", "ordered-dump",
	"show-passwords",
}

var shortOptions = map[string]string{
	"y": "yes", "n": "no-interaction", "v": "verbose", "vv": "verbose", "vvv": "verbose", "q": "quiet", "l": "uri",
	"r": "root", "d": "debug", "h": "help", "D": "define", "s": "simulate",
}

// parseArgs cuts a call into command, arguments and options. Options may stand anywhere.
func parseArgs(args []string) (command string, rest []string, opts flags) {
	opts = flags{}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if !strings.HasPrefix(a, "-") || a == "-" {
			rest = append(rest, a)
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if long, ok := shortOptions[name]; ok && !strings.HasPrefix(a, "--") {
			name = long
		}
		switch {
		case given:
		case slices.Contains(switches, name):
			value = "1"
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && takesValue(name):
			i++
			value = args[i]
		}
		opts[name] = value
	}
	if len(rest) > 0 {
		command, rest = rest[0], rest[1:]
	}
	return command, rest, opts
}

// takesValue says whether the next word belongs to the option.
func takesValue(name string) bool {
	return slices.Contains([]string{
		"uri", "root", "format", "field", "fields", "result-file", "extra-dump", "extra", "file", "severity",
		"input-format", "account-name", "account-pass", "account-mail", "site-name", "site-mail", "db-url", "name",
		"uid", "define", "include", "filter", "database", "target", "locale", "structure-tables-list",
	}, name)
}

// unknown names an option that the command does not have, or "".
func (o flags) unknown(allowed []string) string {
	for name := range o {
		if !slices.Contains(globalOptions, name) && !slices.Contains(allowed, name) {
			return name
		}
	}
	return ""
}

func (o flags) on(name string) bool {
	_, ok := o[name]
	return ok
}
