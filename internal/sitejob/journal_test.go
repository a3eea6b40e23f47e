package sitejob

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inSh is a site whose operations run in the system's shell, which is given stubs that busybox would pass by.
func inSh(t *testing.T) *world {
	t.Helper()
	return newWorld(t, []string{"sh"}, "/usr/local/bin:/usr/bin:/bin")
}

// tells waits until the running script has said something of itself, such as its step.
func (w *world) tells(words string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		raw, _ := os.ReadFile(w.resultFile())
		return strings.Contains(string(raw), words)
	}, 20*time.Second, 20*time.Millisecond)
}

// unstub takes a stub away again.
func (w *world) unstub(name string) {
	w.t.Helper()
	require.NoError(w.t, os.Remove(filepath.Join(w.scene, "stubs", name)))
}

// killedAtTheLock is what a script has said that waits for somebody else's lock, and is killed there.
func (w *world) killedAtTheLock(operation Operation, env ...string) Result {
	w.t.Helper()
	other, err := os.OpenFile(filepath.Join(w.dir, ".lock"), os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	defer other.Close()
	require.NoError(w.t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	require.NoError(w.t, os.Remove(w.resultFile()))
	cmd, _ := w.start(operation, env...)
	w.tells(`"touched":true`)
	require.NoError(w.t, cmd.Process.Kill())
	_ = cmd.Wait()
	raw, err := os.ReadFile(w.resultFile())
	require.NoError(w.t, err)
	r, ok := ParseResult(string(raw))
	require.True(w.t, ok)
	return r
}

// stub puts a program before all others.
func (w *world) stub(name, text string) {
	w.t.Helper()
	dir := filepath.Join(w.scene, "stubs")
	require.NoError(w.t, os.MkdirAll(dir, 0o755))
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	if w.path[:len(dir)] != dir {
		w.path = dir + ":" + w.path
	}
}

// The chosen backup was taken of an open site, so its dump has the flag 0.
func TestARewindThatFailsInVerifyKeepsTheSiteClosed(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	require.True(t, w.take(chosenName).OK)
	w.on("sql:drop", `echo "echo []; exit 0" >"$S/on-status"`) // Drupal does not bootstrap on the restored database
	w.on("sql:query", `case $* in *--file=*) for a; do case $a in --file=*) rm "${a#*=}" ;; esac; done; echo 5 >"$S/tables"; echo 0 >"$S/flag"; exit 0 ;; esac`)
	got := w.rewind()
	require.False(t, got.OK)
	require.Equal(t, StepVerify, got.Step)
	require.Equal(t, "1", w.get("flag"))
}

// The import breaks off after the table that holds the flag.
func TestARewindThatFailsInImportKeepsTheSiteClosed(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	require.True(t, w.take(chosenName).OK)
	w.on("sql:query", `case $* in *--file=*) echo 0 >"$S/flag"; echo 'ERROR 2013 (HY000) at line 900: Lost connection' >&2; exit 1 ;; esac`)
	got := w.rewind()
	require.False(t, got.OK)
	require.Equal(t, StepRestore, got.Step)
	require.Equal(t, "1", w.get("flag"))
}

// During the verification the site is open.
func TestASiteIsClosedWhileItsRewindIsVerified(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	require.True(t, w.take(chosenName).OK)
	w.on("sql:query", `case $* in *--file=*) for a; do case $a in --file=*) rm "${a#*=}" ;; esac; done; echo 5 >"$S/tables"; echo 0 >"$S/flag"; exit 0 ;; *install_task*) cp "$S/flag" "$S/flag-during-verify" ;; esac`)
	require.True(t, w.rewind().OK)
	require.Equal(t, "1", w.get("flag-during-verify"))
}

// A restore waits for whoever still holds the lock. Killed there, it has not said what became of the database.
func TestKilledBeforeItsFirstStepIsNoVerdict(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	w.on("updatedb", throws)
	require.Equal(t, StepUpdatedb, w.run(Update).Step)
	state, _ := judge(w.killedAtTheLock(Restore), 137, nil)
	require.Equal(t, Unknown, state)
}

// Variables of the site's own environment may have the names of the script's.
func TestTheSitesEnvironmentReachesDrush(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	w.on("updatedb", `printf '%s|' "$NAME" "$DRIVER" "$PROFILE" "$TIMEOUT" "$DIR" "$FROM" "$FILE" "$GROUP" >"$S/seen"`)
	w.run(Update, "NAME=shopdb", "DRIVER=mysql8", "PROFILE=prod", "TIMEOUT=30", "DIR=/srv", "FROM=shop@example.org", "FILE=a", "GROUP=www")
	require.Equal(t, "shopdb|mysql8|prod|30|/srv|shop@example.org|a|www|", w.get("seen"))
}

var assigned = regexp.MustCompile(`(?m)(?:^|[ ;{(&|])([A-Z][A-Z_]*)=`)

func TestEveryNameOfTheScriptIsPutAside(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("script.sh")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(text), "OWN='")
	list, _, _ = strings.Cut(list, "'")
	own := strings.Fields(list)
	for _, m := range assigned.FindAllStringSubmatch(string(text), -1) {
		if name := m[1]; !strings.HasPrefix(name, "DRUPDATE_") && name != "LC_ALL" && name != "COLUMNS" && name != "HOME" && name != "FOREIGN_KEY_CHECKS" {
			require.Contains(t, own, name)
		}
	}
}

// The newest record on the volume may be of an operation that is long settled.
func TestAHeldFlagIsNotThatOfAnOldRewind(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	require.True(t, w.take(chosenName).OK)
	w.set("flag", "1") // a person closed the broken site by hand, and restores
	require.True(t, w.rewind("DRUPDATE_BACKUP_NAME=first").OK)
	require.True(t, w.run(Lift, "DRUPDATE_BACKUP_NAME=first").OK)
	require.Equal(t, "1", w.get("flag"))
	w.set("flag", "0") // and opens it by hand. Weeks later an update without a backup (its journal is on a scratch volume) is frozen:
	w.age()
	scratch := tempDir(t)
	w.on("updatedb", throws)
	u := w.run(Update, "DRUPDATE_BACKUP_POLICY=Never", "DRUPDATE_BACKUP_DIR="+scratch, "DRUPDATE_BACKUP_NAME=unsecured")
	require.Equal(t, "0", u.Recorded)
	require.Equal(t, "1", w.get("flag"))
	got := w.rewind("DRUPDATE_BACKUP_NAME=second", "DRUPDATE_HELD=1")
	require.True(t, got.OK, got.Error)
	require.Equal(t, "0", got.Recorded)
	require.True(t, w.run(Lift, "DRUPDATE_BACKUP_NAME=second").OK)
	require.Equal(t, "0", w.get("flag"))
}

// What a rewind backed up before it gave up and opened the site is old when it begins again.
func TestARewindThatOpenedTheSiteTakesAFreshSafetyBackup(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	require.True(t, w.take(chosenName).OK)
	w.stub("mv", `case $* in *.source.tmp*) [ -e "$SCENE/full" ] && exit 1 ;; esac; exec /bin/mv "$@"`)
	w.set("full", "")
	got := w.rewind() // the note cannot be written: lifted again
	require.False(t, got.OK)
	require.False(t, got.Touched)
	require.Equal(t, "0", w.get("flag"))
	require.True(t, w.journal("lifted"))
	require.NoError(t, os.Remove(filepath.Join(w.scene, "full")))
	dumps := w.calls("sql:dump")
	got = w.rewind()
	require.True(t, got.OK, got.Error)
	require.Equal(t, dumps+1, w.calls("sql:dump"), "visitors wrote meanwhile")
}

// Killed while the note of the dump is written.
func TestKilledBetweenTheDumpAndItsNote(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	w.stub("mv", `case $* in *.meta.tmp*) kill -9 $PPID; exit 1 ;; esac; exec /bin/mv "$@"`)
	cmd, _ := w.start(TakeBackup)
	_ = cmd.Wait()
	w.unstub("mv")
	got := w.run(TakeBackup)
	require.True(t, got.OK, got.Error)
}

// mounted is a small disk of its own.
func mounted(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := tempDir(t)
	require.NoError(t, exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).Run())
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// The volume fills up while updatedb talks: whether its refusal still fits, or a copy of it, the update failed.
func TestAFullDiskHidesNoFailedUpdate(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]int{"the output does not fit": 300000, "the output fits once": 150000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inSh(t)
			w.dir = mounted(t, "256k")
			w.on("updatedb", fmt.Sprintf(`rm "$S/pending"; head -c %d /dev/zero | tr '\0' 'x' | fold -w 100 >&2
printf '>  [error]  boom \n>  [error]  Update failed: a \n' >&2; exit 1`, bytes))
			require.False(t, w.run(Update).OK)
		})
	}
}

