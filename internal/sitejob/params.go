package sitejob

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/internal/drush"
)

// Operation is what a Job does.
type Operation string

// The operations of the script.
const (
	// Update backs the database up, runs updatedb, judges it, rebuilds the caches and puts the maintenance flag back.
	Update Operation = "update"
	// Restore puts the backup of a failed update back. Maintenance mode stays on.
	Restore Operation = "restore"
	// Install installs Drupal in a database that is proved to be empty.
	Install Operation = "install"
	// Lift puts the recorded maintenance flag back, after the code was rolled back.
	Lift Operation = "lift"
	// Preflight asks Drush whether it bootstraps and which updates are pending. It changes nothing, and mounts no backups.
	Preflight Operation = "preflight"
)

// Operations that a person, or a schedule, asks for.
const (
	// TakeBackup takes a backup beside the running site.
	TakeBackup Operation = "backup"
	// Rewind puts the backup of the name Source back, after a safety backup. Maintenance mode stays on, for Lift to end.
	Rewind Operation = "rewind"
)

var operations = []Operation{Update, Restore, Install, Lift, Preflight, TakeBackup, Rewind}

// scratch tells whether the operation has no business with backups: what it writes on the way is gone with its pod.
func (o Operation) scratch() bool { return o == Preflight }

// BackupPolicy says whether Update takes a backup first.
type BackupPolicy string

// The policies, named as in the resource.
const (
	BackupBeforeUpdates BackupPolicy = "BeforeDatabaseUpdates"
	BackupNever         BackupPolicy = "Never"
)

// Defaults of Params.
const (
	DefaultTimeout = time.Hour
	DefaultTTL     = 7 * 24 * time.Hour
	DefaultKeep    = 3
)

// Params is all that a Job is made of. Nothing of it is changed by Build.
type Params struct {
	// Name of the Job; see Name. Its namespace is the Deployment's.
	Name string
	// Site and RunID become labels and annotations.
	Site, RunID string
	Operation   Operation
	// Deployment is the live one, whose pod template the Job's pod is made from.
	Deployment *appsv1.Deployment
	// Container is the name of the container that Drush runs in, and Image the image that it gets, in full.
	Container, Image string
	// Drush is how Drush is called.
	Drush drush.Command
	// BackupClaim is the claim that is mounted at BackupPath, in this Job only. Both are required: the journal that
	// keeps updatedb from running twice lies there, whatever the policy. Preflight needs no claim, and gets none.
	BackupClaim, BackupPath string
	// BackupName is the base name of backup and journal; see BackupName. Restore and Lift need that of the update.
	BackupName string
	// Source is the base name of the backup that Rewind puts back.
	Source string
	// Held says that an operation that failed left the site in maintenance mode: Rewind takes the flag from its record.
	Held bool
	// Scheduled backups are kept apart from the others.
	Scheduled bool
	// BackupPolicy of Update and Rewind. Empty means BackupBeforeUpdates.
	BackupPolicy BackupPolicy
	// Keep is the number of finished backups, scheduled or not, that stay. Zero means DefaultKeep.
	Keep int
	// Profile is the installation profile of Install. Empty means minimal.
	Profile string
	// Timeout bounds updatedb, the backup, the restore and the installation, each. Zero means DefaultTimeout.
	Timeout time.Duration
	// TTL is how long the finished Job stays. Zero means DefaultTTL.
	TTL time.Duration
	// Owner is the site's resource.
	Owner metav1.OwnerReference
	// ReadWriteOnceClaims are the claims that only one node can mount. A Job that uses one runs on the node of the
	// site's pods.
	ReadWriteOnceClaims []string
	// Force lets Restore and Lift go on where writes may be lost or a half-updated site goes live. A person asks so.
	Force bool
}

// ErrInvalid means that the parameters cannot make a Job, now or later.
var ErrInvalid = errors.New("invalid job parameters")

var (
	plainPath = regexp.MustCompile(`^/[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$`)
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)
	profile   = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

func (p Params) withDefaults() Params {
	if p.BackupPolicy == "" {
		p.BackupPolicy = BackupBeforeUpdates
	}
	if p.Keep <= 0 {
		p.Keep = DefaultKeep
	}
	if p.Profile == "" {
		p.Profile = "minimal"
	}
	if p.Timeout <= 0 {
		p.Timeout = DefaultTimeout
	}
	if p.TTL <= 0 {
		p.TTL = DefaultTTL
	}
	return p
}

// validate lists every problem at once.
func (p Params) validate() error {
	var wrong []string
	check := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	check(p.Name != "" && len(p.Name) <= maxName && label(p.Name) == p.Name, "name")
	check(p.Site != "", "site")
	check(slices.Contains(operations, p.Operation), "operation")
	check(p.Container != "", "container")
	check(p.Image != "", "image")
	check(p.BackupClaim != "" || p.Operation.scratch(), "backup claim")
	check(plainPath.MatchString(p.BackupPath) && path.Clean(p.BackupPath) == p.BackupPath, "backup path")
	check(plainName.MatchString(p.BackupName), "backup name")
	check(p.Operation != Rewind || (plainName.MatchString(p.Source) && p.Source != p.BackupName), "source")
	check(p.BackupPolicy == BackupBeforeUpdates || p.BackupPolicy == BackupNever, "backup policy")
	check(profile.MatchString(p.Profile), "profile")
	check(p.Deployment != nil, "deployment")
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %s", ErrInvalid, strings.Join(wrong, ", "))
	}
	return nil
}
