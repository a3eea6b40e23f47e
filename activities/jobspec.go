package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/siteimage"
	"github.com/drupdate/drupdate/internal/sitejob"
	"github.com/drupdate/drupdate/internal/update"
)

// jobTTL is how long a finished Job stays, for kubectl logs and for a run that comes late.
const jobTTL = 3 * 24 * time.Hour

// defaultBackupPath is the CRD's default, for a resource written before it.
const defaultBackupPath = "/var/lib/drupdate/backups"

// buildJob makes an operation's Job from the live Deployment.
func (a *Activities) buildJob(ctx context.Context, site *v1alpha1.DrupalSite, o update.Operation, name string) (*batchv1.Job, error) {
	if err := named(site, o); err != nil {
		return nil, err
	}
	d, err := a.deployment(ctx, site)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, errNoDeployment
	}
	// Since Drush was asked, somebody may have deleted the Deployment, and the watcher made it anew for the database as it was.
	// Its pods must not meet an updated one.
	if o.Kind == update.OperationUpdate && neverTried(ctx, o) {
		if err := carriesRelease(site, d, o.Release); err != nil {
			return nil, fmt.Errorf("build Job: %w", err)
		}
	}
	image := operationImage(site, d, o.Release)
	if image == "" {
		return nil, permanent(update.FailureContainerMissing, "build Job: Deployment %q has no container %q", d.Name, site.Spec.Runtime.Container)
	}
	claims, err := a.singleNodeClaims(ctx, d)
	if err != nil {
		return nil, err
	}
	p := sitejob.Params{
		Name: name, Site: site.Name, RunID: o.RunID, Operation: sitejob.Operation(o.Kind),
		Deployment: d, Container: site.Spec.Runtime.Container, Image: image, Drush: drushOf(site),
		BackupClaim: site.Name + "-backups", BackupPath: cmp.Or(site.Spec.Update.Backup.Path, defaultBackupPath),
		BackupName:   cmp.Or(o.BackupName, update.BackupName(o.Site, o.From, o.RunID)),
		BackupPolicy: backupPolicy(o), Keep: backupsKept(site, o.Scheduled), Source: o.Source, Held: o.Held, Scheduled: o.Scheduled,
		Profile: o.Profile, Timeout: o.Timeout, TTL: jobTTL,
		Owner: metav1.OwnerReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: siteKind, Name: site.Name, UID: site.UID, Controller: new(true),
		},
		ReadWriteOnceClaims: claims,
	}
	job, err := sitejob.Build(p)
	if err != nil {
		return nil, permanentJob(err)
	}
	if o.Unsecured {
		withoutClaim(job, p.BackupClaim)
	}
	return job, nil
}

// backupPolicy is the policy that the operation was begun with. The spec may say another one by now, under which there
// would be a journal to trust, and a backup to restore.
func backupPolicy(o update.Operation) sitejob.BackupPolicy {
	if o.Unsecured || o.NoSafetyBackup {
		return sitejob.BackupPolicy(v1alpha1.BackupNever)
	}
	return sitejob.BackupPolicy(v1alpha1.BackupBeforeDatabaseUpdates)
}

// withoutClaim gives the Job of a site without backups a scratch volume: nobody makes a claim for such a site, and the
// pod would wait for it forever. The journal then lives no longer than the Job's pod.
func withoutClaim(job *batchv1.Job, claim string) {
	for i := range job.Spec.Template.Spec.Volumes {
		if v := &job.Spec.Template.Spec.Volumes[i]; v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			v.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
	}
}

// operationImage is the image of Drush's container at a release: the live one where the Deployment carries the release
// (admission may have pinned it), else the release's own. Empty means that there is no such container.
func operationImage(site *v1alpha1.DrupalSite, d *appsv1.Deployment, release string) string {
	name := site.Spec.Runtime.Container
	c := siteimage.Container(&d.Spec.Template, name)
	switch {
	case c == nil:
		return ""
	case slices.Contains(site.SiteContainers(), name) && !siteimage.Carries(site, &d.Spec.Template, release):
		return site.ImageFor(release)
	}
	return c.Image
}

// singleNodeClaims are the pod template's claims that only one node can mount: the Job must run where the pods do. A
// claim that is missing binds nobody yet.
func (a *Activities) singleNodeClaims(ctx context.Context, d *appsv1.Deployment) ([]string, error) {
	var names []string
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		err := a.client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: v.PersistentVolumeClaim.ClaimName}, claim)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read PersistentVolumeClaim %q: %w", v.PersistentVolumeClaim.ClaimName, err)
		}
		if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			return nil, permanent(update.FailureInvalid,
				"build Job: the volume %q is for one pod only (ReadWriteOncePod), so that no Job can run beside the site", claim.Name)
		}
		if !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) && !slices.Contains(claim.Spec.AccessModes, corev1.ReadOnlyMany) {
			names = append(names, claim.Name)
		}
	}
	return names, nil
}