// The backup fits on the volume once, and the copy that a restore makes of it does not.
func TestABackupThatFitsOnceCanBeRestored(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	w.dir = mounted(t, "512k")
	w.on("sql:dump", `for a; do case $a in --result-file=*) { yes 'CREATE TABLE a (b int);' | head -c 330000; echo; echo '-- Dump completed'; } >"${a#*=}" ;; esac; done; exit 0`)
	w.on("updatedb", throws)
	require.Equal(t, StepUpdatedb, w.run(Update).Step)
	got := w.run(Restore)
	require.True(t, got.OK, got.Error)
}

// The end of this update is settled: a pod of it that comes late must not begin it under other code.
func TestAnUpdateThatWasGivenUpDoesNotBegin(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	require.Equal(t, StepNothingToRestore, w.run(Restore).Step)
	got := w.run(Update)
	require.False(t, got.OK)
	require.Equal(t, 0, w.calls("updatedb -y"))
}

// The note "restored" cannot be written.
func TestARestoreWhoseNoteIsLostIsNoSuccess(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	w.on("updatedb", throws)
	require.Equal(t, StepUpdatedb, w.run(Update).Step)
	w.stub("mv", `case $* in *.restored.tmp*) exit 1 ;; esac; exec /bin/mv "$@"`)
	got := w.run(Restore)
	w.unstub("mv")
	require.False(t, got.OK)
	require.False(t, w.run(Lift).OK, "it goes by the note")
}

