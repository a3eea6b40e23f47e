package sitejob

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	backupName = "shop-10.3.6-1a2b3c4d5e"
	pendingRow = `{"node_update_9": {"module": "node", "update_id": 9, "description": "d", "type": "hook_update_n"}}`
)

// world is one site made of files, and the shell that runs the script.
type world struct {
	t     *testing.T
	shell []string
	path  string
	scene string // scene holds the stub's state
	dir   string // dir is the backup volume
	env   []string
	drush []string
}

var everyCase = flag.Bool("every-case", false, "run every case in every shell and on every driver; takes ten minutes on two cores")

// inTurn runs the cases of a long table in one shell each, by turns; with -every-case in both.
func inTurn(t *testing.T, i int, f func(t *testing.T, w *world)) {
	t.Helper()
	inBothShells(t, func(t *testing.T, w *world) {
		if w.shell[0] == "sh" == (i%2 == 1) && !*everyCase && !testing.Short() {
			t.Skip("the other shell's turn")
		}
		f(t, w)
	})
}

// inBothShells runs a test under the system's sh, and under busybox with nothing but busybox's tools.
func inBothShells(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("sh", func(t *testing.T) {
		t.Parallel()
		f(t, newWorld(t, []string{"sh"}, "/usr/local/bin:/usr/bin:/bin"))
	})
	t.Run("busybox", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("one shell is enough for a short run")
		}
		busybox, err := exec.LookPath("busybox")
		if err != nil {
			t.Skip("busybox is not installed")
		}
		applets := t.TempDir()
		require.NoError(t, exec.Command(busybox, "--install", "-s", applets).Run())
		f(t, newWorld(t, []string{busybox, "ash"}, applets))
	})
}

func newWorld(t *testing.T, shell []string, path string) *world {
	t.Helper()
	stubs, err := filepath.Abs("testdata/bin")
	require.NoError(t, err)
	w := &world{t: t, shell: shell, path: stubs + ":" + path, scene: tempDir(t), dir: tempDir(t), drush: []string{"drush", "--uri=https://shop.example"}}
	w.set("driver", "mysql")
	w.set("flag", "0")
	w.set("tables", "5")
	w.set("pending", pendingRow)
	w.set("name", w.scene+"/site.db")
	w.set("site.db", strings.Repeat("SQLite format 3 ", 64))
	w.set("calls", "")
	return w
}

// tempDir is a folder with a name that the script takes, whatever the test is called.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sitejob") //nolint:usetesting // the names of t.TempDir hold what the script refuses in a path
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func (w *world) set(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.scene, name), []byte(text+"\n"), 0o600))
}

func (w *world) get(name string) string {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.scene, name))
	require.NoError(w.t, err)
	return strings.TrimSpace(string(raw))
}

// on makes the stub run shell text first when it is asked for a command.
func (w *world) on(command, text string) { w.set("on-"+strings.ReplaceAll(command, ":", "-"), text) }

func (w *world) off(command string) {
	require.NoError(w.t, os.Remove(filepath.Join(w.scene, "on-"+strings.ReplaceAll(command, ":", "-"))))
}

func (w *world) journal(suffix string) bool {
	_, err := os.Stat(filepath.Join(w.dir, backupName+"."+suffix))
	return err == nil
}

func (w *world) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
}

