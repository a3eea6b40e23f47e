package sitejob

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const chosenName = "shop-10.3.6-chosen"

// take takes a backup under a name, with more environment.
func (w *world) take(name string, env ...string) Result {
	w.t.Helper()
	return w.run(TakeBackup, append([]string{"DRUPDATE_BACKUP_NAME=" + name}, env...)...)
}

func (w *world) rewind(env ...string) Result {
	w.t.Helper()
	return w.run(Rewind, append([]string{"DRUPDATE_SOURCE=" + chosenName}, env...)...)
}

// age makes what is on the volume a minute older: the newest backups are told by their time.
func (w *world) age() {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	require.NoError(w.t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(w.t, err)
		older := info.ModTime().Add(-time.Minute)
		require.NoError(w.t, os.Chtimes(filepath.Join(w.dir, e.Name()), older, older))
	}
}

func (w *world) there(names ...string) []string {
	w.t.Helper()
	var found []string
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(w.dir, name)); err == nil {
			found = append(found, name)
		}
	}
	return found
}

func TestABackupLeavesTheSiteOpen(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"mysql", "pgsql", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			inTurn(t, len(driver), func(t *testing.T, w *world) {
				w.set("driver", driver)
				got := w.take(backupName)
				require.True(t, got.OK, got.Error)
				require.False(t, got.Touched)
				require.Len(t, got.Backup.SHA256, 64)
				require.Zero(t, w.calls("maint:set"))
				require.False(t, w.journal("started"))
				again := w.take(backupName)
				require.Equal(t, got.Backup, again.Backup, "asked for twice it is taken once")
				require.Equal(t, 1, w.calls("sql:dump")+w.calls("sqlite3 "+w.scene+"/site.db .backup"))
			})
		})
	}
}

func TestABackupThatFailsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.on("sql:dump", `exit 1`)
		got := w.take(backupName)
		require.False(t, got.OK)
		require.Equal(t, StepBackup, got.Step)
		require.False(t, got.Touched)
		require.Empty(t, w.there(backupName+".sql", backupName+".meta", backupName+".partial"))
		require.Equal(t, "0", w.get("flag"))
	})
}

func TestScheduledBackupsAreKeptApart(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		w.take("asked-1", "DRUPDATE_KEEP=1")
		for _, name := range []string{"nightly-1", "nightly-2", "nightly-3"} {
			w.take(name, "DRUPDATE_CLASS=scheduled", "DRUPDATE_KEEP=2")
			w.age()
		}
		require.Equal(t, []string{"asked-1.sql", "nightly-2.sql", "nightly-3.sql"}, w.there("asked-1.sql", "nightly-1.sql", "nightly-2.sql", "nightly-3.sql"))
		w.take("asked-2", "DRUPDATE_KEEP=1")
		require.Equal(t, []string{"asked-2.sql", "nightly-2.sql"}, w.there("asked-1.sql", "asked-2.sql", "nightly-2.sql"))
	})
}

func TestWhatAFailedRewindWantsIsNeverRemoved(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		require.True(t, w.take(chosenName, "DRUPDATE_CLASS=scheduled").OK)
		w.on("sql:query", `case $* in *--file=*) echo 'ERROR 1064 (42000): x' >&2; exit 1 ;; esac`)
		got := w.rewind()
		require.False(t, got.OK)
		require.True(t, got.Touched)
		require.Equal(t, StepRestore, got.Step)
		require.Equal(t, "1", w.get("flag"))
		w.off("sql:query")
		w.set("tables", "5")
		w.age()
		require.True(t, w.take("nightly-2", "DRUPDATE_CLASS=scheduled", "DRUPDATE_KEEP=1").OK)
		w.age()
		require.True(t, w.take("nightly-3", "DRUPDATE_CLASS=scheduled", "DRUPDATE_KEEP=1").OK)
		require.True(t, w.take("asked", "DRUPDATE_KEEP=1").OK)
		require.Equal(t, []string{chosenName + ".sql", backupName + ".sql"}, w.there(chosenName+".sql", backupName+".sql", "nightly-2.sql"))

		// Another run puts it back; then it is a backup like others. The flag is that of before the first run.
		w.age()
		got = w.rewind("DRUPDATE_BACKUP_NAME=second", "DRUPDATE_HELD=1")
		require.True(t, got.OK, got.Error)
		require.Equal(t, "0", got.Recorded)
		require.Empty(t, w.there(backupName+".source", "second.source"))
		w.age()
		require.True(t, w.take("nightly-4", "DRUPDATE_CLASS=scheduled", "DRUPDATE_KEEP=1").OK)
		require.Empty(t, w.there(chosenName+".sql"))
	})
}

