package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DrupalSite is one Drupal site: the release it should run, and the release it
// does run.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dsite,categories=all
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.release`,description="The release its owner asks for"
// +kubebuilder:printcolumn:name="Serving",type=string,JSONPath=`.status.release.serving`,description="The release it runs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether a pod serves the site"
// +kubebuilder:printcolumn:name="Updating",type=string,JSONPath=`.status.conditions[?(@.type=="Updating")].status`,description="Whether a run changes the site"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.run.phase`,description="What the newest run does, or how it ended"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Failsafe",type=string,priority=1,JSONPath=`.status.release.failsafe`,description="The release a failed update goes back to"
// +kubebuilder:printcolumn:name="Run",type=string,priority=1,JSONPath=`.status.run.workflowID`,description="The Temporal workflow"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.run.message`,description="What the newest run says"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 50",message="the name of a site must be a DNS label of at most 50 characters that begins with a letter (its Service and Jobs are named after it)"
type DrupalSite struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the site's owner asks for.
	// +required
	Spec DrupalSiteSpec `json:"spec"`
	// status is what drupdate observed and did. Only drupdate writes it.
	// +optional
	Status DrupalSiteStatus `json:"status,omitempty"`
}

// DrupalSiteList is a list of sites.
//
// +kubebuilder:object:root=true
type DrupalSiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DrupalSite `json:"items"`
}

// DrupalSiteSpec is what the site's owner asks for.
type DrupalSiteSpec struct {
	// image is the repository of the site's image, without a tag or digest, for example "registry.example/drupal".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+([._-][a-z0-9]+)*(:[0-9]{1,5})?(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*$`
	Image string `json:"image"`

	// release is the image tag, or the digest ("sha256:" and 64 hex digits), that the site should run. Changing it asks for an update.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$') || self.matches('^sha256:[a-f0-9]{64}$')",message="release must be an image tag (letters, digits, '_', '.', '-', at most 128) or a digest 'sha256:' followed by 64 lower-case hex digits"
	Release string `json:"release"`

	// runtime says how Drush is reached in the site's pods.
	// +optional
	// +kubebuilder:default={}
	Runtime RuntimeSpec `json:"runtime,omitempty"`

	// database names the Secret that holds the database's credentials.
	// +optional
	Database *DatabaseSpec `json:"database,omitempty"`

	// files is the volume of the site's uploaded files. Without it the site has none.
	// +optional
	Files *FilesSpec `json:"files,omitempty"`

	// service is the Service in front of the site's pods.
	// +optional
	// +kubebuilder:default={}
	Service ServiceSpec `json:"service,omitempty"`

	// workload names the Deployment, for sites whose Deployment already exists.
	// +optional
	// +kubebuilder:default={}
	Workload WorkloadSpec `json:"workload,omitempty"`

	// install asks for one site:install when the database is provably empty. Without it an empty site waits for its owner.
	// +optional
	Install *InstallSpec `json:"install,omitempty"`

	// update says how updates are made.
	// +optional
	// +kubebuilder:default={}
	Update UpdateSpec `json:"update,omitempty"`

	// backups asks for backups by a schedule, beside those that updates take.
	// +optional
	Backups *BackupsSpec `json:"backups,omitempty"`
}

// BackupsSpec asks for backups by a schedule.
type BackupsSpec struct {
	// schedule says when a backup is taken, as a cron expression of five fields.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[-0-9A-Za-z*/,?]+( +[-0-9A-Za-z*/,?]+){4})$`
	Schedule string `json:"schedule"`
	// timeZone is the IANA zone of the schedule. Default: UTC.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
	TimeZone string `json:"timeZone,omitempty"`
	// keep is how many scheduled backups are kept, apart from the other ones. Those that a failed run refers to are kept besides. Default: 7.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	Keep int32 `json:"keep,omitempty"`
}

// KeepsBackups tells whether the site has a backup volume.
func (s *DrupalSite) KeepsBackups() bool {
	return s.Spec.Update.Backup.Policy != BackupNever || s.Spec.Backups != nil
}

