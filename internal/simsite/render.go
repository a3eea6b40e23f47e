package simsite

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// columns is the width that Drush assumes without a terminal.
func (c *call) columns() int {
	if n, err := strconv.Atoi(c.env["COLUMNS"]); err == nil && n > 20 {
		return n
	}
	return 80
}

// block renders an uncaught exception as Symfony does. An empty file leaves the head out.
func (c *call) block(file string, line int, text string) string {
	var lines []string
	longest := 0
	for raw := range strings.SplitSeq(text, "\n") {
		for _, l := range hardWrap(raw, c.columns()-5) {
			lines = append(lines, l)
			longest = max(longest, utf8.RuneCountInString(l))
		}
	}
	pad := strings.Repeat(" ", longest+4)
	var b strings.Builder
	b.WriteString("\n")
	if file != "" {
		b.WriteString("In " + file + " line " + strconv.Itoa(line) + ":\n")
	}
	b.WriteString(pad + "\n")
	for _, l := range lines {
		b.WriteString("  " + l + strings.Repeat(" ", longest-utf8.RuneCountInString(l)) + "  \n")
	}
	b.WriteString(pad + "\n\n")
	return b.String()
}

func hardWrap(s string, width int) []string {
	r := []rune(s)
	var lines []string
	for len(r) > width {
		lines = append(lines, string(r[:width]))
		r = r[width:]
	}
	return append(lines, string(r))
}

// comment renders the question that -y answers.
func (c *call) comment(text string) string {
	width := min(c.columns(), 120)
	var b strings.Builder
	b.WriteString("\n")
	for _, l := range softWrap(text, width-4) {
		b.WriteString(" // " + l + strings.Repeat(" ", max(0, width-4-len(l))) + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

func softWrap(text string, width int) []string {
	var lines []string
	for len(text) > width {
		cut := strings.LastIndex(text[:width+1], " ")
		if cut <= 0 {
			cut = width
		}
		lines = append(lines, text[:cut])
		text = strings.TrimPrefix(text[cut:], " ")
	}
	return append(lines, text)
}

// table renders rows in the style of Drush's borderless tables; the first row is the head.
func table(rows [][]string) string {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var rule, b strings.Builder
	for _, w := range width {
		rule.WriteString(" " + strings.Repeat("-", w+2))
	}
	rule.WriteString(" \n")
	for n, r := range rows {
		if n < 2 {
			b.WriteString(rule.String())
		}
		for i, cell := range r {
			b.WriteString("  " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString(" \n")
	}
	b.WriteString(rule.String())
	return b.String()
}
