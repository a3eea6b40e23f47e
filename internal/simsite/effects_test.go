package simsite_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/simsite"
)

// after is what an update leaves in the database.
type after struct {
	code        int
	schema      int
	posts       []string
	maintenance bool
	partial     bool
}

func TestUpdateLeavesWhatTheTableInDrushMdSays(t *testing.T) {
	t.Parallel()
	both := []string{"one"}
	for _, tc := range []struct {
		name, release string
		updates       []simsite.Update
		on            bool
		want          after
	}{
		{"a good release moves the schema", "10.3.6", nil, false, after{0, 10001, both, false, false}},
		{"a second level moves it further", "10.3.8", nil, false, after{0, 10005, []string{"five", "one"}, false, false}},
		{"the flag stays on when it was on", "10.3.6", nil, true, after{0, 10001, both, true, false}},
		{"an exception in a hook makes the half-updated site live", "10.4.0-hook-exception", nil, false, after{1, 10002, nil, false, true}},
		{"an exception keeps a flag that was on", "10.4.0-hook-exception", nil, true, after{1, 10002, nil, true, true}},
		{"an error in a post update leaves the flag on", "10.4.0-hook-error", nil, false, after{1, 10001, both, true, true}},
		{"an exit in a hook leaves the flag on", "10.3.6", hook("10001", "", "exit"), false, after{1, 10000, nil, true, true}},
		{"a killed child leaves the flag on", "10.3.6", hook("10001", "", "killed"), false, after{1, 10000, nil, true, true}},
		{"everything is applied in spite of exit 1", "10.4.0-exit1-applied", nil, false, after{1, 10001, both, false, false}},
		{"exit 0 with updates still pending", "10.4.0-exit0-not-applied", nil, false, after{0, 10001, nil, false, true}},
		{"a broken container has nothing to do", "10.4.0-broken-container", nil, false, after{0, 10000, nil, false, false}},
		{"a slow update succeeds", "10.4.0-slow-update", nil, false, after{0, 10001, both, false, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "10.3.1").create("--install").on(tc.release)
			if tc.updates != nil {
				raw, err := json.Marshal(tc.updates)
				require.NoError(t, err)
				s = s.with("SIMSITE_UPDATES", string(raw))
			}
			if tc.on {
				s.ok("drush", "maint:set", "1")
			}
			r := s.run("drush", "updatedb", "-y")
			st := s.state()
			got := after{r.code, st.Schema["study_upd"], st.Posts, st.Maintenance, slices.Contains(st.Tables, "study_upd_partial")}
			require.Equal(t, tc.want, got, r.err)
			require.Equal(t, []string{"updatedb-start", "updatedb-end"}, only(s.events(), "updatedb-start", "updatedb-end"))
		})
	}
}

func only(events []string, want ...string) []string {
	return slices.DeleteFunc(events, func(e string) bool { return !slices.Contains(want, e) })
}

func TestTwoUpdatesAtOnceRunEveryHookTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").create("--install").on("10.4.0-slow-update").with("SIMSITE_PACE", "0.1")
	var wg sync.WaitGroup
	codes := make([]int, 2)
	for i := range codes {
		wg.Go(func() { codes[i] = s.run("drush", "updatedb", "-y").code })
	}
	wg.Wait()
	require.Equal(t, []int{0, 0}, codes)
	require.Equal(t, "2", s.state().Rows["study_upd_update_10001"])
	require.Equal(t, []string{"updatedb-start", "updatedb-start", "updatedb-end", "updatedb-end"},
		only(s.events(), "updatedb-start", "updatedb-end"))
}