// SchedulesBackups tells whether backups are asked for by a schedule.
func (s *DrupalSite) SchedulesBackups() bool {
	return s.Spec.Backups != nil && s.Spec.Backups.Schedule != ""
}

// RuntimeSpec says how Drush is reached.
type RuntimeSpec struct {
	// container is the name of the container that has Drush, in the Deployment's pod template. It is never guessed. Default: drupal.
	// +optional
	// +kubebuilder:default=drupal
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Container string `json:"container,omitempty"`

	// drush is the command that starts Drush, word by word, for example ["vendor/bin/drush"]. Default: ["drush"].
	// +optional
	// +kubebuilder:default={"drush"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=atomic
	Drush []string `json:"drush,omitempty"`

	// uri is the site's address, passed to Drush as --uri. Required where sites share code.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://[^\\\\s]+$')",message="uri must begin with http:// or https://"
	URI string `json:"uri,omitempty"`

	// root is Drupal's root directory in the container, passed to Drush as --root.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="root must be an absolute path"
	Root string `json:"root,omitempty"`
}

// DatabaseSpec names the database's credentials.
type DatabaseSpec struct {
	// secretName is a Secret in the site's namespace; each of its keys becomes an environment variable of the containers when the Deployment is created.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	SecretName string `json:"secretName"`
}

// FilesSpec is the volume of uploaded files.
type FilesSpec struct {
	// size is the requested size of the volume.
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="size must be a quantity above zero, such as 5Gi"
	// +kubebuilder:validation:MaxLength=32
	Size string `json:"size"`
	// storageClassName is the volume's storage class; empty means the cluster's default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
	// accessMode is the volume's access mode. Unless it is ReadWriteMany, the Deployment is created with the strategy Recreate:
	// pods are stopped before new ones start, and the site is away for as long as that takes. Default: ReadWriteOnce.
	// +optional
	// +kubebuilder:default=ReadWriteOnce
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany
	AccessMode string `json:"accessMode,omitempty"`
	// path is where the container sees the volume. Default: /opt/drupal/web/sites/default/files.
	// +optional
	// +kubebuilder:default="/opt/drupal/web/sites/default/files"
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must be absolute"
	Path string `json:"path,omitempty"`
}

// ServiceSpec is the Service in front of the site.
type ServiceSpec struct {
	// port is the Service's port. Default: 80.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// targetPort is the port that the container listens on. Default: 8080.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TargetPort int32 `json:"targetPort,omitempty"`
}

// OwnerPolicy says whether an existing Deployment becomes the site's own.
// +kubebuilder:validation:Enum=Leave;Adopt
type OwnerPolicy string

const (
	// OwnerLeave leaves the owner references of an existing Deployment alone.
	OwnerLeave OwnerPolicy = "Leave"
	// OwnerAdopt adds the site as owner of an existing Deployment that has no controller.
	OwnerAdopt OwnerPolicy = "Adopt"
)

// WorkloadSpec names the site's Deployment.
type WorkloadSpec struct {
	// name of the Deployment; empty means the site's name.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Name string `json:"name,omitempty"`
	// owner says whether an existing Deployment gets an owner reference to the site (so that it is deleted with it). Default: Leave.
	// +optional
	// +kubebuilder:default=Leave
	Owner OwnerPolicy `json:"owner,omitempty"`
	// containers are the names of the containers that run the site's image; empty means the one of runtime.container.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	Containers []string `json:"containers,omitempty"`
}

// InstallSpec asks for an installation.
type InstallSpec struct {
	// profile is the installation profile, for example "minimal".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9_]*$`
	Profile string `json:"profile"`
}

// DatabaseFailurePolicy says what follows a failed database update.
// +kubebuilder:validation:Enum=Restore;Freeze
type DatabaseFailurePolicy string

const (
	// RestoreDatabase restores the backup and rolls the code back.
	RestoreDatabase DatabaseFailurePolicy = "Restore"
	// FreezeSite leaves code, database and maintenance mode as they are.
	FreezeSite DatabaseFailurePolicy = "Freeze"
)