func (w *world) calls(prefix string) int {
	n := 0
	for line := range strings.Lines(w.get("calls") + "\n") {
		_, after, found := strings.Cut(line, "shop.example ")
		if (found && strings.HasPrefix(after, prefix)) || strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

func (w *world) resultFile() string { return filepath.Join(w.scene, "result") }

func (w *world) command(operation Operation, env ...string) *exec.Cmd {
	w.t.Helper()
	argv := append(append([]string{}, w.shell[1:]...), "-c", script, "drupdate")
	cmd := exec.Command(w.shell[0], append(argv, w.drush...)...)
	cmd.Env = append([]string{
		"PATH=" + w.path, "SCENE=" + w.scene, "DRUPDATE_RESULT=" + w.resultFile(), "DRUPDATE_OPERATION=" + string(operation),
		"DRUPDATE_BACKUP_DIR=" + w.dir, "DRUPDATE_BACKUP_NAME=" + backupName, "DRUPDATE_TIMEOUT=60", "DB_PASSWORD=s3cr3t-w0rd",
	}, append(w.env, env...)...)
	cmd.Dir = w.scene
	return cmd
}

// ended waits for the script and reads its result.
func (w *world) ended(cmd *exec.Cmd, out *bytes.Buffer) Result {
	w.t.Helper()
	err := cmd.Wait()
	raw, readErr := os.ReadFile(w.resultFile())
	require.NoError(w.t, readErr, out)
	require.Less(w.t, len(raw), 4096)
	r, ok := ParseResult(string(raw))
	require.True(w.t, ok, "not a result: %s\n%s", raw, out)
	require.True(w.t, r.Final(), "the last word is not final: %s\n%s", raw, out)
	require.Equal(w.t, r.OK, err == nil, "exit code and result differ: %s\n%s", raw, out)
	require.NotContains(w.t, string(raw), "s3cr3t")
	return r
}

func (w *world) start(operation Operation, env ...string) (*exec.Cmd, *bytes.Buffer) {
	w.t.Helper()
	cmd := w.command(operation, env...)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 30 * time.Second
	require.NoError(w.t, cmd.Start())
	return cmd, out
}

func (w *world) run(operation Operation, env ...string) Result {
	w.t.Helper()
	cmd, out := w.start(operation, env...)
	r := w.ended(cmd, out)
	w.t.Log(out.String())
	return r
}

func TestUpdateDoesItAllOnce(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"mysql", "pgsql", "sqlite"} {
		for _, flag := range []string{"0", "1"} {
			if flag == "1" && driver != "pgsql" && !*everyCase {
				continue
			}
			name := driver + " with flag " + flag
			both := func(f func(t *testing.T, w *world)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					inBothShells(t, f)
				})
			}
			both(func(t *testing.T, w *world) {
				w.set("driver", driver)
				w.set("flag", flag)
				w.on("updatedb", `cp "$S/flag" "$S/flag-during-updatedb"; ls "`+w.dir+`" >"$S/files-during-updatedb"`)
				got := w.run(Update)
				require.NotEmpty(t, got.Backup.TakenAt)
				require.Len(t, got.Backup.SHA256, 64)
				require.Greater(t, got.Backup.Bytes, int64(256))
				got.Backup = Backup{Name: got.Backup.Name}
				require.Equal(t, Result{
					Version: 1, Operation: Update, OK: true, Step: StepDone, Touched: true, Maintenance: flag, Recorded: flag,
					Backup: Backup{Name: backupName},
				}, got)
				require.Equal(t, flag, w.get("flag"))
				require.Equal(t, "1", w.get("flag-during-updatedb"))
				require.NotContains(t, w.get("files-during-updatedb"), ".partial")
				require.Contains(t, w.get("files-during-updatedb"), backupName+".sha256")
				check := exec.Command("sha256sum", "-c", backupName+".sha256")
				check.Dir = w.dir
				require.NoError(t, check.Run())

				again := w.run(Update)
				require.True(t, again.OK)
				require.Equal(t, StepDone, again.Step)
				require.Equal(t, 1, w.calls("updatedb -y"))
				require.Equal(t, 1, w.calls("sql:dump")+w.calls("sqlite3 "+w.scene+"/site.db .backup"))
			})
		}
	}
}

func TestUpdateWithoutBackup(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		got := w.run(Update, "DRUPDATE_BACKUP_POLICY=Never")
		require.True(t, got.OK)
		require.Equal(t, Backup{}, got.Backup)
		require.Equal(t, 0, w.calls("sql:dump"))
	})
}

