package drush

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds of what is kept of a command's output.
const (
	// MaxExcerpt is the length of an Excerpt in bytes.
	MaxExcerpt = 16 << 10
	// MaxMessage is the length of a FirstError in bytes.
	MaxMessage = 512
)

// Excerpt returns text when it is short, else its head and its tail with a line between them that says how much is
// missing. The result has at most MaxExcerpt bytes and is valid UTF-8 if text is.
func Excerpt(text string) string {
	if len(text) <= MaxExcerpt {
		return text
	}
	const half = MaxExcerpt/2 - 32
	head, tail := cut(text, half), text[len(text)-half:]
	for tail != "" && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", head, len(text)-len(head)-len(tail), tail)
}

// LastLine returns the last line that is not blank, without decoration and at most MaxMessage bytes long.
func LastLine(text string) string {
	last := ""
	for line := range strings.Lines(text) {
		if plain := oneLine(undecorated(line)); plain != "" {
			last = plain
		}
	}
	return cut(last, MaxMessage)
}

// cut shortens text to at most n bytes without splitting a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

var blanks = regexp.MustCompile(`\s+`)

func collapse(text string) string { return strings.TrimSpace(blanks.ReplaceAllString(text, " ")) }

// oneLine makes text valid UTF-8 on one line without control characters.
func oneLine(text string) string {
	return collapse(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?")))
}

// undecorated removes the mark that Drush puts before the lines of a child process.
func undecorated(line string) string {
	line = strings.TrimRight(line, "\r\n")
	if rest, ok := strings.CutPrefix(line, ">"); ok {
		return strings.TrimPrefix(rest, " ")
	}
	return line
}

// phpNoise is what PHP prints on its own, in front of anything.
var phpNoise = regexp.MustCompile(`^(PHP )?(Deprecated|Warning|Notice|Strict Standards|User Deprecated): `)

// withoutPollution drops the lines that PHP itself printed among the answer.
func withoutPollution(text string) string {
	if !strings.Contains(text, ": ") {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !phpNoise.MatchString(strings.TrimLeft(line, " ")) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Unwrap undoes the hard wrapping of Symfony's error blocks, which cuts words at the terminal's width: 80 columns
// where none is set, 1000 as this project sets it.
func Unwrap(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		plain := undecorated(line)
		if content, full := blockLine(plain); full {
			b.WriteString(content)
			continue
		} else if content != "" {
			plain = content
		}
		b.WriteString(plain)
		b.WriteByte('\n')
	}
	return b.String()
}

// blockLine returns the text of a line of a Symfony block, and whether it fills the width and so goes on in the next.
func blockLine(line string) (string, bool) {
	width := utf8.RuneCountInString(line)
	if (width != 79 && width != 999) || !strings.HasPrefix(line, "  ") || !strings.HasSuffix(line, "  ") {
		return "", false
	}
	content := line[2 : len(line)-2]
	if strings.TrimSpace(content) == "" {
		return "", false
	}
	return strings.TrimRight(content, " "), !strings.HasSuffix(content, " ")
}

var (
	errorTag = regexp.MustCompile(`^ *\[error\] +(.*)$`)
	generic  = regexp.MustCompile(`^(Update aborted by:|Finished performing updates|Update failed:)`)
	loud     = regexp.MustCompile(`PHP Fatal error:|^Fatal error:|Allowed memory size|^Killed$|terminated abnormally|` +
		`is required but cannot be found|Got error:|pg_dump: error|pg_restore: error|ERROR:|FATAL:|^Error: |not found$`)
	blockStart   = regexp.MustCompile(`^In [^ ]+ line \d+:$`)
	tagged       = regexp.MustCompile(`^ *\[[a-z]+\] +`)
	hollow       = regexp.MustCompile(`^Output is empty\.$`)
	queryFailed  = regexp.MustCompile(`^Query failed\. Rerun with --debug to see any error message\.\s*`)
	sqlErrorText = regexp.MustCompile(`ERROR \d+ \([^)]*\)|ERROR: |FATAL: `)
	backtrace    = regexp.MustCompile(` #\d+ .*$`)
)

// FirstError returns the first real error out of what Drush wrote to stderr, fit for a condition's message: one line,
// at most MaxMessage bytes, secrets of known shape removed. It is empty when there is nothing but blank lines.
func FirstError(stderr string) string {
	var best string
	rank := 9
	offer := func(r int, text string) {
		if text = polish(text); r < rank && text != "" {
			best, rank = text, r
		}
	}
	lines := strings.Split(Unwrap(stderr), "\n")
	for i, line := range lines {
		switch m := errorTag.FindStringSubmatch(line); {
		case m != nil && generic.MatchString(m[1]):
			offer(3, m[1])
		case m != nil:
			offer(1, m[1])
		case blockStart.MatchString(strings.TrimSpace(line)):
			if text := block(lines[i+1:]); hollow.MatchString(text) {
				offer(4, text)
			} else {
				offer(2, text)
			}
		case loud.MatchString(strings.TrimSpace(line)):
			offer(1, tagged.ReplaceAllString(line, ""))
		}
	}
	if best == "" {
		best = polish(tagged.ReplaceAllString(firstParagraph(lines), ""))
	}
	return best
}

// block returns the paragraph that follows the head line of a Symfony block.
func block(lines []string) string {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	return firstParagraph(lines)
}

func firstParagraph(lines []string) string {
	var text []string
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" && len(text) > 0 && !strings.HasPrefix(text[0], "Query failed.") {
			break
		}
		if blockStart.MatchString(line) && len(text) > 0 {
			break
		}
		text = append(text, line)
		if line == "" && text[0] == "" {
			text = nil
		}
	}
	return collapse(strings.Join(text, " "))
}

func polish(text string) string {
	text = oneLine(undecorated(text))
	if queryFailed.MatchString(text) {
		text = queryFailed.ReplaceAllString(text, "")
		if at := sqlErrorText.FindStringIndex(text); at != nil {
			text = text[at[0]:]
		}
	}
	text = backtrace.ReplaceAllString(text, "")
	return strings.TrimSpace(cut(Redact(text), MaxMessage))
}