// BackupPolicy says when a backup is taken.
// +kubebuilder:validation:Enum=BeforeDatabaseUpdates;Never
type BackupPolicy string

const (
	// BackupBeforeDatabaseUpdates takes a verified backup before every drush updatedb.
	BackupBeforeDatabaseUpdates BackupPolicy = "BeforeDatabaseUpdates"
	// BackupNever takes none: a failed database update then freezes the site.
	BackupNever BackupPolicy = "Never"
)

// UpdateSpec says how updates are made.
// +kubebuilder:validation:XValidation:rule="!has(self.onDatabaseFailure) || !has(self.backup) || !has(self.backup.policy) || self.onDatabaseFailure != 'Restore' || self.backup.policy != 'Never'",message="onDatabaseFailure Restore needs a backup: set backup.policy to BeforeDatabaseUpdates, or onDatabaseFailure to Freeze"
type UpdateSpec struct {
	// paused stops new updates from starting; a run that already changes the site goes on.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// window limits when an update may start. Without it, at any time.
	// +optional
	Window *WindowSpec `json:"window,omitempty"`
	// rolloutTimeout limits how long new pods may take to serve. Time in which the controllers of the cluster are away does
	// not count. Default: 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self > duration('0s') && self <= duration('24h')",message="rolloutTimeout must be above 0s and at most 24h"
	RolloutTimeout metav1.Duration `json:"rolloutTimeout,omitzero"`
	// cacheRebuildAttempts is how often drush cache:rebuild is tried. Default: 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	CacheRebuildAttempts int32 `json:"cacheRebuildAttempts,omitempty"`
	// databaseTimeout limits drush updatedb, and the backup before it. Default: 1h.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1s') && self <= duration('48h')",message="databaseTimeout must be at least 1s and at most 48h"
	DatabaseTimeout metav1.Duration `json:"databaseTimeout,omitzero"`
	// preflight asks Drush in the target's image, before the site's own image is changed, whether it bootstraps and which
	// updates are pending. A target that fails there costs the site nothing.
	// +optional
	Preflight bool `json:"preflight,omitempty"`
	// backup says when and where backups are taken.
	// +optional
	// +kubebuilder:default={}
	Backup BackupSpec `json:"backup,omitempty"`
	// onDatabaseFailure says what follows a failed database update: restore the backup and roll back, or freeze everything for a person. Default: Restore.
	// +optional
	// +kubebuilder:default=Restore
	OnDatabaseFailure DatabaseFailurePolicy `json:"onDatabaseFailure,omitempty"`
}

// BackupSpec says when and where backups are taken.
type BackupSpec struct {
	// policy says when. Default: BeforeDatabaseUpdates.
	// +optional
	// +kubebuilder:default=BeforeDatabaseUpdates
	Policy BackupPolicy `json:"policy,omitempty"`
	// path is where the backup volume is mounted in the operation's pod, and only there. Default: /var/lib/drupdate/backups.
	// +optional
	// +kubebuilder:default="/var/lib/drupdate/backups"
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self != '/'",message="path must be absolute and not the root directory"
	Path string `json:"path,omitempty"`
	// keep is how many finished backups are kept. Those that a failed update refers to are kept besides. Default: 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	Keep int32 `json:"keep,omitempty"`
	// size is the requested size of the backup volume. Default: 5Gi.
	// +optional
	// +kubebuilder:default="5Gi"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="size must be a quantity above zero, such as 5Gi"
	Size string `json:"size,omitempty"`
	// storageClassName is the volume's storage class; empty means the cluster's default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
}

// WindowSpec is a recurring time in which updates may start.
type WindowSpec struct {
	// schedule says when a window opens, as a cron expression of five fields.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[-0-9A-Za-z*/,?]+( +[-0-9A-Za-z*/,?]+){4})$`
	Schedule string `json:"schedule"`
	// duration is how long it stays open.
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('168h')",message="duration must be at least 1m and at most 168h"
	Duration metav1.Duration `json:"duration"`
	// timeZone is the IANA zone of the schedule. Default: UTC.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
	TimeZone string `json:"timeZone,omitempty"`
}