// TestUpdateFailures holds every way to fail. Before updatedb the flag goes back; from then on it stays on.
func TestUpdateFailures(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		driver   string
		on, text string
		step     string
		updatedb int // updatedb is how often it was started
		flag     string
		error    string
	}{
		{name: "the site does not bootstrap", on: "status", text: `echo '[]'; exit 0`, step: StepPreflight, flag: "0", error: "Drupal does not bootstrap"},
		{name: "the database is down", on: "sql:query", text: `printf '\nIn SqlCommands.php line 183:\n\n  Query failed. Rerun with --debug to see any error message. ERROR 2002 (HY000): Cannot connect  \n' >&2; exit 1`, step: StepPreflight, flag: "0", error: "the database cannot be queried: ERROR 2002 (HY000): Cannot connect"},
		{name: "an unknown driver", driver: "oracle", step: StepPreflight, flag: "0", error: `the database cannot be queried: error: the database driver "oracle" is not supported`},
		{name: "an enabled module has no code", on: "core:requirements", text: `printf '{\n    "invalid_module": {\n        "title": "Invalid module",\n        "severity": "Error"\n    }\n}\n'; exit 0`, step: StepPreflight, flag: "0", error: "an enabled module or theme has no code in this image"},
		{name: "the flag cannot be read", on: "maint:get", text: `echo false; exit 0`, step: StepMaintenance, flag: "0", error: "the maintenance flag cannot be read: false"},
		{name: "the flag does not stick", on: "maint:set", text: `exit 0`, step: StepMaintenance, flag: "0", error: "maintenance mode could not be switched on"},
		{name: "the dump fails", on: "sql:dump", text: `echo '> mysqldump: Got error: 1045: "Access denied" password=s3cr3t-w0rd' >&2; : >"${*#*--result-file=}"; exit 1`, step: StepBackup, flag: "0", error: `the backup failed: mysqldump: Got error: 1045: "Access denied" password=[redacted]`},
		{name: "the dump is cut off", on: "sql:dump", text: `for a; do case $a in --result-file=*) yes 'CREATE TABLE a' | head -n 100 >"${a#*=}" ;; esac; done; exit 0`, step: StepBackup, flag: "0", error: "the backup failed: error: the dump is not complete"},
		{name: "the dump is nothing", on: "sql:dump", text: `exit 0`, step: StepBackup, flag: "0", error: "the backup failed: error: the dump is not complete"},
		{name: "the archive is cut off", driver: "pgsql", on: "pg_restore", text: `case $* in *--list*) for t in a b c d e; do echo "1; 2 3 TABLE public $t b"; done; exit 0 ;; esac; echo 'pg_restore: error: end of file' >&2; exit 1`, step: StepBackup, flag: "0", error: "the backup failed: pg_restore: error: end of file"},
		{name: "the copy is not whole", driver: "sqlite", on: "sqlite3", text: `case $2 in PRAGMA*) echo '*** in database main ***'; exit 0 ;; esac`, step: StepBackup, flag: "0", error: "the backup failed: *** in database main ***"},
		{name: "the tables cannot be counted", on: "sql:query", text: `case $* in *COUNT*) echo; exit 0 ;; esac`, step: StepBackup, flag: "0", error: "the tables could not be counted before the backup"},
		{name: "an update throws", on: "updatedb", text: `printf '>  [notice] Update started: a\n>  [error]  Simulated failure \n>  [error]  Update failed: a \n [error]  Update aborted by: a \n [error]  Finished performing updates. \n' >&2; exit 1`, step: StepUpdatedb, updatedb: 1, flag: "1", error: "updatedb failed: Simulated failure"},
		{name: "an update throws and nothing is left", on: "updatedb", text: `rm "$S/pending"; printf '>  [error]  boom \n>  [error]  Update failed: a \n' >&2; exit 0`, step: StepUpdatedb, updatedb: 1, flag: "1", error: "updatedb failed: boom"},
		{name: "exit 0 with updates left", on: "updatedb", text: `exit 0`, step: StepUpdatedb, updatedb: 1, flag: "1", error: "updatedb ended with exit code 0 and left 1 updates"},
		{name: "nothing can be said afterwards", on: "updatedb:status", text: `echo 'Bootstrap failed.' >&2; exit 1`, step: StepUpdatedbUnknown, updatedb: 1, flag: "1", error: "it cannot be said whether updates are left: Bootstrap failed."},
		{name: "a blank line afterwards", on: "updatedb:status", text: `echo; exit 0`, step: StepUpdatedbUnknown, updatedb: 1, flag: "1", error: "it cannot be said whether updates are left"},
		{name: "updatedb kills its shell", on: "updatedb", text: `kill -9 $$`, step: StepUpdatedb, updatedb: 1, flag: "1", error: "updatedb failed"},
		{name: "the caches cannot be rebuilt", on: "cache:rebuild", text: `printf '\nIn X.php line 3:\n\n  The service is missing.  \n\n' >&2; exit 1`, step: StepCacheRebuild, updatedb: 1, flag: "1", error: "the caches could not be rebuilt: The service is missing."},
		{name: "a cache rebuild without its words", on: "cache:rebuild", text: `exit 0`, step: StepCacheRebuild, updatedb: 1, flag: "1", error: "the caches could not be rebuilt"},
		{name: "half a list afterwards", on: "updatedb:status", text: `printf '{"n":{"module":"node","update_id":"","type":"entity-update"},"no'; exit 0`, step: StepUpdatedbUnknown, updatedb: 1, flag: "1", error: "it cannot be said whether updates are left"},
		{name: "the flag cannot be put back", on: "cache:rebuild", text: `echo 'exit 1' >"$S/on-maint-set"`, step: StepLift, updatedb: 1, flag: "1", error: "the recorded maintenance flag could not be put back"},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inTurn(t, i, func(t *testing.T, w *world) {
				if c.driver != "" {
					w.set("driver", c.driver)
				}
				if c.on != "" {
					w.on(c.on, c.text)
				}
				got := w.run(Update)
				require.False(t, got.OK)
				require.Equal(t, c.step, got.Step)
				require.Equal(t, c.updatedb == 1, got.Touched)
				require.Equal(t, c.updatedb, w.calls("updatedb -y"))
				require.Equal(t, c.flag, w.get("flag"))
				require.True(t, strings.HasPrefix(got.Error, c.error), got.Error)
				require.False(t, w.journal("finished"))
				require.Equal(t, c.updatedb == 1, w.journal("started"))
				partial, err := filepath.Glob(filepath.Join(w.dir, "*.partial"))
				require.NoError(t, err)
				require.Empty(t, partial)

				if c.updatedb == 0 {
					return // nothing was started
				}
				again := w.run(Update)
				require.Equal(t, StepAlreadyStarted, again.Step)
				require.True(t, again.Touched)
				require.Equal(t, 1, w.calls("updatedb -y"), "updatedb never runs twice")
				require.Equal(t, c.flag, w.get("flag"))
			})
		})
	}
}

func TestExitOneWithNothingLeftIsASuccess(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("updatedb", `rm "$S/pending"; echo ' [warning] something' >&2; exit 1`)
		got := w.run(Update)
		require.True(t, got.OK)
		require.Equal(t, 1, got.UpdatedbExit)
		require.Contains(t, got.Note, "exit code 1 though all updates are applied")
	})
}

func TestRowsThatUpdatedbNeverAppliesAreNotPending(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("updatedb", `echo '{"n":{"module":"node","update_id":"","description":"\"type\":\"hook_update_n\"","type":"entity-update"}}' >"$S/pending"; exit 0`)
		require.True(t, w.run(Update).OK)
	})
}

