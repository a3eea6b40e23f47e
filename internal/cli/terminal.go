package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// terminal is where output goes. One that is not a terminal gets plain text of any width.
type terminal struct {
	io.Writer
	file *os.File
	// live: it is a terminal, of which lines can be written again.
	live bool
	// colour: it shows colours, and nobody asked for none.
	colour bool
}

func newTerminal(out io.Writer, env func(string) (string, bool)) *terminal {
	t := &terminal{Writer: out}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return t
	}
	kind, _ := env("TERM")
	plain, _ := env("NO_COLOR")
	t.file, t.live = file, kind != "dumb"
	t.colour = t.live && plain == ""
	return t
}

// size is the terminal's width and height; zero means that there is no limit.
func (t *terminal) size() (width, height int) {
	if t.file == nil {
		return 0, 0
	}
	width, height, err := term.GetSize(int(t.file.Fd()))
	if err != nil || width < 20 {
		return 100, 0
	}
	return width, height
}

func (t *terminal) width() int {
	width, _ := t.size()
	return width
}

// style is how a piece of text looks: the parameters of an ANSI escape sequence, or none.
type style string

const (
	plain  style = ""
	strong style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	blue   style = "36"
	alarm  style = "1;31"
)

func (t *terminal) paint(text string, s style) string {
	if !t.colour || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// say writes a line.
func (t *terminal) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t, format+"\n", args...) // Nobody is left to be told.
}

// clean makes one line of a text, without anything that a terminal would obey: messages may come from a site's own code.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), r == utf8.RuneError:
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// cut shortens a text to a width of at least one.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return strings.TrimRight(string(runes[:width-1]), " ") + "…"
}

// wrap breaks a text into lines of at most a width, between words; zero means one line. A word that is longer stays whole.
func wrap(text string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
