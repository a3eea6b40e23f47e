// Package build makes the programs of the stack from Go modules, once: a
// program is built again only when its module changed.
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Target is one program to build.
type Target struct {
	Title   string // what it is, for the progress lines.
	Expect  string // how long it takes, for the progress lines.
	Module  string // the folder of its module.
	Package string
	LDFlags string
	Sources []string // globs, relative to the module, of what a change of which means a new build.
	Output  string
}

// environment keeps every build of the project on the same build cache:
// another set of flags would compile Kubernetes again.
func environment() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath", "GOWORK=off")
}

// Ensure builds the target unless its output is already made from the same
// sources. Progress goes to out, a line at a time.
func Ensure(ctx context.Context, out io.Writer, t Target) error {
	key, err := t.key()
	if err != nil {
		return err
	}
	keyFile := t.Output + ".key"
	if old, err := os.ReadFile(keyFile); err == nil && string(old) == key {
		if _, err := os.Stat(t.Output); err == nil {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(t.Output), 0o755); err != nil {
		return fmt.Errorf("build: %q: %w", t.Title, err)
	}
	if err := t.build(ctx, out); err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, []byte(key), 0o644); err != nil {
		return fmt.Errorf("build: %q: %w", t.Title, err)
	}
	return nil
}

func (t Target) build(ctx context.Context, out io.Writer) error {
	partial := t.Output + ".partial"
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", t.LDFlags, "-o", partial, t.Package)
	cmd.Dir, cmd.Env = t.Module, environment()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build: %q: %w", t.Title, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	fmt.Fprintf(out, "building %s: %s\n", t.Title, t.Expect)
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(out, "building %s: %s; %s so far\n", t.Title, t.Expect, time.Since(begun).Round(time.Second))
		case err := <-done:
			if err != nil {
				return fmt.Errorf("build: %q: %w: %s", t.Title, err, lastLines(said.String()))
			}
			if err := os.Rename(partial, t.Output); err != nil {
				return fmt.Errorf("build: %q: %w", t.Title, err)
			}
			fmt.Fprintf(out, "built %s in %s\n", t.Title, time.Since(begun).Round(time.Second))
			return nil
		}
	}
}

// key is a checksum of everything that decides what the program will be.
func (t Target) key() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH, t.Package, t.LDFlags)
	for _, glob := range append([]string{"go.mod", "go.sum"}, t.Sources...) {
		files, err := filepath.Glob(filepath.Join(t.Module, glob))
		if err != nil {
			return "", fmt.Errorf("build: %q: %q: %w", t.Title, glob, err)
		}
		if len(files) == 0 {
			return "", fmt.Errorf("build: %q: %q: %w", t.Title, filepath.Join(t.Module, glob), os.ErrNotExist)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("build: %q: %w", t.Title, err)
			}
			fmt.Fprintf(sum, "%s %d\n", filepath.Base(file), len(raw))
			sum.Write(raw)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}

// FindModules returns the folders of the localstack module and of the module
// that builds Temporal, looking upwards from a folder for the repository.
func FindModules(from string) (localstack, temporal string, err error) {
	for dir := from; ; dir = filepath.Dir(dir) {
		localstack, temporal = filepath.Join(dir, "localstack"), filepath.Join(dir, "tools", "temporal")
		_, errL := os.Stat(filepath.Join(localstack, "go.mod"))
		_, errT := os.Stat(filepath.Join(temporal, "go.mod"))
		if err := errors.Join(errL, errT); err == nil {
			return localstack, temporal, nil
		}
		if dir == filepath.Dir(dir) {
			return "", "", fmt.Errorf("find the repository: %q: no folder above it has localstack/go.mod and tools/temporal/go.mod", from)
		}
	}
}