func TestAHungUpdateIsKilledWithAllItsChildren(t *testing.T) {
	t.Parallel()
	const hang = `sh -c 'trap "" TERM; touch "$0/child"; sleep 300; touch "$0/survived"' "$S" & echo "$!" >"$S/pid"; wait; touch "$S/survived"`
	dead := func(t *testing.T, w *world) {
		t.Helper()
		_, err := os.Stat(filepath.Join(w.scene, "survived"))
		require.ErrorIs(t, err, os.ErrNotExist)
		require.Equal(t, "1", w.get("flag"))
		require.True(t, w.journal("started"))
		// A process that nobody has waited for yet is dead too.
		stat, err := os.ReadFile(filepath.Join("/proc", w.get("pid"), "stat"))
		require.True(t, err != nil || strings.Contains(string(stat), ") Z "), "the child still runs: %s", stat)
	}
	t.Run("after the time limit", func(t *testing.T) {
		t.Parallel()
		inBothShells(t, func(t *testing.T, w *world) {
			w.on("updatedb", hang)
			got := w.run(Update, "DRUPDATE_TIMEOUT=8")
			require.Equal(t, StepUpdatedb, got.Step)
			require.Equal(t, 124, got.UpdatedbExit)
			require.Contains(t, got.Error, "no end within the time limit")
			dead(t, w)
		})
	})
	t.Run("after a signal", func(t *testing.T) {
		t.Parallel()
		inBothShells(t, func(t *testing.T, w *world) {
			w.on("updatedb", hang)
			cmd, out := w.start(Update)
			require.Eventually(t, func() bool {
				_, err := os.Stat(filepath.Join(w.scene, "child"))
				return err == nil
			}, time.Minute, 20*time.Millisecond)
			raw, err := os.ReadFile(w.resultFile())
			require.NoError(t, err)
			running, ok := ParseResult(string(raw))
			require.True(t, ok)
			require.Equal(t, "updatedb-running", running.Step)
			require.True(t, running.Touched)
			require.False(t, running.Final())
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			got := w.ended(cmd, out)
			require.Equal(t, StepUpdatedb, got.Step)
			require.True(t, got.Touched)
			require.Equal(t, 143, got.UpdatedbExit)
			dead(t, w)
		})
	})
}

func TestASignalBeforeUpdatedbPutsTheFlagBack(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("sql:dump", `touch "$S/child"; sleep 300`)
		cmd, out := w.start(Update)
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(w.scene, "child"))
			return err == nil
		}, time.Minute, 20*time.Millisecond)
		require.Equal(t, "1", w.get("flag"))
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		got := w.ended(cmd, out)
		require.Equal(t, StepBackup, got.Step)
		require.False(t, got.Touched)
		require.Equal(t, "0", w.get("flag"))
		require.Equal(t, 0, w.calls("updatedb -y"))
	})
}

func TestTwoAtOnceAreOne(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("updatedb", `touch "$S/child"; while [ ! -e "$S/go" ]; do sleep 1; done`)
		first, out := w.start(Update)
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(w.scene, "child"))
			return err == nil
		}, time.Minute, 20*time.Millisecond)
		other := filepath.Join(w.scene, "other")
		second := w.command(Update, "DRUPDATE_RESULT="+other)
		require.Error(t, second.Run())
		raw, err := os.ReadFile(other)
		require.NoError(t, err)
		busy, ok := ParseResult(string(raw))
		require.True(t, ok)
		require.Contains(t, []string{StepBusy, StepAlreadyStarted}, busy.Step, "the journal stands in where there is no flock")
		require.True(t, busy.Touched)
		w.set("go", "")
		require.True(t, w.ended(first, out).OK)
		require.Equal(t, 1, w.calls("updatedb -y"))
	})
}

func TestAKilledScriptLeavesItsLastStepAndIsNotRunAgain(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("updatedb", `touch "$S/child"; sleep 2`)
		cmd, _ := w.start(Update)
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(w.scene, "child"))
			return err == nil
		}, time.Minute, 20*time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		raw, err := os.ReadFile(w.resultFile())
		require.NoError(t, err)
		last, ok := ParseResult(string(raw))
		require.True(t, ok)
		require.False(t, last.Final())
		require.Eventually(t, func() bool { return w.run(Update).Step != StepBusy }, time.Minute, 500*time.Millisecond)
		require.Equal(t, StepAlreadyStarted, w.run(Update).Step)
		require.Equal(t, 1, w.calls("updatedb -y"))
	})
}

func TestTheFlagOfARerunIsThatOfTheFirstRun(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("sql:dump", `touch "$S/child"; sleep 2; exit 1`)
		cmd, _ := w.start(Update)
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(w.scene, "child"))
			return err == nil
		}, time.Minute, 20*time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		require.Equal(t, "1", w.get("flag"))
		w.off("sql:dump")
		require.Eventually(t, func() bool { return w.run(Update).OK }, time.Minute, 500*time.Millisecond)
		require.Equal(t, "0", w.get("flag"))
	})
}

