package drush

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type transcript struct {
	Scene  string   `json:"scene"`
	Argv   []string `json:"argv"`
	Exit   int      `json:"exit"`
	Stdout string   `json:"stdout"`
	Stderr string   `json:"stderr"`
}

func (t transcript) result() Result {
	return Result{ExitCode: t.Exit, Stdout: t.Stdout, Stderr: t.Stderr, Complete: true}
}

func transcripts(tb testing.TB) []transcript {
	tb.Helper()
	f, err := os.Open("testdata/transcripts.jsonl")
	require.NoError(tb, err)
	defer f.Close()
	var all []transcript
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var t transcript
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &t))
		if len(t.Argv) > 0 {
			all = append(all, t)
		}
	}
	require.NoError(tb, lines.Err())
	require.NotEmpty(tb, all)
	return all
}

func recorded(tb testing.TB, name string) Result {
	tb.Helper()
	all := transcripts(tb)
	i := slices.IndexFunc(all, func(t transcript) bool { return t.Scene == name })
	require.GreaterOrEqual(tb, i, 0, "no such scene: %s", name)
	return all[i].result()
}

func TestRecordedUpdateStatus(t *testing.T) {
	t.Parallel()
	verdicts := map[string]Verdict{
		"coreupdate new code updatedb-status json after cr": UpdatesPending,
		"coreupdate new code updatedb-status json":          UpdatesPending,
		"d11 updatedb-status json pending":                  UpdatesPending,
		"updatedb-status after exception":                   UpdatesPending,
		"updatedb-status json pending both kinds":           UpdatesPending,
		"updatedb-status while orphan still runs":           UpdatesPending,
		"coreupdate new code updatedb-status json after":    UpdatesNone,
		"coreupdate rolled back code only updatedb-status":  UpdatesNone,
		"d11 updatedb-status json nothing":                  UpdatesNone,
		"d11 updatedb two reads as wall time":               UpdatesNone,
		"drush12 updatedb-status json nothing":              UpdatesNone,
		"updatedb-status enabled module code missing":       UpdatesNone,
		"updatedb-status json after success":                UpdatesNone,
		"updatedb-status json nothing pending":              UpdatesNone,
		"updatedb-status with missing service argument":     UpdatesNone,
		"installed db down updatedb-status":                 UpdatesUnknown,
		"installed unknown database updatedb-status":        UpdatesUnknown,
		"installed unknown host updatedb-status":            UpdatesUnknown,
		"installed wrong credentials updatedb-status":       UpdatesUnknown,
		"installed db down updatedb debug":                  UpdatesUnknown,
		"pgsql updatedb-status db down":                     UpdatesUnknown,
		"pre-install updatedb-status":                       UpdatesUnknown,
		"updatedb-status while parse error in module":       UpdatesUnknown,
		"updatedb-status pretty count nothing pending":      UpdatesNone,
		"updatedb-status table pending both kinds":          UpdatesUnknown,
	}
	seen := 0
	for _, rec := range transcripts(t) {
		if !slices.Contains(rec.Argv, "updatedb:status") {
			continue
		}
		want, ok := verdicts[rec.Scene]
		require.True(t, ok, "a scene without an expectation: %s", rec.Scene)
		got := ParseUpdateStatus(rec.result())
		require.Equal(t, want, got.Verdict, rec.Scene)
		require.NotEmpty(t, got.Reason, rec.Scene)
		require.Equal(t, want == UpdatesPending, len(got.Pending) > 0, rec.Scene)
		require.Empty(t, got.Blocked, rec.Scene)
		seen++
	}
	require.Equal(t, len(verdicts), seen)
}

func TestRecordedStatus(t *testing.T) {
	t.Parallel()
	healthy := []string{
		"coreupdate rolled back code only status", "d11 status bootstrap db-status json",
		"d11 status while sql commands fail by TLS", "half installed status",
		"installed status bootstrap db-status json", "pgsql status after restore", "sqlite status after file restore",
		"sqlite status after install", "status after cr with missing service argument",
		"status after cr with missing service class", "status after restore",
	}
	for _, rec := range transcripts(t) {
		if !slices.Contains(rec.Argv, "--format=json") || !slices.Contains(rec.Argv, "status") {
			continue
		}
		if !slices.ContainsFunc(rec.Argv, func(a string) bool { return len(a) > 9 && a[:9] == "--fields=" }) {
			continue
		}
		got := ParseBootstrap(rec.result())
		require.Equal(t, slices.Contains(healthy, rec.Scene), got.Healthy, rec.Scene)
		require.Equal(t, got.Healthy, got.Reason == "", rec.Scene)
	}
	require.Equal(t, Bootstrap{Healthy: true, Drupal: "10.3.6", Drush: "13.3.0.0"},
		ParseBootstrap(recorded(t, "installed status bootstrap db-status json")))
}