func TestOddReleases(t *testing.T) {
	t.Parallel()
	pending := newSite(t, "10.3.1").create("--install").ok("drush", "updatedb:status", "--format=json")
	require.Empty(t, pending)
	for _, tc := range []struct {
		name, release string
		args          []string
		code          int
		out           string
	}{
		{"notices before the pending updates", "10.4.0-polluted", []string{"drush", "updatedb:status", "--format=json"}, 0, "\nDeprecated: "},
		{"notices before the status", "10.4.0-polluted", []string{"drush", "status", "--format=json", "--fields=bootstrap"}, 0, "\nDeprecated: "},
		{"no document though updates are pending", "10.4.0-invalid-json", []string{"drush", "updatedb:status", "--format=json"}, 0, "\n"},
		{"the status of updates fails", "10.4.0-status-fails", []string{"drush", "updatedb:status", "--format=json"}, 1, ""},
		{"there is no drush", "10.4.0-no-drush", []string{"drush", "--version"}, 127, ""},
		{"a dump fails", "10.4.0-dump-fails", []string{"drush", "sql:dump"}, 1, ""},
		{"mysqldump fails", "10.4.0-dump-fails", []string{"mysqldump", "d10"}, 1, ""},
		{"the cache cannot be rebuilt", "10.4.0-cr-broken", []string{"drush", "cr"}, 1, ""},
		{"the database is away", "10.4.0-db-down", []string{"drush", "sqlq", "SELECT 1"}, 1, ""},
		{"no such image", "10.4.0-missing", []string{"drush", "status"}, 125, ""},
		{"the web server ends at once", "10.4.0-crashloop", []string{"simsite", "web"}, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newSite(t, "10.3.1").create("--install").on(tc.release).run(tc.args...)
			require.Equal(t, tc.code, r.code, r.err)
			require.True(t, strings.HasPrefix(r.out, tc.out), r.out)
			require.Equal(t, tc.out == "", r.out == "")
		})
	}
}

func TestADatabaseIsAheadOfCodeThatLacksItsUpdates(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").create("--install")
	ask := func(release string) string {
		answer := s.on(release).ok("drush", "php:eval", "print 'drupdate_ahead';")
		return strings.TrimSpace(answer)
	}
	require.JSONEq(t, `{"drupdate_ahead":[]}`, ask("10.3.1"))
	s.on("10.3.6").ok("drush", "updatedb", "-y")
	require.JSONEq(t, `{"drupdate_ahead":[]}`, ask("10.3.6"))
	require.JSONEq(t, `{"drupdate_ahead":[]}`, ask("10.3.8"), "newer code ships the updates of older code")
	require.JSONEq(t, `{"drupdate_ahead":[]}`, ask("10.4.0-cr-fails-once"))
	require.JSONEq(t, `{"drupdate_ahead":["study_upd_update_10001","study_upd_post_update_one"]}`, ask("10.3.2"))
}

func TestTheFirstRebuildFailsOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").create("--install").on("10.4.0-cr-fails-once")
	require.Equal(t, []int{1, 0, 0}, []int{s.run("drush", "cr").code, s.run("drush", "cr").code, s.run("drush", "cr").code})
}

func TestOptionsMayStandAnywhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").create("--install")
	for _, line := range []string{
		"drush --root=/app --uri=https://x.example -y maint:set 1", "drush -y --root /app --uri https://x.example maint:set 1",
		"drush maint:set 1 -y --uri=https://x.example --root=/app",
	} {
		s.ok("drush", "mset", "0")
		s.ok(strings.Fields(line)...)
		require.Equal(t, "1\n", s.ok("drush", "maint:get"), line)
	}
	require.Equal(t, "https://x.example\n", s.ok("drush", "--uri=https://x.example", "st", "--field=uri"))
	require.Equal(t, 1, s.run("drush", "entity:updates", "-y").code)
}

func TestJournalTellsTheOrderAndTheFlag(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.6").create("--schema=10000")
	for _, line := range []string{"maint:set 1", "cache:clear bin page", "updatedb -y", "sql:drop -y", "site:install minimal -y", "cr", "maint:set 0"} {
		s.ok(append([]string{"drush"}, strings.Fields(line)...)...)
	}
	require.Equal(t, []string{
		"maint-on", "cache-clear", "updatedb-start", "hook", "hook", "updatedb-end", "drop", "install", "cr", "maint-off",
	}, s.events())
	list, err := simsite.Journal(s.dir, "d10")
	require.NoError(t, err)
	require.True(t, list[2].Maintenance)
	require.Equal(t, "127.60.0.1", list[2].Pod)
	require.Equal(t, 2, list[2].Pending)
}
