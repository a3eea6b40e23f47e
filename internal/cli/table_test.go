package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestATableIsAlignedAndFitsItsWidth(t *testing.T) {
	t.Parallel()
	made := func() *table {
		x := &table{head: []string{"SITE", "WANTS", "MESSAGE"}}
		x.add(cell{"blog", strong}, text("10.3.6"), text(""))
		x.add(text("a-site-with-a-long-name"), text("sha256:0123456789ab"), text(strings.Repeat("many words ", 20)))
		return x
	}
	out := &terminal{Writer: &bytes.Buffer{}}
	require.Equal(t, []string{"SITE                     WANTS                MESSAGE", "blog                     10.3.6"}, made().lines(out)[:2])
	for _, limit := range []int{100, 60, 40} {
		x := made()
		widths := x.widths(limit)
		for _, row := range x.rows {
			require.LessOrEqual(t, utf8.RuneCountInString(x.line(out, row, widths)), limit)
		}
	}
	require.Equal(t, "blog", strings.Fields(made().line(out, made().rows[0], made().widths(40)))[0])
}

func TestWhatASiteSaysCannotSteerATerminal(t *testing.T) {
	t.Parallel()
	require.Equal(t, "red [31m alert two lines", clean("red \x1b[31m\x07 alert\r\ntwo\tlines\x9b"))
	require.Equal(t, "a…", cut("a word", 3))
	require.Equal(t, []string{"one two", "three"}, wrap("one two three", 8))
	require.Equal(t, []string{"longerthanthat", "x"}, wrap("longerthanthat x", 8))
}

func TestNoColourWhereNobodyLooks(t *testing.T) {
	t.Parallel()
	out := newTerminal(&bytes.Buffer{}, func(string) (string, bool) { return "", false })
	require.Equal(t, "text", out.paint("text", red))
	require.False(t, out.live)
	require.Zero(t, out.width())
	out.colour = true
	require.Equal(t, "\x1b[31mtext\x1b[0m", out.paint("text", red))
}

func TestALogIsTakenUpAgainAfterItsLastLine(t *testing.T) {
	t.Parallel()
	first := "2026-03-01T02:00:00.1Z one\n2026-03-01T02:00:00.2Z two\n2026-03-01T02:00:01Z half\n"
	again := "2026-03-01T02:00:00.2Z two\n2026-03-01T02:00:01Z half\n2026-03-01T02:00:02Z three\n"
	var out bytes.Buffer
	stamp := at(0).Time.AddDate(-1, 0, 0)
	require.NoError(t, copyLines(&out, strings.NewReader(first), &stamp))
	require.NoError(t, copyLines(&out, strings.NewReader(again), &stamp))
	require.Equal(t, "one\ntwo\nhalf\nthree\n", out.String())
}