// The dump holds one table of five.
func TestADumpThatLacksTablesIsNoBackup(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	w.on("sql:dump", `for a; do case $a in --result-file=*) { echo 'CREATE TABLE a (b int);'; i=0; while [ $i -lt 60 ]; do echo '/* rows */'; i=$((i+1)); done; echo '-- Dump completed'; } >"${a#*=}" ;; esac; done; exit 0`)
	got := w.run(Update)
	require.Equal(t, StepBackup, got.Step)
	require.Equal(t, 0, w.calls("updatedb -y"))
}

// Without flock, PHP locks. One that cannot is not taken for one that has.
func TestAPHPThatFailsHoldsNoLock(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	tools := tempDir(t)
	for _, name := range []string{"sh", "tee", "sed", "grep", "cut", "tail", "sync", "mktemp", "cat", "mv", "rm", "head", "tr", "date", "cp", "env", "wc", "ls", "df", "sleep", "setsid", "chmod", "sha256sum", "od", "touch", "true", "echo", "printf", "sort"} {
		p, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(p, filepath.Join(tools, name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(tools, "php"), []byte("#!/bin/sh\nexit 255\n"), 0o755))
	stubs, _ := filepath.Abs("testdata/bin")
	w.path = stubs + ":" + tools
	w.on("updatedb", `touch "$S/child"; i=0; while [ ! -e "$S/go" ]; do sleep 1; done; rm "$S/pending"; exit 0`)
	first, out := w.start(Update)
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(w.scene, "child")); return err == nil }, 15*time.Second, 20*time.Millisecond)
	second := w.command(Update, "DRUPDATE_RESULT="+filepath.Join(w.scene, "other"))
	_ = second.Run()
	w.set("go", "")
	got := w.ended(first, out)
	require.True(t, got.OK)
}

// The code did not fit the backup that a rewind put back (RestoreFailed): the message names its safety backup.
func TestTheSafetyBackupOfARewindThatWasNotLiftedIsKept(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	require.True(t, w.take(chosenName).OK)
	require.True(t, w.rewind().OK) // then "database ahead of its code": never lifted
	require.Equal(t, "1", w.get("flag"))
	w.age()
	require.True(t, w.take("asked", "DRUPDATE_KEEP=1").OK)
	require.Equal(t, []string{backupName + ".sql", backupName + ".maintenance"}, w.there(backupName+".sql", backupName+".maintenance"))
}

// Killed before updatedb, the flag could not be put back either (RestoreFailed).
func TestTheRecordOfAClosedSiteIsKept(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	w.set("flag", "0")
	w.stub("sync", `[ "$1" != "`+w.dir+`" ] || [ ! -e "`+w.dir+`/`+backupName+`.meta" ] || kill -9 $PPID; exec /bin/sync "$@"`)
	cmd, _ := w.start(Update)
	_ = cmd.Wait()
	w.unstub("sync")
	require.Equal(t, "1", w.get("flag"))
	require.True(t, w.journal("meta"))
	w.on("maint:set", "exit 1")
	require.Equal(t, StepLift, w.run(Restore).Step)
	w.off("maint:set")
	w.age()
	require.True(t, w.take("asked", "DRUPDATE_KEEP=1").OK)
	got := w.run(Lift)
	require.Equal(t, StepDone, got.Step)
	require.Equal(t, "0", w.get("flag"))
}

