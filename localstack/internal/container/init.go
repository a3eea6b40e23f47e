package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotFound is the error of a command that is not in the container.
var ErrNotFound = errors.New("executable file not found in $PATH")

// Init is the first process of a container. It reads its Spec, builds the
// container around itself and becomes the command; it returns only by exiting.
func Init() {
	runtime.LockOSThread()
	report := os.NewFile(reportFD, "report")
	unix.CloseOnExec(reportFD)
	err := initFrom(os.NewFile(specFD, "spec"), report)
	fmt.Fprintln(report, err)
	os.Exit(exitCode(err))
}

func initFrom(source io.ReadCloser, report io.Closer) error {
	var spec Spec
	if err := json.NewDecoder(source).Decode(&spec); err != nil {
		return fmt.Errorf("read container spec: %w", err)
	}
	if err := source.Close(); err != nil {
		return fmt.Errorf("read container spec: %w", err)
	}
	if spec.Inside != 0 {
		return join(spec, report)
	}
	if err := build(spec); err != nil {
		return err
	}
	return become(spec)
}

// become replaces this process with the command.
func become(spec Spec) error {
	path, err := prepare(spec)
	if err != nil {
		return err
	}
	if err := dropTo(spec); err != nil {
		return err
	}
	if err := syscall.Exec(path, spec.Args, spec.Env); err != nil {
		return fmt.Errorf("exec: %q: %w", spec.Args[0], err)
	}
	return nil
}

// prepare enters the working folder and finds the command.
func prepare(spec Spec) (string, error) {
	dir := spec.Dir
	if dir == "" {
		dir = "/"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make working folder: %w", err)
	}
	if err := os.Chdir(dir); err != nil {
		return "", fmt.Errorf("enter working folder: %w", err)
	}
	os.Clearenv()
	for _, pair := range spec.Env {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			return "", fmt.Errorf("set environment: %q: %w", name, err)
		}
	}
	path, err := exec.LookPath(spec.Args[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("exec: %q: %w", spec.Args[0], ErrNotFound)
	case errors.Is(err, exec.ErrDot):
		return path, nil
	case err != nil:
		return "", fmt.Errorf("exec: %w", err)
	}
	return path, nil
}

// dropTo changes to the container's user. A change of user clears the
// signal on the parent's death, so it is asked for again.
func dropTo(spec Spec) error {
	if spec.GID != nil {
		if err := syscall.Setgroups(nil); err != nil {
			return fmt.Errorf("drop groups: %w", err)
		}
		if err := syscall.Setgid(int(*spec.GID)); err != nil {
			return fmt.Errorf("change group: %d: %w", *spec.GID, err)
		}
	}
	if spec.UID != nil {
		if err := syscall.Setuid(int(*spec.UID)); err != nil {
			return fmt.Errorf("change user: %d: %w", *spec.UID, err)
		}
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("tie to parent: %w", err)
		}
	}
	return nil
}

// join runs the command inside a container that already runs, and exits as
// the command exits. The kernel ends the command together with the container.
func join(spec Spec, report io.Closer) error {
	if err := enter(spec); err != nil {
		return err
	}
	path, err := prepare(spec)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{Path: path, Args: spec.Args, Env: spec.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if spec.UID != nil {
		cred := &syscall.Credential{Uid: uint32(*spec.UID), NoSetGroups: spec.GID == nil}
		if spec.GID != nil {
			cred.Gid = uint32(*spec.GID)
		}
		cmd.SysProcAttr.Credential = cred
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("exec: %q: %w", spec.Args[0], errors.Unwrap(err))
	}
	if err := report.Close(); err != nil {
		return fmt.Errorf("report start: %w", err)
	}
	err = cmd.Wait()
	os.Exit(status(cmd.ProcessState, err))
	return nil
}

// enter moves this thread, and what it starts, into the namespaces of a
// running container. Only a thread with its own file system view may change
// its mount namespace.
func enter(spec Spec) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter container: own file system view: %w", err)
	}
	for _, kind := range []struct {
		name string
		flag int
	}{{"uts", unix.CLONE_NEWUTS}, {"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}} {
		path := fmt.Sprintf("/proc/%d/ns/%s", spec.Inside, kind.name)
		ns, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("enter container: %w", err)
		}
		err = unix.Setns(int(ns.Fd()), kind.flag)
		if err := errors.Join(err, ns.Close()); err != nil {
			return fmt.Errorf("enter container: %q: %w", path, err)
		}
	}
	return changeRoot(spec.Root)
}

// status is the exit code a shell would give: 128 and the signal number for a
// process that a signal ended.
func status(state *os.ProcessState, err error) int {
	if state == nil {
		return exitCode(err)
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

func exitCode(err error) int {
	switch {
	case errors.Is(err, ErrNotFound):
		return 127
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return 126
	default:
		return 128
	}
}
