//go:build e2e

package install

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// known are the programs whose flags are looked up, and plain those that any machine has.
var (
	known = []string{"helm", "kubectl", "drupdate", "temporal"}
	plain = []string{"eval", "export", "jq", "test", "for", "do", "done", "openssl"}
)

func itoa(n int) string { return strconv.Itoa(n) }

// flagsExist looks every flag of every command up in what its program says of itself.
func (b block) flagsExist(t *testing.T) {
	t.Helper()
	for _, words := range commands(b.text) {
		switch program := words[0]; {
		case program == "make":
			makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
			require.NoError(t, err)
			for _, target := range words[1:] {
				require.Regexp(t, `(?m)^([a-z-]+ )*`+regexp.QuoteMeta(target)+`( [a-z-]+)*:`, string(makefile))
			}
		case slices.Contains(known, program):
			help := helpOf(t, words)
			for _, word := range words[1:] {
				if name := flagName(word); name != "" {
					require.Regexp(t, `(^|[\s,])`+regexp.QuoteMeta(name)+`\b`, help, "%v", words)
				}
			}
		default:
			require.Contains(t, plain, program, "%v: say how it is looked up", words)
		}
	}
}

// flagName is the flag of a word without its value, or empty.
func flagName(word string) string {
	name, _, _ := strings.Cut(word, "=")
	if !regexp.MustCompile(`^(--[a-z][a-z-]+|-[a-zA-Z])$`).MatchString(name) {
		return ""
	}
	return name
}

var helps sync.Map

// helpOf is what a program says of the command that the words begin with. Words that are no command are arguments to it.
func helpOf(t *testing.T, words []string) string {
	t.Helper()
	args := []string{}
	for i := 1; i < len(words) && len(args) < 4; i++ {
		switch {
		case words[i] == "-n" || words[i] == "--namespace" || words[i] == "-l" || words[i] == "-o" || words[i] == "-c":
			i++
		case words[i] == "--":
			i = len(words)
		case !strings.HasPrefix(words[i], "-"):
			args = append(args, words[i])
		}
	}
	key := words[0] + " " + strings.Join(args, " ")
	if found, ok := helps.Load(key); ok {
		return found.(string)
	}
	help := run(t, words[0], append(args, "--help")...)
	if words[0] == "kubectl" {
		help += run(t, "kubectl", "options")
	}
	helps.Store(key, help)
	return help
}

// commands splits a script into the words of its commands: enough of a shell for the documents, which have no deep ones.
// Here-documents are left out, and so is what stands in quotes and in $(…).
func commands(script string) [][]string {
	script = regexp.MustCompile(`(?s)<<'EOF'\n.*?\nEOF\n`).ReplaceAllString(script, "\n")
	script = strings.ReplaceAll(script, "\\\n", " ")
	var all [][]string
	var words []string
	var word strings.Builder
	quote, depth := rune(0), 0
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	next := func() {
		end()
		if len(words) > 0 && words[0] != "" {
			all = append(all, words)
		}
		words = nil
	}
	for _, r := range script {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
			word.WriteRune('_')
		case depth > 0 && r == ')':
			depth--
			word.WriteRune('_')
		case r == '(' && word.Len() > 0:
			depth++
		case depth > 0:
			word.WriteRune('_')
		case r == '\'' || r == '"':
			quote = r
			word.WriteRune('_')
		case r == '\n' || r == ';' || r == '|' || r == '&':
			next()
		case r == ' ' || r == '\t':
			end()
		default:
			word.WriteRune(r)
		}
	}
	next()
	return all
}

func TestAScriptIsSplitIntoItsCommands(t *testing.T) {
	t.Parallel()
	require.Equal(t, [][]string{
		{"kubectl", "-n", "a", "get", "x"}, {"jq", "____"}, {"helm", "install", "a", "--set", "b=____", "--wait"}, {"kubectl", "apply", "-f", "-"},
	}, commands("kubectl -n a get x | jq '.a'\nhelm install a \\\n  --set b=\"$X\" --wait\nkubectl apply -f - <<'EOF'\nkind: X\nEOF\n"))
}