func TestNewerClientsThatDemandTLS(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		refuse := `case "$*" in *--skip-ssl*) ;; *) echo '> mysqldump: Got error: 2026: "TLS/SSL error: SSL is required"' >&2; exit 1 ;; esac`
		w.on("sql:query", refuse)
		w.on("sql:dump", refuse)
		require.True(t, w.run(Update).OK)
	})
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("sql:dump", `case "$*" in *--skip-ssl*) ;; *) echo '> mysqldump: Got error: 2026: "TLS/SSL error: SSL is required"' >&2; exit 1 ;; esac`)
		require.True(t, w.run(Update).OK)
	})
}

func TestABackupIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.write(backupName+".sql", "precious")
		got := w.run(Update)
		require.Equal(t, StepBackup, got.Step)
		require.False(t, got.Touched)
		raw, err := os.ReadFile(filepath.Join(w.dir, backupName+".sql"))
		require.NoError(t, err)
		require.Equal(t, "precious", string(raw))
		require.Equal(t, "0", w.get("flag"))
		require.Equal(t, 0, w.calls("sql:dump"))
	})
}

func TestRetentionKeepsWhatAFailedRunNeeds(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		old := time.Now().Add(-time.Hour)
		for i, name := range []string{"a-finished", "b-finished", "c-failed", "d-restored", "e-unused"} {
			for _, suffix := range []string{".sql", ".meta", ".sha256"} {
				w.write(name+suffix, "x")
			}
			at := old.Add(time.Duration(i) * time.Minute)
			require.NoError(t, os.Chtimes(filepath.Join(w.dir, name+".meta"), at, at))
			if i != 4 {
				w.write(name+".started", "x")
			}
		}
		w.write("a-finished.finished", "x")
		w.write("b-finished.finished", "x")
		w.write("d-restored.restored", "x")
		w.write("foreign.partial", "x")
		w.write("two words.meta", "x")
		w.write("two", "x")
		require.True(t, w.run(Update, "DRUPDATE_KEEP=3").OK)
		left, err := filepath.Glob(filepath.Join(w.dir, "*.sql"))
		require.NoError(t, err)
		for i := range left {
			left[i] = strings.TrimSuffix(filepath.Base(left[i]), ".sql")
		}
		require.Equal(t, []string{"c-failed", "d-restored", "e-unused", backupName}, left)
		_, err = os.Stat(filepath.Join(w.dir, "two"))
		require.NoError(t, err)
		_, err = os.Stat(filepath.Join(w.dir, "foreign.partial"))
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

const throws = `printf '>  [error]  boom \n>  [error]  Update failed: a \n' >&2; exit 1`

func TestRestore(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"mysql", "pgsql", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			inBothShells(t, func(t *testing.T, w *world) {
				w.set("driver", driver)
				before := w.get("site.db")
				w.on("updatedb", `echo broken >"$S/site.db"; echo 9 >"$S/tables"; `+throws)
				require.Equal(t, StepUpdatedb, w.run(Update).Step)
				w.write("other.partial", "")
				if driver == "sqlite" {
					w.set("site.db-wal", "old")
					w.set("tables", "5")
				}
				got := w.run(Restore)
				require.True(t, got.OK, got.Error)
				require.False(t, got.Touched)
				require.Equal(t, StepDone, got.Step)
				require.Equal(t, "1", w.get("flag"), "the code is not rolled back yet")
				switch driver {
				case "sqlite":
					require.Equal(t, before, w.get("site.db"))
					_, err := os.Stat(filepath.Join(w.scene, "site.db-wal"))
					require.ErrorIs(t, err, os.ErrNotExist)
				case "pgsql":
					require.True(t, strings.HasPrefix(w.get("restored"), "\\set ON_ERROR_STOP on\nBEGIN;\nCREATE TABLE"))
					require.True(t, strings.HasSuffix(w.get("restored"), "COMMIT;"))
				default:
					require.Contains(t, w.get("restored"), "Dump completed")
				}
				files, err := filepath.Glob(filepath.Join(w.dir, backupName+".*"))
				require.NoError(t, err)
				require.Contains(t, strings.Join(files, " "), backupName+map[string]string{"mysql": ".sql", "pgsql": ".pgdump", "sqlite": ".sqlite"}[driver])

				require.Equal(t, StepAlreadyRestored, w.run(Restore).Step)
				lifted := w.run(Lift)
				require.True(t, lifted.OK)
				require.Equal(t, "0", w.get("flag"))
				require.Equal(t, StepAlreadyStarted, w.run(Update).Step, "not even after a restore")
			})
		})
	}
}

