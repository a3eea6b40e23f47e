package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
)

// The image table: which repository runs what. Nothing is ever pulled.
const (
	drupalRepository  = "registry.example/drupal"  // the simulated site; its tags come from the simsite program.
	busyboxRepository = "registry.example/busybox" // the host's own tools; its one tag is "1".
	// drupdateRepository is "drupdate" in full; its one tag is "dev", which is what deploy/ and the charts name.
	drupdateRepository = "docker.io/library/drupdate"
)

const (
	simsiteFolder = "/opt/simsite/bin" // where a container finds the simulated programs.
	drupdateFile  = "/drupdate"        // where a container of drupdate has its one program.
	hostPath      = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// image is what a reference stands for.
type image struct {
	id         string   // repository@digest, as in a container's status.
	entrypoint []string // runs unless the pod gives a command; the pod's arguments follow it.
	command    []string // runs unless the pod says otherwise.
	env        []string // may refer to what a pod knows of itself: $(POD_IP).
	simsite    bool     // shows the simulated programs.
	program    string   // the host's file that the container sees as drupdateFile.
}

// errNoImage is the error for a reference that names nothing in the table, and
// errImageName the one for a reference that cannot be read.
var (
	errNoImage   = errors.New("not found")
	errImageName = errors.New("invalid reference format")
)

// images finds images. It asks the simsite program for its releases, and asks
// again when the program changed.
type images struct {
	program  string // the simsite program.
	folder   string // where links to it are kept, named as its programs are.
	drupdate string // the drupdate program.

	mu       sync.Mutex
	seen     os.FileInfo
	releases map[string]bool
}

// find returns the image of a reference, errImageName or errNoImage.
func (i *images) find(ctx context.Context, ref string) (image, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return image{}, fmt.Errorf("parse image: %q: %w", ref, errImageName)
	}
	tag := "latest"
	if t, ok := named.(reference.Tagged); ok {
		tag = t.Tag()
	}
	if d, ok := named.(reference.Digested); ok {
		tag = d.Digest().String()
	}
	found := image{id: named.Name() + "@" + digest(named.Name(), tag)}
	switch named.Name() {
	case busyboxRepository:
		if tag != "1" {
			return image{}, missing(ref)
		}
		found.command = []string{"sleep", "infinity"}
		found.env = []string{"PATH=" + hostPath}
		return found, nil
	case drupalRepository:
		known, err := i.known(ctx, tag)
		if err != nil {
			return image{}, err
		}
		if !known {
			return image{}, missing(ref)
		}
		found.simsite = true
		found.command = []string{"simsite", "web"}
		found.env = []string{"PATH=" + simsiteFolder + ":" + hostPath, "SIMSITE_RELEASE=" + tag}
		return found, nil
	case drupdateRepository:
		return i.product(found, ref, tag)
	default:
		return image{}, missing(ref)
	}
}

// product completes the image of drupdate. All pods share one network, so each listens on its own address.
func (i *images) product(found image, ref, tag string) (image, error) {
	if tag != "dev" {
		return image{}, missing(ref)
	}
	program, err := filepath.EvalSymlinks(i.drupdate)
	if err != nil {
		return image{}, fmt.Errorf("failed to pull image %q: %q is not there, make build makes it: %w", ref, i.drupdate, errNoImage)
	}
	found.program = program
	found.entrypoint = []string{drupdateFile}
	found.env = []string{"PATH=" + hostPath, "DRUPDATE_METRICS_ADDR=$(POD_IP):8080", "DRUPDATE_HEALTH_ADDR=$(POD_IP):8081"}
	return found, nil
}

// missing words the error as containerd does.
func missing(ref string) error {
	return fmt.Errorf("failed to pull and unpack image %q: failed to resolve reference %q: %s: %w", ref, ref, ref, errNoImage)
}

// digest invents a stable digest for a tag; a digest stays itself.
func digest(repository, tag string) string {
	if strings.HasPrefix(tag, "sha256:") {
		return tag
	}
	sum := sha256.Sum256([]byte(repository + ":" + tag))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (i *images) known(ctx context.Context, tag string) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.refresh(ctx); err != nil {
		return false, err
	}
	return i.releases[tag], nil
}

// refresh asks the program for its releases and names, unless it is the one
// that was asked before.
func (i *images) refresh(ctx context.Context) error {
	info, err := os.Stat(i.program)
	if err != nil {
		return fmt.Errorf("find simulated site: %w", err)
	}
	if i.seen != nil && os.SameFile(i.seen, info) && info.ModTime().Equal(i.seen.ModTime()) {
		return nil
	}
	releases, err := i.ask(ctx, "releases")
	if err != nil {
		return err
	}
	names, err := i.ask(ctx, "names")
	if err != nil {
		return err
	}
	if err := i.install(append(names, "simsite")); err != nil {
		return err
	}
	i.releases = map[string]bool{}
	for _, release := range releases {
		i.releases[release] = true
	}
	i.seen = info
	return nil
}

// ask returns the first word of every line that a subcommand prints.
func (i *images) ask(ctx context.Context, subcommand string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, i.program, subcommand).Output()
	if err != nil {
		return nil, fmt.Errorf("ask simulated site: %q: %w", subcommand, err)
	}
	var words []string
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			words = append(words, fields[0])
		}
	}
	return words, nil
}

// install links the program under each of its names, in a folder that the
// containers share.
func (i *images) install(names []string) error {
	if err := os.MkdirAll(i.folder, 0o755); err != nil {
		return fmt.Errorf("install simulated site: %w", err)
	}
	for _, name := range names {
		path := filepath.Join(i.folder, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("install simulated site: %w", err)
		}
		if err := linkOrCopy(i.program, path); err != nil {
			return err
		}
	}
	return nil
}

// linkOrCopy makes a hard link, or a copy where the program is on another
// file system.
func linkOrCopy(from, to string) error {
	if err := os.Link(from, to); err == nil {
		return nil
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("install simulated site: %w", err)
	}
	if err := os.WriteFile(to, raw, 0o755); err != nil {
		return fmt.Errorf("install simulated site: %w", err)
	}
	return nil
}
