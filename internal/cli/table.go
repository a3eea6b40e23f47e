package cli

import (
	"strings"
	"unicode/utf8"
)

// cell is a text in a table.
type cell struct {
	text  string
	style style
}

func text(s string) cell { return cell{text: s} }

// table is rows of cells under a head. Cells are aligned, and cut where the terminal is too narrow: the last column first.
type table struct {
	head []string
	rows [][]cell
	// indent is put before each line.
	indent string
}

const (
	gap = 2
	// readable is the width that the last column keeps before others are cut, and slim the width that none goes below.
	readable, slim = 24, 6
)

func (t *table) add(cells ...cell) {
	for i := range cells {
		cells[i].text = clean(cells[i].text)
	}
	t.rows = append(t.rows, cells)
}

// lines are the table as lines for a terminal.
func (t *table) lines(out *terminal) []string {
	widths := t.widths(out.width())
	var lines []string
	if len(t.head) > 0 {
		head := make([]cell, len(t.head))
		for i, h := range t.head {
			head[i] = cell{h, faint}
		}
		lines = append(lines, t.line(out, head, widths))
	}
	for _, row := range t.rows {
		lines = append(lines, t.line(out, row, widths))
	}
	return lines
}

func (t *table) write(out *terminal) {
	for _, line := range t.lines(out) {
		out.say("%s", line)
	}
}

func (t *table) line(out *terminal, row []cell, widths []int) string {
	var b strings.Builder
	b.WriteString(t.indent)
	pending := 0
	for i, c := range row {
		shown := cut(c.text, max(widths[i], 1))
		if shown != "" {
			b.WriteString(strings.Repeat(" ", pending))
			b.WriteString(out.paint(shown, c.style))
			pending = 0
		}
		pending += widths[i] - utf8.RuneCountInString(shown) + gap
	}
	return b.String()
}

// widths are the columns' widths; limit is that of the whole line, zero for none.
func (t *table) widths(limit int) []int {
	widths := t.natural()
	if limit == 0 || len(widths) == 0 {
		return widths
	}
	total := utf8.RuneCountInString(t.indent) + gap*(len(widths)-1)
	for _, w := range widths {
		total += w
	}
	last := len(widths) - 1
	for ; total > limit; total-- {
		at := widest(widths)
		if widths[last] > readable {
			at = last
		}
		if widths[at] <= slim {
			break
		}
		widths[at]--
	}
	return widths
}

func (t *table) natural() []int {
	var widths []int
	fit := func(i int, s string) {
		if i == len(widths) {
			widths = append(widths, 0)
		}
		widths[i] = max(widths[i], utf8.RuneCountInString(s))
	}
	for i, h := range t.head {
		fit(i, h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			fit(i, c.text)
		}
	}
	return widths
}

func widest(widths []int) int {
	at := 0
	for i, w := range widths {
		if w > widths[at] {
			at = i
		}
	}
	return at
}