func TestRestoreFailures(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		damage func(t *testing.T, w *world)
		step   string
		drops  int
		error  string
	}{
		{"the backup is gone", func(t *testing.T, w *world) { require.NoError(t, os.Remove(filepath.Join(w.dir, backupName+".sql"))) }, StepBackup, 0, "there is no sound backup"},
		{"the backup has changed", func(_ *testing.T, w *world) { w.write(backupName+".sql", "x") }, StepBackup, 0, "there is no sound backup"},
		{"the database is down", func(_ *testing.T, w *world) { w.on("sql:query", `echo 'ERROR 2002 (HY000): no' >&2; exit 1`) }, StepPreflight, 0, "the database cannot be queried: ERROR 2002 (HY000): no"},
		{"another driver", func(_ *testing.T, w *world) { w.set("driver", "pgsql") }, StepBackup, 0, "the backup is of another database driver"},
		{"sql:drop drops nothing", func(_ *testing.T, w *world) { w.on("sql:drop", `exit 0`) }, StepRestore, 3, "the restore failed: error: 5 tables are left after sql:drop"},
		{"a table comes back that the backup does not replace", func(_ *testing.T, w *world) {
			w.on("sql:drop", `echo 1 >"$S/tables"; exit 0`)
			w.on("sql:query", `case $* in *table_name*) echo made_by_the_update; exit 0 ;; esac`)
		}, StepRestore, 3, "the restore failed: error: 1 tables are left after sql:drop"},
		{"the import fails", func(_ *testing.T, w *world) {
			w.on("sql:query", `case $* in *--file=*) echo 'ERROR 1064 (42000) at line 2: You have an error' >&2; exit 1 ;; esac`)
		}, StepRestore, 1, "the restore failed: ERROR 1064 (42000)"},
		{"the import fails with exit 0", func(_ *testing.T, w *world) {
			w.on("sql:query", `case $* in *--file=*) echo 'ERROR 1064 (42000) at line 2: You have an error' >&2; exit 0 ;; esac`)
		}, StepRestore, 1, "the restore failed: ERROR 1064 (42000)"},
		{"fewer tables than before", func(_ *testing.T, w *world) {
			w.on("sql:query", `case $* in *--file=*) echo 4 >"$S/tables"; exit 0 ;; esac`)
		}, StepVerify, 1, "the restored database does not have the tables"},
		{"not installed afterwards", func(_ *testing.T, w *world) { w.on("sql:query", `case $* in *install_task*) exit 0 ;; esac`) }, StepVerify, 1, "the restored database does not say that Drupal is installed"},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inTurn(t, i, func(t *testing.T, w *world) {
				w.on("updatedb", throws)
				require.Equal(t, StepUpdatedb, w.run(Update).Step)
				c.damage(t, w)
				got := w.run(Restore)
				require.False(t, got.OK)
				require.True(t, got.Touched)
				require.Equal(t, c.step, got.Step)
				require.Equal(t, c.drops, w.calls("sql:drop"))
				require.True(t, strings.HasPrefix(got.Error, c.error), got.Error)
				require.Equal(t, "1", w.get("flag"))
				if c.step == StepVerify {
					require.Equal(t, StepNotRestored, w.run(Lift).Step)
					require.Equal(t, "1", w.get("flag"))
				}
			})
		})
	}
}

// Pods that still run make tables of caches and queues anew between the drop and the count.
func TestTablesThatComeBackDoNotKeepARestoreFromBeingMade(t *testing.T) {
	t.Parallel()
	const dump = `for a in "$@"; do case $a in --result-file=*) f=${a#*=} ;; esac; done
{ for t in a b c cache_page queue; do printf 'DROP TABLE IF EXISTS \140%s\140;\nCREATE TABLE \140%s\140 (\n  b int\n);\n' "$t" "$t"; done
i=0; while [ $i -lt 20 ]; do echo '/* rows */'; i=$((i + 1)); done; echo '-- Dump completed on 2026-01-01 00:00:00'; } >"$f"; exit 0`
	for i, c := range []struct {
		name, drop, query string
		drops             int
	}{
		{"once", `if [ -e "$S/again" ]; then echo 0 >"$S/tables"; else echo 1 >"$S/again"; cp "$S/again" "$S/tables"; fi; exit 0`, "", 2},
		{"each time", `echo 2 >"$S/tables"; exit 0`, `case $* in *table_name*) printf 'TABLE_NAME\ncache_page\nqueue\n'; exit 0 ;; esac`, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inTurn(t, i, func(t *testing.T, w *world) {
				w.on("sql:dump", dump)
				w.on("updatedb", throws)
				require.Equal(t, StepUpdatedb, w.run(Update).Step)
				w.on("sql:drop", c.drop)
				if c.query != "" {
					w.on("sql:query", c.query)
				}
				got := w.run(Restore)
				require.True(t, got.OK, got.Error)
				require.Equal(t, c.drops, w.calls("sql:drop"))
				require.Equal(t, "5", w.get("tables"))
			})
		})
	}
}

func TestRestoreWithoutAnUpdateOnlyPutsTheFlagBack(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.write(backupName+".maintenance", "0\n")
		w.set("flag", "1")
		got := w.run(Restore)
		require.True(t, got.OK)
		require.False(t, got.Touched)
		require.Equal(t, StepNothingToRestore, got.Step)
		require.Equal(t, "0", w.get("flag"))
		require.Equal(t, 0, w.calls("sql:"))
	})
}

func TestRestoreIsRefusedOnceTheSiteWasOpen(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		require.True(t, w.run(Update).OK)
		got := w.run(Restore)
		require.Equal(t, StepTooLate, got.Step)
		require.False(t, got.OK)
		require.Equal(t, 0, w.calls("sql:drop"))
		require.True(t, w.run(Restore, "DRUPDATE_FORCE=1").OK)
		require.Equal(t, 1, w.calls("sql:drop"))
	})
}

