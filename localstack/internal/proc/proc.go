// Package proc names, signals and stops processes so that a reused process
// number is never mistaken for the process that was meant.
package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ID names one process for as long as the machine runs: its number and the
// moment it started, in clock ticks since boot.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Identify returns the ID of a process that exists now.
func Identify(pid int) (ID, error) {
	_, start, err := stat(pid)
	if err != nil {
		return ID{}, err
	}
	return ID{PID: pid, Start: start}, nil
}

// Alive reports whether the process still exists and has not exited.
func (id ID) Alive() bool {
	state := id.state()
	return state != 0 && state != 'Z' && state != 'X'
}

// Paused reports whether the process is stopped by a signal.
func (id ID) Paused() bool { return id.state() == 'T' }

// Signal sends a signal if the process is still the one that was identified.
// A process that is gone is not an error.
func (id ID) Signal(sig syscall.Signal) error {
	if !id.Alive() {
		return nil
	}
	if err := syscall.Kill(id.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send signal %q: process %d: %w", sig, id.PID, err)
	}
	return nil
}

// Stop asks the process to end, and ends it by force after the grace period.
// It returns once the process is gone; a paused process is resumed first.
func (id ID) Stop(ctx context.Context, grace time.Duration) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := id.Signal(sig); err != nil {
			return err
		}
	}
	if id.wait(ctx, grace) {
		return nil
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !id.wait(ctx, 5*time.Second) {
		return fmt.Errorf("stop process: %d: it survived SIGKILL for five seconds", id.PID)
	}
	return nil
}

// Kill ends the process at once and returns when it is gone.
func (id ID) Kill(ctx context.Context) error {
	if err := id.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !id.wait(ctx, 5*time.Second) {
		return fmt.Errorf("kill process: %d: it survived SIGKILL for five seconds", id.PID)
	}
	return nil
}

// Save records the ID in a file.
func (id ID) Save(path string) error {
	raw, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("record process: %q: %w", path, err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("record process: %w", err)
	}
	return nil
}

// Load reads an ID that Save recorded. A missing file is the zero ID, which is
// never alive.
func Load(path string) (ID, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return ID{}, nil
	}
	if err != nil {
		return ID{}, fmt.Errorf("read process record: %w", err)
	}
	var id ID
	if err := json.Unmarshal(raw, &id); err != nil {
		return ID{}, fmt.Errorf("read process record: %q: %w", path, err)
	}
	return id, nil
}

func (id ID) wait(ctx context.Context, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if !id.Alive() {
			return true
		}
	}
	return !id.Alive()
}

// state is the letter of /proc/PID/stat, or 0 when the process is gone.
func (id ID) state() byte {
	if id.PID <= 0 {
		return 0
	}
	state, start, err := stat(id.PID)
	if err != nil || start != id.Start {
		return 0
	}
	return state
}

// stat reads the state and the start time of a process. The command name in
// the second field may hold spaces and brackets, so fields count from its end.
func stat(pid int) (state byte, start uint64, err error) {
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, fmt.Errorf("identify process: %w", err)
	}
	text := string(raw)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("identify process: %q: %d fields", path, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("identify process: %q: start time: %w", path, err)
	}
	return fields[0][0], start, nil
}