// The first attempt dropped the database; the second is killed before its first step.
func TestASecondRewindThatIsKilledAtOnceIsNoVerdict(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	require.True(t, w.take(chosenName).OK)
	w.on("sql:drop", "exit 1")
	require.True(t, w.rewind().Touched)
	require.False(t, w.killedAtTheLock(Rewind, "DRUPDATE_SOURCE="+chosenName).Final())
}

// The volume is full when the note of a dump is to be written.
func TestADumpWithoutItsNoteIsCleanedUp(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	w.stub("mv", `case $* in *orphan.meta.tmp*) exit 1 ;; esac; exec /bin/mv "$@"`)
	got := w.take("orphan")
	require.False(t, got.OK)
	w.age()
	for _, name := range []string{"b1", "b2", "b3"} {
		require.True(t, w.take(name, "DRUPDATE_KEEP=1").OK)
		w.age()
	}
	require.Empty(t, w.there("orphan.sql", "orphan.sha256", "b1.sql", "b2.sql"))
}

// The operation that failed wrote no record at all (its Job never ran); an older one is settled.
func TestHeldWithoutARecordOfItsOwn(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	require.True(t, w.take(chosenName).OK)
	w.set("flag", "1")
	require.True(t, w.rewind("DRUPDATE_BACKUP_NAME=first").OK)
	require.True(t, w.run(Lift, "DRUPDATE_BACKUP_NAME=first").OK)
	w.set("flag", "0") // a person opened the site since; the next restore's Job could not be made: RestoreFailed
	got := w.rewind("DRUPDATE_BACKUP_NAME=third", "DRUPDATE_HELD=1")
	require.True(t, got.OK, got.Error)
	require.Equal(t, "0", got.Recorded)
}

// What cannot be written whole is not put in: a part of it, committed, would look like all of it.
func TestHalfAnArchiveIsNotPutIn(t *testing.T) {
	t.Parallel()
	for name, stub := range map[string][2]string{
		"the statements are cut short": {"cat", `case $1 in */archive.sql) head -c 20 "$1"; exit 1 ;; esac; exec /bin/cat "$@"`},
		"the list is cut short":        {"grep", `case $* in *' SCHEMA - '*) head -n 1 "$9" 2>/dev/null; exit 2 ;; esac; exec /bin/grep "$@"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inSh(t)
			w.set("driver", "pgsql")
			w.on("updatedb", throws)
			require.Equal(t, StepUpdatedb, w.run(Update).Step)
			w.stub(stub[0], stub[1])
			got := w.run(Restore)
			require.False(t, got.OK)
			require.Equal(t, StepRestore, got.Step)
			require.Contains(t, got.Error, "could not be written")
			require.Equal(t, 0, w.calls("sql:drop"), "nothing is dropped for it")
			w.unstub(stub[0])
			require.True(t, w.run(Restore).OK)
		})
	}
}

// unsynced makes sync fail once for files of a name, and once for the whole disk after that.
func (w *world) unsynced(name string) {
	w.t.Helper()
	w.stub("sync", `case $* in *`+name+`*) touch "$S/ioerror"; exit 1 ;; esac; [ ! -e "$S/ioerror" ] || { rm "$S/ioerror"; exit 1; }; exit 0`)
}

// What updatedb relies on must outlive the node: the note that it begins, and the dump.
func TestUpdatedbDoesNotBeginOnWhatIsNotOnTheDisk(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{".started": StepUpdatedb, ".partial": StepBackup} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inSh(t)
			w.unsynced(name)
			got := w.run(Update)
			require.False(t, got.OK)
			require.Equal(t, step, got.Step)
			require.False(t, got.Touched)
			require.Equal(t, 0, w.calls("updatedb -y"))
			require.Equal(t, "0", w.get("flag"))
			require.False(t, w.journal("started"))
		})
	}
}

func TestASQLiteFileThatIsNotOnTheDiskTakesNobodysPlace(t *testing.T) {
	t.Parallel()
	w := inSh(t)
	w.set("driver", "sqlite")
	w.on("updatedb", `echo broken >"$S/site.db"; `+throws)
	require.Equal(t, StepUpdatedb, w.run(Update).Step)
	w.unsynced("site.db.partial")
	got := w.run(Restore)
	require.Equal(t, StepRestore, got.Step)
	require.Equal(t, "broken", strings.TrimSpace(w.get("site.db")))
	w.unstub("sync")
	require.True(t, w.run(Restore).OK)
}
