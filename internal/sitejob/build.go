package sitejob

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// script is the constant that every Job runs. No value is ever written into it.
//
//go:embed script.sh
var script string

// Labels and annotations of a Job and its pod. The annotations hold the values in full.
const (
	LabelSite      = "drupdate.dev/site"
	LabelRun       = "drupdate.dev/run"
	LabelOperation = "drupdate.dev/operation"
	LabelManagedBy = "app.kubernetes.io/managed-by"
)

const (
	backupVolume = "drupdate-backups"
	grace        = 60 // seconds for the script to end its process group and put the maintenance flag back
)

// Build makes the Job. It changes nothing of what it is given. The error wraps ErrInvalid and is permanent.
func Build(p Params) (*batchv1.Job, error) {
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		return nil, err
	}
	pod, err := podTemplate(p)
	if err != nil {
		return nil, err
	}
	one, none, replace := int32(1), int32(0), batchv1.Failed
	deadline := int64(p.deadline() / time.Second)
	ttl := int32(min(p.TTL/time.Second, 1<<31-1)) //nolint:gosec // bounded
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Deployment.Namespace,
			Labels: p.labels(), Annotations: p.annotations(),
			OwnerReferences: []metav1.OwnerReference{p.Owner},
		},
		Spec: batchv1.JobSpec{
			Parallelism: &one, Completions: &one, BackoffLimit: &none, PodReplacementPolicy: &replace,
			ActiveDeadlineSeconds: &deadline, TTLSecondsAfterFinished: &ttl,
			Template: *pod,
		},
	}, nil
}

// deadline bounds what the script cannot end; each long step it bounds itself. A preflight has none of those, and whether
// its pod starts at all is a part of what it asks.
func (p Params) deadline() time.Duration {
	if p.Operation == Preflight {
		return p.Timeout
	}
	return 4*p.Timeout + 30*time.Minute
}

func (p Params) labels() map[string]string {
	return map[string]string{
		LabelManagedBy: "drupdate", LabelSite: labelValue(p.Site), LabelRun: labelValue(p.RunID), LabelOperation: string(p.Operation),
	}
}

func (p Params) annotations() map[string]string {
	return map[string]string{LabelSite: p.Site, LabelRun: p.RunID, LabelOperation: string(p.Operation)}
}

// podLabels are the Job's without any that the Deployment selects by, so that no Service and no Deployment of the
// site takes the pod for one of its own.
func (p Params) podLabels() (map[string]string, error) {
	own := p.labels()
	selector := p.Deployment.Spec.Selector
	if selector == nil {
		return own, nil
	}
	for key := range selector.MatchLabels {
		delete(own, key)
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("%w: selector of the Deployment: %w", ErrInvalid, err)
	}
	if s.Matches(labels.Set(own)) {
		return nil, fmt.Errorf("%w: the Deployment's selector would take the Job's pod", ErrInvalid)
	}
	return own, nil
}

func podTemplate(p Params) (*corev1.PodTemplateSpec, error) {
	from := p.Deployment.Spec.Template.Spec.DeepCopy()
	at := slices.IndexFunc(from.Containers, func(c corev1.Container) bool { return c.Name == p.Container })
	if at < 0 {
		return nil, fmt.Errorf("%w: the Deployment has no container %q", ErrInvalid, p.Container)
	}
	own, err := p.podLabels()
	if err != nil {
		return nil, err
	}
	site := from.Containers[at]
	containers := []corev1.Container{p.container(site)}
	inits := p.initContainers(from.InitContainers, site.Image)
	seconds := int64(grace)
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &seconds,
		InitContainers: inits, Containers: containers,
		Volumes: append(used(from.Volumes, slices.Concat(inits, containers)), corev1.Volume{
			Name: backupVolume, VolumeSource: p.backups(),
		}),
		ServiceAccountName: from.ServiceAccountName, AutomountServiceAccountToken: from.AutomountServiceAccountToken,
		ImagePullSecrets: from.ImagePullSecrets, SecurityContext: from.SecurityContext,
		NodeSelector: from.NodeSelector, Tolerations: from.Tolerations, Affinity: from.Affinity,
		SchedulerName: from.SchedulerName, RuntimeClassName: from.RuntimeClassName, PriorityClassName: from.PriorityClassName,
		HostAliases: from.HostAliases, HostNetwork: from.HostNetwork, DNSPolicy: from.DNSPolicy, DNSConfig: from.DNSConfig,
		EnableServiceLinks: from.EnableServiceLinks, OS: from.OS, HostUsers: from.HostUsers,
	}
	spec.Affinity = p.affinity(spec.Affinity, spec.Volumes)
	annotations := p.annotations()
	// A drain by an autoscaler in the middle of updatedb costs a restore.
	annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
	annotations["karpenter.sh/do-not-disrupt"] = "true"
	return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: own, Annotations: annotations}, Spec: spec}, nil
}