func TestRewindPutsTheChosenBackupBackAndKeepsTheSiteClosed(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"mysql", "pgsql", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			inTurn(t, len(driver)+1, func(t *testing.T, w *world) {
				w.set("driver", driver)
				require.True(t, w.take(chosenName).OK)
				got := w.rewind()
				require.True(t, got.OK, got.Error)
				require.Equal(t, StepDone, got.Step)
				require.Equal(t, "1", got.Maintenance)
				require.Equal(t, "0", got.Recorded)
				require.Equal(t, backupName, got.Backup.Name, "the safety backup")
				require.Len(t, got.Backup.SHA256, 64)
				require.True(t, w.journal("restored"))

				again := w.rewind()
				require.True(t, again.OK)
				require.Equal(t, StepAlreadyRestored, again.Step)
				require.LessOrEqual(t, w.calls("sql:drop"), 1)

				lifted := w.run(Lift)
				require.True(t, lifted.OK, lifted.Error)
				require.Equal(t, "0", w.get("flag"))
			})
		})
	}
}

func TestRewindFailures(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		name, on, text, step string
		env                  []string
		touched              bool
		flag                 string
	}{
		{name: "the database is down", on: "sql:query", text: `echo 'ERROR 2002 (HY000): x' >&2; exit 1`, step: StepPreflight, flag: "0"},
		{name: "no such backup", env: []string{"DRUPDATE_SOURCE=nothing"}, step: StepPreflight, flag: "0"},
		{name: "the backup is not sound", on: "status", text: `echo x >>"` + "$DRUPDATE_BACKUP_DIR/" + chosenName + `.sql"`, step: StepPreflight, flag: "0"},
		{name: "another driver", on: "status", text: `case $* in *db-driver*) echo pgsql; exit 0 ;; esac`, step: StepPreflight, flag: "0"},
		{name: "the flag does not stick", on: "maint:set", text: `exit 0`, step: StepMaintenance, flag: "0"},
		{name: "the safety backup fails", on: "sql:dump", text: `exit 1`, step: StepBackup, flag: "0"},
		{name: "the safety backup of a held site fails", env: []string{"DRUPDATE_HELD=1"}, on: "sql:dump", text: `exit 1`, step: StepBackup, flag: "1"},
		{name: "the drop fails", on: "sql:drop", text: `exit 1`, step: StepRestore, touched: true, flag: "1"},
		{name: "the site does not bootstrap afterwards", on: "sql:drop", text: `echo "echo []; exit 0" >"$S/on-status"`, step: StepVerify, touched: true, flag: "1"},
		{name: "tables are missing afterwards", on: "sql:drop", text: `printf 'case $* in *COUNT*) cat "$S/tables"; exit 0 ;; *--file=*) rm "$file"; echo 2 >"$S/tables"; exit 0 ;; esac\n' >"$S/on-sql-query"`, step: StepVerify, touched: true, flag: "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inTurn(t, i, func(t *testing.T, w *world) {
				require.True(t, w.take(chosenName).OK)
				if c.on != "" {
					w.on(c.on, c.text)
				}
				got := w.rewind(c.env...)
				require.False(t, got.OK)
				require.Equal(t, c.step, got.Step, got.Error)
				require.Equal(t, c.touched, got.Touched)
				require.Equal(t, c.flag, w.get("flag"))
				require.Equal(t, c.touched, w.journal("started"))
				require.Equal(t, c.touched, w.journal("source"))
				require.NotEmpty(t, w.there(chosenName+".sql"))
			})
		})
	}
}

// A retry begins again with the chosen backup: what the first attempt left is not worth a safety backup.
func TestARewindThatBeginsAgainTakesNoSecondSafetyBackup(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		require.True(t, w.take(chosenName).OK)
		w.on("sql:drop", `exit 1`)
		first := w.rewind()
		require.False(t, first.OK)
		w.off("sql:drop")
		second := w.rewind()
		require.True(t, second.OK, second.Error)
		require.Equal(t, first.Backup, second.Backup)
		require.Equal(t, 2, w.calls("sql:dump"))
	})
}

func TestARewindOfABrokenDatabase(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		require.True(t, w.take(chosenName).OK)
		w.on("maint:get", `[ -e "$S/restored" ] || { echo 'In Connection.php: no table key_value' >&2; exit 1; }`)
		w.on("maint:set", `[ -e "$S/restored" ] || exit 1`)
		got := w.rewind("DRUPDATE_BACKUP_POLICY=Never")
		require.True(t, got.OK, got.Error)
		require.Equal(t, "0", got.Recorded)
		require.Empty(t, got.Backup.Name)
		require.Equal(t, "1", w.get("flag"), "until the code is proven to fit")
	})
}

func TestTheParametersOfARewindAreChecked(t *testing.T) {
	t.Parallel()
	inBothShells(t, func(t *testing.T, w *world) {
		for _, env := range []string{
			"DRUPDATE_SOURCE=", "DRUPDATE_SOURCE=" + backupName, "DRUPDATE_SOURCE=../x", "DRUPDATE_SOURCE=$(touch pwned)", "DRUPDATE_SOURCE=a b",
			"DRUPDATE_SOURCE=" + strings.Repeat("a", 201), "DRUPDATE_HELD=x", "DRUPDATE_CLASS=$(touch pwned)",
		} {
			require.Equal(t, StepParameters, w.rewind(env).Step, env)
		}
		require.Empty(t, w.there("pwned"))
	})
}
