package simsite

import (
	"slices"
	"strings"
)

// Update is one database update that a release ships.
type Update struct {
	ID      string `json:"id"`      // ID is a number for hook_update_n, a name for a post-update.
	Desc    string `json:"desc"`    // Desc is the sentence shown by updatedb:status.
	Message string `json:"message"` // Message is what the hook returns; empty means no notice.
	Fault   string `json:"fault"`   // Fault is empty for a good hook, or exception, error, exit, killed, hang, exit0.
}

// Release is one image of the simulated site.
type Release struct {
	Tag     string   // Tag is the image tag, or the digest with its algorithm.
	Core    string   // Core is the version that Drush reports.
	Words   []string // Words name the behaviours.
	Updates []Update // Updates are shipped by the code; those above the level of the database are pending.
}

// Baseline is the release that an unset SIMSITE_RELEASE means.
const Baseline = "10.3.1"

const (
	good          = "good"
	needsUpdates  = "needs-updates"
	crFailsOnce   = "cr-fails-once"
	crBroken      = "cr-broken"
	crashLoop     = "crashloop"
	hangs         = "hangs"
	exit1Applied  = "exit1-applied"
	polluted      = "polluted"
	invalidJSON   = "invalid-json"
	dbDown        = "db-down"
	brokenService = "broken-container"
	slowStart     = "slow-start"
	slowUpdate    = "slow-update"
	updateHangs   = "update-hangs"
	dumpFails     = "dump-fails"
	dumpTruncated = "dump-truncated"
	noDrush       = "no-drush"
	statusFails   = "status-fails"
	restoreFails  = "restore-fails"
)

func marker() Update {
	return Update{ID: "10001", Desc: "10001 - Study: adds a marker. *", Message: "One done."}
}

func postOne() Update {
	return Update{ID: "one", Desc: "Study: post update one.", Message: "Post one done."}
}

// level1 is what 10.3.6 ships; the others add to it.
func level1(more ...Update) []Update { return append([]Update{marker(), postOne()}, more...) }

func throwing() []Update {
	return level1(
		Update{ID: "10002", Desc: "10002 - Study: fine. *", Message: "Two done."},
		Update{ID: "10003", Desc: "10003 - Study: half way, then throws. *", Message: "Simulated failure in 10003", Fault: "exception"},
		Update{ID: "10004", Desc: "10004 - Study: never reached. *", Message: "Four done."},
		Update{ID: "two", Desc: "Study: post two.", Message: "Post two done."},
	)
}

func study(id, fault string) Update {
	if isHook(id) {
		return Update{ID: id, Desc: id + " - Study. *", Message: "done", Fault: fault}
	}
	return Update{ID: id, Desc: "Study.", Message: "done", Fault: fault}
}

// Releases lists every image there is, in the order of the table in the package's brief.
func Releases() []Release {
	list := []Release{
		{"10.3.1", "10.3.1", []string{good}, nil},
		{"10.3.2", "10.3.2", []string{good}, nil},
		{"10.3.3", "10.3.3", []string{good}, nil},
		{"10.3.6", "10.3.6", []string{good, needsUpdates}, level1()},
		{"10.3.8", "10.3.8", []string{good, needsUpdates}, level1(study("10005", ""), study("five", ""))},
	}
	return append(append(list, faulty()...), digests()...)
}

func faulty() []Release {
	with := func(word string, updates []Update) Release {
		words := []string{word}
		if updates != nil {
			words = append(words, needsUpdates)
		}
		return Release{"10.4.0-" + word, "10.4.0", words, updates}
	}
	return []Release{
		with(crFailsOnce, nil), with(crBroken, nil), with(crashLoop, nil), with(hangs, nil),
		with("hook-exception", throwing()),
		with("hook-error", level1(study("three", "error"))),
		with(updateHangs, level1(study("10006", "hang"))),
		with(exit1Applied, level1()),
		with("exit0-not-applied", level1(study("10007", "exit0"))),
		with(polluted, level1()),
		with(invalidJSON, level1()),
		with(dbDown, nil), with(brokenService, nil), with(slowStart, nil),
		with(slowUpdate, level1()),
		with(dumpFails, level1()), with(dumpTruncated, level1()),
		with(noDrush, level1()), with(statusFails, level1()),
		with(restoreFails, throwing()),
	}
}

func digests() []Release {
	return []Release{
		{"sha256:" + strings.Repeat("a", 64), "10.3.2", []string{good}, nil},
		{"sha256:" + strings.Repeat("b", 64), "10.3.6", []string{good, needsUpdates}, level1()},
	}
}

// FindRelease looks a tag up; false means that no such image exists.
func FindRelease(tag string) (Release, bool) {
	for _, r := range Releases() {
		if r.Tag == tag {
			return r, true
		}
	}
	return Release{}, false
}

func (r Release) is(word string) bool { return slices.Contains(r.Words, word) }
