package rights

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Line is a grant, and how often it was used.
type Line struct {
	Grant
	Uses int
	// Excuse says why a right that the log does not show is kept.
	Excuse string
}

// Report is the comparison of grants with requests.
type Report struct {
	Lines []Line
	// Refused are requests that no rule allows, with their counts.
	Refused map[Request]int
	// Stale are excuses for rights that are used, or not granted.
	Stale []string
}

// Compare sets requests against grants. An excuse is keyed by "ACCOUNT: VERB RESOURCE", the account without its
// namespace, and holds the reason.
func Compare(grants []Grant, requests map[Request]int, excuses map[string]string) Report {
	report := Report{Refused: map[Request]int{}}
	needed := map[string]bool{}
	for _, g := range grants {
		line := Line{Grant: g}
		for r, n := range requests {
			if g.covers(r) && r.Refused == "" {
				line.Uses += n
			}
		}
		if key := excuseKey(g); line.Uses == 0 && excuses[key] != "" {
			line.Excuse, needed[key] = excuses[key], true
		}
		report.Lines = append(report.Lines, line)
	}
	for r, n := range requests {
		if r.Refused != "" {
			report.Refused[r] = n
		}
	}
	for _, key := range slices.Sorted(maps.Keys(excuses)) {
		if !needed[key] {
			report.Stale = append(report.Stale, key)
		}
	}
	return report
}

func excuseKey(g Grant) string {
	return g.Account[strings.LastIndex(g.Account, ":")+1:] + ": " + g.Verb + " " + g.Resource.String()
}

// Problems lists what must be mended, sorted, one sentence each; it is empty when rights and needs are the same.
func (r Report) Problems() []string {
	var problems []string
	for _, line := range r.Lines {
		if line.Uses == 0 && line.Excuse == "" {
			problems = append(problems, fmt.Sprintf("granted to %s and never used: %s", line.Account, line.Grant))
		}
	}
	for request, n := range r.Refused {
		problems = append(problems, fmt.Sprintf("used by %s and not granted: %s %s in %q, %d times: %s",
			request.Account, request.Verb, request.Resource, request.Namespace, n, request.Refused))
	}
	for _, key := range r.Stale {
		problems = append(problems, fmt.Sprintf("excused without need: %s", key))
	}
	slices.Sort(problems)
	return problems
}

// String is a table of all grants.
func (r Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACCOUNT\tROLE\tRIGHT\tUSED")
	for _, line := range r.Lines {
		used := fmt.Sprint(line.Uses)
		if line.Excuse != "" {
			used += " (" + line.Excuse + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", line.Account[strings.LastIndex(line.Account, ":")+1:], line.Role, line.Grant, used)
	}
	if err := w.Flush(); err != nil {
		return err.Error()
	}
	return b.String()
}
