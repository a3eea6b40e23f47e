package sitejob

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// simsite builds the simulated site once and returns a folder of its programs; the tests end with it.
var simsite = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "simsite")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "simsite")
	out, err := exec.Command("go", "build", "-o", binary, "../simsite/cmd/simsite").CombinedOutput()
	if err != nil {
		return string(out), err
	}
	for _, name := range []string{"drush", "mysql", "mysqldump", "psql", "pg_dump", "pg_restore", "sqlite3"} {
		if err := os.Symlink(binary, filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := simsiteIfBuilt(); err == nil && dir != "" {
		_ = os.RemoveAll(dir) // a leftover in the temporary folder is no failure
	}
	os.Exit(code)
}

var (
	simsiteOnce sync.Once
	simsiteUsed bool // read only after every test has ended
)

func simsiteIfBuilt() (string, error) {
	if !simsiteUsed {
		return "", nil
	}
	return simsite()
}

// newSimsite is an installed site of release 10.3.1 on the simulator.
func newSimsite(t *testing.T, driver string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("the simulated site is slow")
	}
	simsiteOnce.Do(func() { simsiteUsed = true })
	programs, err := simsite()
	require.NoError(t, err, programs)
	w := newWorld(t, []string{"sh"}, "/usr/local/bin:/usr/bin:/bin")
	w.path = programs + ":/usr/local/bin:/usr/bin:/bin"
	w.env = []string{
		"SIMSITE_DIR=" + w.scene, "SIMSITE_RELEASE=10.3.1", "DB_DRIVER=" + driver, "DB_NAME=shop",
		"DB_PATH=" + w.scene + "/shop.sqlite", "DRUPDATE_PROFILE=minimal",
	}
	if driver != "sqlite" {
		create := exec.Command(filepath.Join(programs, "simsite"), "db", "create", "shop")
		create.Env = w.env
		require.NoError(t, create.Run())
	}
	got := w.run(Install)
	require.True(t, got.OK, got.Error)
	require.NoError(t, os.Remove(filepath.Join(w.dir, backupName+".installed")))
	return w
}

func (w *world) release(tag string) { w.env[1] = "SIMSITE_RELEASE=" + tag }

// asks runs one Drush command and returns both streams.
func (w *world) asks(args ...string) string {
	w.t.Helper()
	cmd := w.command(Update)
	cmd.Path, cmd.Args = strings.Split(w.path, ":")[0]+"/drush", append([]string{"drush"}, args...)
	cmd.Env = append(cmd.Env, "HOME=/tmp", "COLUMNS=1000")
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, string(out))
	return strings.TrimSpace(string(out))
}

func TestOnTheSimulatedSite(t *testing.T) {
	t.Parallel()
	cases := []struct {
		release string
		ok      bool
		step    string
		touched bool
		always  bool // always runs on all three drivers
	}{
		{"10.3.6", true, StepDone, true, true},
		{"10.4.0-exit1-applied", true, StepDone, true, false},
		{"10.4.0-exit0-not-applied", false, StepUpdatedb, true, false},
		{"10.4.0-hook-exception", false, StepUpdatedb, true, true},
		{"10.4.0-dump-fails", false, StepBackup, false, false},
		{"10.4.0-dump-truncated", false, StepBackup, false, true},
		{"10.4.0-db-down", false, StepPreflight, false, false},
	}
	for _, driver := range []string{"mysql", "pgsql", "sqlite"} {
		for _, c := range cases {
			t.Run(driver+" "+c.release, func(t *testing.T) {
				t.Parallel()
				if !c.always && driver != "mysql" && !*everyCase {
					t.Skip("one driver is enough without -every-case")
				}
				w := newSimsite(t, driver)
				w.release(c.release)
				got := w.run(Update)
				require.Equal(t, c.ok, got.OK, got.Error)
				require.Equal(t, c.step, got.Step, got.Error)
				require.Equal(t, c.touched, got.Touched)
				if c.release == "10.4.0-db-down" {
					return
				}
				if c.ok {
					require.Equal(t, 0, got.PendingAfter)
					require.Contains(t, w.asks("updatedb:status"), "No database updates required")
				}
				require.Equal(t, map[bool]string{true: "1", false: "0"}[c.touched && !c.ok], w.asks("maint:get"))
				if !c.touched || c.ok {
					return
				}
				before := w.asks("updatedb:status", "--format=json")
				restored := w.run(Restore)
				require.True(t, restored.OK, restored.Error)
				require.Equal(t, "1", w.asks("maint:get"))
				after := w.asks("updatedb:status", "--format=json")
				if c.release == "10.4.0-hook-exception" {
					require.NotEqual(t, before, after, "what was applied is taken back")
				}
				require.Contains(t, after, "10001")
				w.release("10.3.1")
				require.True(t, w.run(Lift).OK)
				require.Equal(t, "0", w.asks("maint:get"))
				require.Contains(t, w.asks("updatedb:status"), "No database updates required")
			})
		}
	}
}

func TestARestoreThatFailsOnTheSimulatedSite(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"mysql", "pgsql"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			w := newSimsite(t, driver)
			w.release("10.4.0-restore-fails")
			require.Equal(t, StepUpdatedb, w.run(Update).Step)
			got := w.run(Restore)
			require.False(t, got.OK)
			require.True(t, got.Touched)
			require.NotEmpty(t, got.Error)
			require.Equal(t, StepNotRestored, w.run(Lift).Step)
		})
	}
}