// backups is the backup volume, or a scratch volume in its place.
func (p Params) backups() corev1.VolumeSource {
	if p.Operation.scratch() {
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.BackupClaim}}
}

// container keeps of the site's container what a command needs, and nothing that serves or watches it.
func (p Params) container(c corev1.Container) corev1.Container {
	return corev1.Container{
		Name: c.Name, Image: p.Image, ImagePullPolicy: c.ImagePullPolicy, WorkingDir: c.WorkingDir,
		Command: append([]string{"/bin/sh", "-c", script, "drupdate"}, literal(p.Drush.Argv())...),
		EnvFrom: c.EnvFrom, Env: p.env(c.Env), Resources: c.Resources, SecurityContext: c.SecurityContext,
		VolumeDevices: c.VolumeDevices,
		VolumeMounts: append(slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == p.BackupPath }),
			corev1.VolumeMount{Name: backupVolume, MountPath: p.BackupPath}),
		TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
}

// literal keeps Kubernetes from replacing $(NAME) in words that come from the resource. The script itself holds
// nothing that could be replaced.
func literal(words []string) []string {
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "$", "$$")
	}
	return words
}

// env appends the script's parameters; what the template says under such names is dropped.
func (p Params) env(of []corev1.EnvVar) []corev1.EnvVar {
	own := []corev1.EnvVar{
		{Name: "DRUPDATE_OPERATION", Value: string(p.Operation)},
		{Name: "DRUPDATE_BACKUP_DIR", Value: p.BackupPath},
		{Name: "DRUPDATE_BACKUP_NAME", Value: p.BackupName},
		{Name: "DRUPDATE_BACKUP_POLICY", Value: string(p.BackupPolicy)},
		{Name: "DRUPDATE_KEEP", Value: strconv.Itoa(p.Keep)},
		{Name: "DRUPDATE_PROFILE", Value: p.Profile},
		{Name: "DRUPDATE_TIMEOUT", Value: strconv.FormatInt(max(1, int64(p.Timeout/time.Second)), 10)},
		{Name: "DRUPDATE_FORCE", Value: strconv.Itoa(btoi(p.Force))},
	}
	if p.Operation == Rewind {
		own = append(own, corev1.EnvVar{Name: "DRUPDATE_SOURCE", Value: p.Source}, corev1.EnvVar{Name: "DRUPDATE_HELD", Value: strconv.Itoa(btoi(p.Held))})
	}
	if p.Scheduled {
		own = append(own, corev1.EnvVar{Name: "DRUPDATE_CLASS", Value: "scheduled"})
	}
	of = slices.DeleteFunc(of, func(e corev1.EnvVar) bool { return strings.HasPrefix(e.Name, "DRUPDATE_") })
	return append(of, own...)
}

// initContainers leaves sidecars out and moves those of the site's own image to the Job's image.
func (p Params) initContainers(of []corev1.Container, siteImage string) []corev1.Container {
	var kept []corev1.Container
	for _, c := range of {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			continue
		}
		c.Ports, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil, nil
		if c.Image == siteImage {
			c.Image = p.Image
		}
		kept = append(kept, c)
	}
	return kept
}

// used drops the volumes that no kept container mounts: each one more is one more that may fail to attach.
func used(volumes []corev1.Volume, by []corev1.Container) []corev1.Volume {
	names := map[string]bool{}
	for _, c := range by {
		for _, m := range c.VolumeMounts {
			names[m.Name] = true
		}
		for _, d := range c.VolumeDevices {
			names[d.Name] = true
		}
	}
	return slices.DeleteFunc(volumes, func(v corev1.Volume) bool { return !names[v.Name] })
}

// affinity keeps the rules about nodes, drops those that spread the site's pods, and adds that the Job runs beside
// them where a volume can be mounted on one node only.
func (p Params) affinity(a *corev1.Affinity, volumes []corev1.Volume) *corev1.Affinity {
	if a == nil {
		a = &corev1.Affinity{}
	}
	a.PodAntiAffinity = nil
	if slices.ContainsFunc(volumes, p.isBoundToNode) {
		if a.PodAffinity == nil {
			a.PodAffinity = &corev1.PodAffinity{}
		}
		a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			corev1.PodAffinityTerm{LabelSelector: p.Deployment.Spec.Selector.DeepCopy(), TopologyKey: corev1.LabelHostname},
		)
	}
	if a.NodeAffinity == nil && a.PodAffinity == nil {
		return nil
	}
	return a
}

func (p Params) isBoundToNode(v corev1.Volume) bool {
	return v.Name != backupVolume && v.PersistentVolumeClaim != nil && slices.Contains(p.ReadWriteOnceClaims, v.PersistentVolumeClaim.ClaimName)
}