func TestInstall(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.set("tables", "0")
		got := w.run(Install, "DRUPDATE_PROFILE=standard")
		require.True(t, got.OK, got.Error)
		require.Equal(t, 1, w.calls("site:install standard -y --account-name=admin --account-pass="))
		again := w.run(Install)
		require.False(t, again.OK)
		require.False(t, again.Touched)
		require.Equal(t, StepNotEmpty, again.Step)
		w.set("tables", "0")
		require.Equal(t, StepNotEmpty, w.run(Install).Step, "a site that lost its tables is not a new one")
		require.Equal(t, 1, w.calls("site:install"))
	})
}

func TestInstallNeedsProofOfEmptiness(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text, step string
		calls      int
	}{
		"the database is down":         {`echo 'ERROR 2002 (HY000): x' >&2; exit 1`, StepPreflight, 0},
		"the count is no number":       {`case $* in *COUNT*) echo; exit 0 ;; esac`, StepPreflight, 0},
		"the count is an error":        {`case $* in *COUNT*) echo 0; exit 1 ;; esac`, StepPreflight, 0},
		"there are tables":             {`case $* in *COUNT*) echo 3; exit 0 ;; esac`, StepNotEmpty, 0},
		"it is half done":              {`case $* in *COUNT*) echo 0; exit 0 ;; *install_task*) echo 's:19:"install_base_system";'; exit 0 ;; esac`, StepVerify, 1},
		"it is done in postgresql too": {`case $* in *COUNT*) echo 0; exit 0 ;; *install_task*) echo '\x733a343a22646f6e65223b'; exit 0 ;; esac`, StepDone, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTurn(t, len(name), func(t *testing.T, w *world) {
				w.on("sql:query", c.text)
				got := w.run(Install)
				require.Equal(t, c.step, got.Step)
				require.Equal(t, c.calls == 1, got.Touched)
				require.Equal(t, c.calls, w.calls("site:install"))
			})
		})
	}
}

func TestNoValueIsEverRunAsShellText(t *testing.T) {
	t.Parallel()
	checked := []string{
		"DRUPDATE_OPERATION", "DRUPDATE_BACKUP_DIR", "DRUPDATE_BACKUP_NAME", "DRUPDATE_BACKUP_POLICY", "DRUPDATE_KEEP",
		"DRUPDATE_PROFILE", "DRUPDATE_TIMEOUT", "DRUPDATE_QUESTION_TIMEOUT",
	}
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("status", `echo 'ERROR: no' >&2; exit 1`)
		for _, value := range []string{"$(touch pwned)", "'; touch pwned; '", "\"; touch pwned; \"", "a b", "../x", "-rf", "a\nb", "`touch pwned`"} {
			for i, variable := range checked {
				if (i+len(value))%3 == 0 || strings.HasPrefix(value, "$") {
					got := w.run(Update, variable+"="+value)
					require.Equal(t, StepParameters, got.Step, "%s=%q", variable, value)
				}
			}
		}
		free := []string{"DRUPDATE_FORCE=", "HOME=", "A_PASSWORD=", "A_TOKEN=", "COLUMNS="}
		for i := range free {
			free[i] += "$(touch pwned) `touch pwned` '; touch pwned; ' \"; touch pwned; \" ]#/\\1&"
		}
		require.Equal(t, StepPreflight, w.run(Update, free...).Step)
		for _, dir := range []string{w.scene, w.dir, "."} {
			_, err := os.Stat(filepath.Join(dir, "pwned"))
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	})
}

func TestDrushCommandsArePassedAsTheyAre(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.drush = []string{"drush", "--uri=https://shop.example/$(touch pwned)?a='b' \"c\"", "--root=/a b"}
		require.True(t, w.run(Update).OK)
		require.Contains(t, w.get("calls"), "--uri=https://shop.example/$(touch pwned)?a='b' \"c\" --root=/a b updatedb -y\n")
		_, err := os.Stat(filepath.Join(w.scene, "pwned"))
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestTextsOfErrorsMakeValidJSON(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("updatedb", `printf '>  [error]  "quoted" back\\slash \t tab \033[31m %s %s\n' "$(yes '"\' | head -n 900 | tr -d '\n')" DB_PASSWORD=s3cr3t-w0rd >&2; exit 1`)
		got := w.run(Update)
		require.True(t, strings.HasPrefix(got.Error, `updatedb failed: "quoted" back\slash tab`), got.Error)
	})
}

func TestAMissingVolumeIsNoticed(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		got := w.run(Update, "DRUPDATE_BACKUP_DIR="+w.dir+"/missing")
		require.Equal(t, StepParameters, got.Step)
		require.Equal(t, 0, w.calls("status"))
	})
}

// Drush asks back where nobody can answer, and takes yes for an answer or waits for ever.
func TestUpdatedbIsAnsweredBeforeItAsks(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("updatedb", `if read -r line; then echo "$line" >"$S/answered"; fi; [ ! -t 0 ] || echo terminal >"$S/answered"`)
		require.True(t, w.run(Update).OK)
		_, err := os.Stat(filepath.Join(w.scene, "answered"))
		require.ErrorIs(t, err, os.ErrNotExist, "there is no input and no terminal")
		for line := range strings.Lines(w.get("calls")) {
			require.NotRegexp(t, ` (-n|--no|--no-interaction|--simulate)( |$)`, line, "no option that is a dry run in name only")
		}
		require.Equal(t, 1, w.calls("updatedb -y"))
	})
}

