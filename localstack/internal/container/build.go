package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// systemFolders of the host are shown, read-only, in every container.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"}

// devices of the host that every container has.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"}

// build makes the root folder of the container and moves into it. It runs in
// fresh namespaces, so nothing it mounts is seen outside.
func build(spec Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach mounts: %w", err)
	}
	if spec.Hostname != "" {
		if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
			return fmt.Errorf("set host name: %w", err)
		}
	}
	if err := skeleton(spec.Root); err != nil {
		return err
	}
	for _, folder := range systemFolders {
		if err := expose(spec, folder); err != nil {
			return err
		}
	}
	if err := special(spec.Root); err != nil {
		return err
	}
	return moveIn(spec)
}

// moveIn moves into the root folder and mounts the volumes there.
func moveIn(spec Spec) error {
	sources, err := open(spec.Mounts)
	if err != nil {
		return err
	}
	if err := changeRoot(spec.Root); err != nil {
		return err
	}
	for i, m := range spec.Mounts {
		if err := attach(sources[i], m); err != nil {
			return err
		}
	}
	return nil
}

// skeleton makes the folders that are the container's own.
func skeleton(root string) error {
	for _, dir := range []string{"dev/shm", "home", "opt", "proc", "root", "run", "sys", "tmp", "var/lib", "var/log", "var/tmp", "var/www"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("make root folder: %w", err)
		}
	}
	for _, dir := range []string{"tmp", "var/tmp", "dev/shm"} {
		if err := os.Chmod(filepath.Join(root, dir), 0o1777); err != nil {
			return fmt.Errorf("make root folder: %w", err)
		}
	}
	for link, to := range map[string]string{
		"var/run": "../run", "dev/fd": "../proc/self/fd", "dev/stdin": "../proc/self/fd/0",
		"dev/stdout": "../proc/self/fd/1", "dev/stderr": "../proc/self/fd/2",
	} {
		if err := symlink(to, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	return nil
}

// expose shows a folder of the host. When something is to be mounted below
// it, the folder is made anew with its entries shown one by one, because a
// mount point must never be created in the host's own folder.
func expose(spec Spec, host string) error {
	info, err := os.Lstat(host)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("show host path: %w", err)
	}
	inside := filepath.Join(spec.Root, host)
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		to, err := os.Readlink(host)
		if err != nil {
			return fmt.Errorf("show host path: %w", err)
		}
		return symlink(to, inside)
	case info.IsDir() && targetBelow(spec.Mounts, host):
		if err := os.MkdirAll(inside, 0o755); err != nil {
			return fmt.Errorf("show host path: %w", err)
		}
		entries, err := os.ReadDir(host)
		if err != nil {
			return fmt.Errorf("show host path: %w", err)
		}
		for _, entry := range entries {
			if err := expose(spec, filepath.Join(host, entry.Name())); err != nil {
				return err
			}
		}
		return nil
	default:
		return bind(host, inside, true)
	}
}

func targetBelow(mounts []Mount, folder string) bool {
	for _, m := range mounts {
		if strings.HasPrefix(filepath.Clean(m.Target), folder+"/") {
			return true
		}
	}
	return false
}

// special mounts the kernel's folders and the devices.
func special(root string) error {
	if err := unix.Mount("proc", filepath.Join(root, "proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount: %q: %w", "/proc", err)
	}
	if err := bind("/sys", filepath.Join(root, "sys"), false); err != nil {
		return err
	}
	for _, name := range devices {
		host := filepath.Join("/dev", name)
		if _, err := os.Stat(host); err != nil {
			continue // a bare host may lack it, and then so does the container.
		}
		if err := bind(host, filepath.Join(root, "dev", name), false); err != nil {
			return err
		}
	}
	return nil
}

// open holds the sources of the mounts, which are out of reach after the
// change of root.
func open(mounts []Mount) ([]*os.File, error) {
	files := make([]*os.File, 0, len(mounts))
	for _, m := range mounts {
		fd, err := unix.Open(m.Source, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open volume: %q: %w", m.Source, err)
		}
		files = append(files, os.NewFile(uintptr(fd), m.Source))
	}
	return files, nil
}

// attach mounts a held source. It runs inside the container's root, so no
// link in the target can lead out of it.
func attach(source *os.File, m Mount) error {
	if err := bind(fmt.Sprintf("/proc/self/fd/%d", source.Fd()), m.Target, m.ReadOnly); err != nil {
		return err
	}
	if err := source.Close(); err != nil {
		return fmt.Errorf("mount: %q: %w", m.Target, err)
	}
	return nil
}

// bind shows source at target, making the target if it is missing.
func bind(source, target string, readOnly bool) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("mount: %q: %w", target, err)
	}
	if err := mountPoint(target, info.IsDir()); err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount: %q: %w", target, err)
	}
	if !readOnly {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(target, &fs); err != nil {
		return fmt.Errorf("mount read-only: %q: %w", target, err)
	}
	kept := uintptr(fs.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, ""); err != nil {
		return fmt.Errorf("mount read-only: %q: %w", target, err)
	}
	return nil
}

func mountPoint(target string, dir bool) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	parent := target
	if !dir {
		parent = filepath.Dir(target)
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	if dir {
		return nil
	}
	f, err := os.OpenFile(target, os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	return f.Close()
}

func symlink(to, path string) error {
	if err := os.Symlink(to, path); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make link: %w", err)
	}
	return nil
}

func changeRoot(root string) error {
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("change root: %q: %w", root, err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("change root: %q: %w", root, err)
	}
	return nil
}
