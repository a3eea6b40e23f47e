package drush

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Verdict answers whether database updates are pending. The zero value is UpdatesUnknown.
type Verdict int

// The three answers of updatedb:status.
const (
	UpdatesUnknown Verdict = iota
	UpdatesNone
	UpdatesPending
)

// String returns the name of the verdict.
func (v Verdict) String() string {
	switch v {
	case UpdatesNone:
		return "None"
	case UpdatesPending:
		return "Pending"
	case UpdatesUnknown:
	}
	return "Unknown"
}

// The update types that updatedb applies.
const (
	HookUpdate = "hook_update_n"
	PostUpdate = "post-update"
)

// entityUpdate rows are listed by updatedb:status of some versions and never applied by updatedb.
const entityUpdate = "entity-update"

// Update is one row of updatedb:status.
type Update struct {
	Module      string `json:"module"`
	ID          string `json:"id"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
}

// String names the update as Drupal names its function.
func (u Update) String() string {
	switch u.Type {
	case HookUpdate:
		return u.Module + "_update_" + u.ID
	case PostUpdate:
		return u.Module + "_post_update_" + u.ID
	}
	return u.Module + " " + u.Type + " " + u.ID
}

// UpdateStatus is the judged answer of updatedb:status.
type UpdateStatus struct {
	Verdict Verdict
	// Pending are the updates that updatedb would apply, sorted by module, type and number.
	Pending []Update
	// Blocked are rows that updatedb never applies, sorted alike.
	Blocked []Update
	// Reason says in one line what the verdict rests on.
	Reason string
}

// ParseUpdateStatus judges the answer to UpdateStatus. "None" needs a complete answer, exit code 0, and either
// Drush's own words for it on stderr, an empty JSON value, or nothing but rows of a kind that updatedb never applies.
func ParseUpdateStatus(r Result) UpdateStatus {
	if r.Outcome() != Succeeded {
		return UpdateStatus{Reason: r.Reason()}
	}
	positive := saysNonePending(r.Stderr)
	text := strings.TrimSpace(withoutPollution(r.Stdout))
	switch text {
	case "":
		if positive {
			return UpdateStatus{Verdict: UpdatesNone, Reason: "Drush says that no updates are pending"}
		}
		return UpdateStatus{Reason: "empty answer without the words \"No database updates required\""}
	case "[]", "{}", "null":
		return UpdateStatus{Verdict: UpdatesNone, Reason: "the list of updates is empty"}
	}
	rows, alone := findRows(text)
	if len(rows) == 0 {
		return UpdateStatus{Reason: "the answer holds no list of updates"}
	}
	return judgeRows(rows, alone)
}

func saysNonePending(text string) bool {
	text = collapse(text)
	return strings.Contains(text, "No database updates required") || strings.Contains(text, "No pending updates")
}

// judgeRows judges a list of updates. Alone says that the answer is that list and nothing else.
func judgeRows(rows []Update, alone bool) UpdateStatus {
	var s UpdateStatus
	strange := false
	for _, u := range rows {
		if (u.Type == HookUpdate || u.Type == PostUpdate) && u.ID != "" {
			s.Pending = append(s.Pending, u)
			continue
		}
		s.Blocked = append(s.Blocked, u)
		strange = strange || u.Type != entityUpdate
	}
	slices.SortFunc(s.Pending, compareUpdates)
	slices.SortFunc(s.Blocked, compareUpdates)
	switch {
	case len(s.Pending) > 0:
		s.Verdict, s.Reason = UpdatesPending, fmt.Sprintf("%d updates are pending", len(s.Pending))
		if len(s.Pending) == 1 {
			s.Reason = "1 update is pending"
		}
	case strange:
		s.Reason = "only rows of an unknown type are listed"
	case !alone:
		s.Reason = "only rows that updatedb never applies are listed, and other text beside them"
	default:
		s.Verdict, s.Reason = UpdatesNone, "only rows that updatedb never applies are listed"
	}
	return s
}

func compareUpdates(a, b Update) int {
	number := func(u Update) int { n, _ := strconv.Atoi(u.ID); return n } // A name counts as 0 and sorts as text.
	return cmp.Or(
		cmp.Compare(a.Module, b.Module),
		cmp.Compare(a.Type, b.Type),
		cmp.Compare(number(a), number(b)),
		cmp.Compare(a.ID, b.ID),
		cmp.Compare(a.Description, b.Description),
	)
}

// findRows returns the rows of the first line-aligned JSON value that is a non-empty table of updates, and whether the
// text is that value alone. PHP may have printed anything before it.
func findRows(text string) (rows []Update, alone bool) {
	for rest := text; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		if start := strings.TrimLeft(line, " \t\r"); strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
			if rows, length := decodeRows(rest); len(rows) > 0 {
				return rows, len(rest) == len(text) && strings.TrimSpace(rest[length:]) == ""
			}
		}
		rest = after
	}
	return nil, false
}

type row struct {
	Module      string          `json:"module"`
	UpdateID    json.RawMessage `json:"update_id"`
	Description string          `json:"description"`
	Type        string          `json:"type"`
}

// decodeRows reads one table of updates, and how many bytes of the text it takes.
func decodeRows(text string) (updates []Update, length int64) {
	decoder := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if decoder.Decode(&raw) != nil {
		return nil, 0
	}
	var keyed map[string]row
	if bytes.HasPrefix(raw, []byte("[")) {
		var list []row
		if json.Unmarshal(raw, &list) != nil {
			return nil, 0
		}
		keyed = make(map[string]row, len(list))
		for i, item := range list {
			keyed[strconv.Itoa(i)] = item
		}
	} else if json.Unmarshal(raw, &keyed) != nil {
		return nil, 0
	}
	for key, item := range keyed {
		if item.Module == "" {
			return nil, 0
		}
		updates = append(updates, item.update(key))
	}
	return updates, decoder.InputOffset()
}

// update names the row's type where Drush 8 left it out.
func (r row) update(key string) Update {
	id := strings.TrimSpace(strings.Trim(string(r.UpdateID), `"`))
	if id == "null" {
		id = ""
	}
	u := Update{Module: r.Module, ID: id, Type: r.Type, Description: oneLine(r.Description)}
	if u.Type != "" || id == "" {
		return u
	}
	_, err := strconv.Atoi(id)
	switch {
	case err == nil:
		u.Type = HookUpdate
	case strings.Contains(key, "-post-"):
		u.Type = PostUpdate
	}
	return u
}