// Drush lifts the maintenance mode that it set itself, also after a failed update.
func TestDrushDoesNotOpenAHalfUpdatedSite(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("updatedb", `[ "$(cat "$S/flag")" = 1 ] && ours=1 || ours=0; echo 1 >"$S/flag"; [ "$ours" = 1 ] || echo 0 >"$S/flag"; `+throws)
		require.Equal(t, StepUpdatedb, w.run(Update).Step)
		require.Equal(t, "1", w.get("flag"))
	})
}

func TestTheBackupIsTakenOfAClosedSite(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("sql:dump", `cp "$S/flag" "$S/flag-during-dump"`)
		require.True(t, w.run(Update).OK)
		require.Equal(t, "1", w.get("flag-during-dump"))
	})
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("sql:dump", `echo '> mysqldump: Error 1412: Table definition has changed, please retry transaction' >&2; exit 1`)
		got := w.run(Update)
		require.Equal(t, StepBackup, got.Step)
		require.False(t, got.Touched)
		require.Equal(t, "0", w.get("flag"), "nothing was changed, so the site is open again")
	})
}

// A newer client writes a first line that only the image that made it can read: the backup goes back as it is.
func TestABackupIsRestoredByteForByte(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("sql:dump", `for a; do case $a in --result-file=*) { echo '/*!999999\- enable the sandbox mode */'; yes 'CREATE TABLE a' | head -n 30; echo '-- Dump completed'; } >"${a#*=}" ;; esac; done; exit 0`)
		w.on("updatedb", throws)
		require.Equal(t, StepUpdatedb, w.run(Update).Step)
		backup, err := os.ReadFile(filepath.Join(w.dir, backupName+".sql"))
		require.NoError(t, err)
		require.True(t, w.run(Restore).OK)
		require.Equal(t, strings.TrimSpace(string(backup)), w.get("restored"))
		require.True(t, strings.HasPrefix(w.get("restored"), `/*!999999\- enable the sandbox mode */`))
	})
}

func TestABackupVolumeThatIsFullIsNoticedBeforeTheDump(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"sh"}, "/usr/local/bin:/usr/bin:/bin") // busybox has a df of its own, which no PATH replaces
	w.set("df", "#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted\necho /dev/x 100 90 10 90% /")
	require.NoError(t, os.Chmod(filepath.Join(w.scene, "df"), 0o755))
	w.path = w.scene + ":" + w.path
	w.write("shop-10.3.1-0000.meta", "driver=mysql\nbytes=8192\n")
	got := w.run(Update)
	require.Equal(t, StepBackup, got.Step)
	require.Contains(t, got.Error, "less free space than twice the last backup")
	require.Equal(t, 0, w.calls("sql:dump"))
	require.Equal(t, "0", w.get("flag"))
}

func TestWhatUndoesAnOperationWaitsForItToBeGone(t *testing.T) {
	t.Parallel()
	for _, operation := range []Operation{Restore, Lift} {
		t.Run(string(operation), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []string{"sh"}, "/usr/local/bin:/usr/bin:/bin")
			w.write(backupName+".maintenance", "0")
			other, err := os.OpenFile(filepath.Join(w.dir, ".lock"), os.O_CREATE|os.O_WRONLY, 0o600)
			require.NoError(t, err)
			require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
			time.AfterFunc(2*time.Second, func() { _ = other.Close() })
			got := w.run(operation)
			require.True(t, got.OK, "step %s: %s", got.Step, got.Error)
			require.NotEqual(t, StepBusy, got.Step)
		})
	}
}

func TestAnyLaterOperationCleansUpAfterAKilledOne(t *testing.T) {
	t.Parallel()
	for _, operation := range []Operation{Update, Restore, Lift} {
		t.Run(string(operation), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []string{"sh"}, "/usr/local/bin:/usr/bin:/bin")
			w.on("maint:set", "exit 1") // not even an operation that fails leaves it
			for _, name := range []string{"killed.partial", "killed.meta.tmp", ".Ab3dE6.work"} {
				w.write(name, "takes up room")
			}
			w.run(operation)
			for _, pattern := range []string{"*.partial", "*.tmp", ".*.work"} {
				left, err := filepath.Glob(filepath.Join(w.dir, pattern))
				require.NoError(t, err)
				require.Empty(t, left)
			}
		})
	}
}

// What Drush lists and never applies does not make it run again and again.
func TestARowThatStaysAsksForNoSecondUpdate(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		blocked := `{"n":{"module":"node","update_id":"","type":"entity-update"}}`
		w.on("updatedb", `echo '`+blocked+`' >"$S/pending"; exit 0`)
		require.True(t, w.run(Update).OK)
		require.Equal(t, blocked, w.get("pending"))
		require.True(t, w.run(Update).OK)
		require.Equal(t, 1, w.calls("updatedb -y"))
		require.Equal(t, 1, w.calls("sql:dump"))
	})
}
