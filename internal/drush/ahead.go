package drush

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
)

// aheadScript is PHP for php:eval. It is a constant, and asks Drupal's own records; see the comments in the file.
//
//go:embed ahead.php
var aheadScript string

// UpdatesAhead asks which database updates the site's database has had that the site's code does not know; see
// ParseUpdatesAhead. Neither updatedb:status nor any other command of Drush tells.
func (c Command) UpdatesAhead() []string { return c.Argv("php:eval", aheadScript) }

// ParseUpdatesAhead returns the names of the updates that the database is ahead of the code by, sorted. Known is false
// where the answer is no proof either way; then the list is empty.
func ParseUpdatesAhead(r Result) (names []string, known bool) {
	if r.Outcome() != Succeeded {
		return nil, false
	}
	for line := range strings.Lines(withoutPollution(r.Stdout)) {
		var said struct {
			Ahead []string `json:"drupdate_ahead"`
		}
		if json.Unmarshal([]byte(strings.TrimSpace(line)), &said) == nil && said.Ahead != nil {
			slices.Sort(said.Ahead)
			return slices.Compact(said.Ahead), true
		}
	}
	return nil, false
}