func TestRecordedInstallTask(t *testing.T) {
	t.Parallel()
	cases := map[string]InstallTask{
		"sql-query install_task":                                TaskDone,
		"half installed sql-query install_task":                 TaskHalf,
		"sql-query install_task empty database":                 TaskNoTable,
		"installed db down sql-query":                           TaskUnreachable,
		"installed unknown host sql-query":                      TaskUnreachable,
		"installed wrong credentials sql-query":                 TaskRefused,
		"drush12 cache-rebuild db down":                         TaskUnreachable,
		"d11 sql-query newer mariadb client server without TLS": TaskUnknown,
		"sql-query no mysql client in PATH":                     TaskUnknown,
		"probe unknown host":                                    TaskUnreachable,
		"probe wrong credentials":                               TaskRefused,
		"pgsql probe db down":                                   TaskUnreachable,
	}
	for scene, want := range cases {
		got, reason := ParseInstallTask(recorded(t, scene))
		require.Equal(t, want, got, "%s: %s", scene, reason)
		require.NotEmpty(t, reason, scene)
	}
}

func TestRecordedFirstErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"updatedb hook_update exception":                    "Simulated failure in 10003",
		"updatedb post_update exception":                    "Simulated post failure",
		"updatedb hook_update php error undefined function": "Call to undefined function no_such_function()",
		"updatedb post_update php Error not Exception": "Error: Call to undefined function no_such_function() in study_upd_post_update_three() " +
			"(line 3 of /app/web/modules/custom/study_upd/study_upd.post_update.php)",
		"d11 updatedb child SIGKILL":                           "Killed",
		"updatedb hook_update calls exit 0":                    "Drush command terminated abnormally.",
		"installed db down updatedb":                           "Bootstrap failed. Run your command with -vvv for more information.",
		"installed db down sql-query":                          "ERROR 2002 (HY000): Can't connect to server on '127.0.0.1' (115)",
		"installed wrong credentials sql-query":                "ERROR 1045 (28000): Access denied for user 'drupal'@'localhost' (using password: YES)",
		"sql-query install_task empty database":                "ERROR 1146 (42S02) at line 1: Table 'd11empty.key_value' doesn't exist",
		"sql-query no mysql client in PATH":                    "The shell command 'mysql' is required but cannot be found. Please install it and retry.",
		"cache-rebuild missing service argument":               `The service "study_upd.svc" has a dependency on a non-existent service "no_such.service".`,
		"cache-rebuild missing service class event_subscriber": `Service "study_upd.svc" must implement interface "Symfony\Component\EventDispatcher\EventSubscriberInterface".`,
		"cache-rebuild module throws at load":                  "boom at load",
		"d11 cache-rebuild db down": "Command cr was not found. Drush was unable to query the database. As a result, many commands are unavailable. " +
			"Re-run your command with --debug to see relevant log messages.",
		"error message COLUMNS 1000": "Command maint:get was not found. Drush was unable to query the database. As a result, many commands are unavailable. " +
			"Re-run your command with --debug to see relevant log messages.",
		"sql-dump wrong credentials": `mysqldump: Got error: 1045: "Access denied for user 'drupal'@'localhost' (using password: YES)" when trying to connect`,
	}
	for scene, want := range cases {
		require.Equal(t, want, FirstError(recorded(t, scene).Stderr), scene)
	}
}

func TestEveryRecordedFailureHasAReasonOnOneLine(t *testing.T) {
	t.Parallel()
	for _, rec := range transcripts(t) {
		reason := rec.result().Reason()
		require.Equal(t, rec.Exit == 0, reason == "", rec.Scene)
		require.NotContains(t, reason, "\n", rec.Scene)
		require.LessOrEqual(t, len(reason), MaxMessage, rec.Scene)
	}
}

func TestRecordedCacheRebuild(t *testing.T) {
	t.Parallel()
	for _, rec := range transcripts(t) {
		if last := rec.Argv[len(rec.Argv)-1]; last != "cr" && last != "cache:rebuild" {
			continue
		}
		want := Failed
		if rec.Exit == 0 {
			want = Succeeded
		}
		got, reason := ParseCacheRebuild(rec.result())
		require.Equal(t, want, got, rec.Scene)
		require.Equal(t, want == Succeeded, reason == "", rec.Scene)
	}
}

func TestRecordedMaintenanceFlags(t *testing.T) {
	t.Parallel()
	on, known := ParseMaintenance(recorded(t, "maint-get on"))
	require.Equal(t, []bool{true, true}, []bool{on, known})
	_, known = ParseMaintenance(recorded(t, "error message COLUMNS 1000"))
	require.False(t, known)
	_, known = ParseMaintenance(recorded(t, "maint-set while parse error in module"))
	require.False(t, known)
}
