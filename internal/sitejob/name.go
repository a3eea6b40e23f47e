package sitejob

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxName  = 63
	hashSize = 10
)

// Name returns the name of the Job of one step of one run: the same for the same arguments, and different for
// different ones. It is a DNS label.
func Name(site, runID, step string) string {
	tail := "-" + label(step) + "-" + hash(site, runID, step)
	if over := len(tail) + 1 - maxName; over > 0 {
		tail = "-" + label(step)[:len(label(step))-over] + "-" + hash(site, runID, step)
	}
	head := label(site)
	head = strings.TrimRight(head[:min(len(head), maxName-len(tail))], "-")
	if head == "" || head[0] < 'a' {
		head = "site"[:min(4, maxName-len(tail))]
	}
	return head + tail
}

func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:hashSize]
}

// label keeps what a DNS label may hold.
func label(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '-'
	}, s), "-")
}

// plain keeps what a backup's name may hold, and never starts with anything but a letter or digit.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') || (r >= 'A' && r <= 'Z') || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
	return "x"[:btoi(strings.Trim(s, "._-") == "")] + strings.TrimLeft(s, "._-")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

// labelValue shortens a value to what a label may hold; what is cut is told apart by a hash.
func labelValue(s string) string {
	out := strings.Trim(plain(s), "._-")
	if out == s && len(s) <= maxName {
		return s
	}
	return strings.TrimRight(cut(out, maxName-hashSize-1), "._-") + "-" + hash(s)
}
