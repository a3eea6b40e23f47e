package proc

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestStopEndsOnlyTheProcessThatWasMeant(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := ID{PID: id.PID, Start: id.Start + 1}
	if err := other.Kill(t.Context()); err != nil || !id.Alive() {
		t.Fatalf("a process with a reused number was ended, error %v", err)
	}
	path := filepath.Join(t.TempDir(), "id.json")
	if err := id.Save(path); err != nil {
		t.Fatal(err)
	}
	if loaded, err := Load(path); err != nil || loaded != id {
		t.Fatalf("loaded %v, error %v", loaded, err)
	}
	if err := id.Stop(t.Context(), 5*time.Second); err != nil || id.Alive() {
		t.Fatalf("not stopped, error %v", err)
	}
}

func TestLoadWithoutARecordIsNotAlive(t *testing.T) {
	t.Parallel()
	id, err := Load(filepath.Join(t.TempDir(), "none.json"))
	if err != nil || id.Alive() {
		t.Fatalf("id %v, error %v", id, err)
	}
}
