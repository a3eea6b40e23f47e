package watcher

import (
	"fmt"
	"net/url"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

const (
	filesVolume = "files"
	httpPort    = "http"
	// probePath stays 200 in maintenance mode, whose other pages are 503: a probe of "/" would take every pod out of
	// service during a database update, and end a rolling update that is going well.
	probePath = "/user/login"
	// defaultProgress is the progress deadline where the spec has no rollout timeout, as in Kubernetes.
	defaultProgress = 10 * time.Minute
)

// children are the objects of a site that must exist before its Deployment, in the order in which they are created.
// The selector is that of the Deployment, which an adopted one brings along; nil means the site's own labels.
func children(site *v1alpha1.DrupalSite, selector map[string]string) ([]client.Object, error) {
	objects := []client.Object{configMap(site)}
	if files := site.Spec.Files; files != nil {
		mode := corev1.ReadWriteOnce
		if files.AccessMode != "" {
			mode = corev1.PersistentVolumeAccessMode(files.AccessMode)
		}
		pvc, err := volumeClaim(site, "files", files.Size, files.StorageClassName, mode)
		if err != nil {
			return nil, fmt.Errorf("spec.files.size: %w", err)
		}
		objects = append(objects, pvc)
	}
	if backup := site.Spec.Update.Backup; site.KeepsBackups() {
		pvc, err := volumeClaim(site, "backups", backup.Size, backup.StorageClassName, corev1.ReadWriteOnce)
		if err != nil {
			return nil, fmt.Errorf("spec.update.backup.size: %w", err)
		}
		objects = append(objects, pvc)
	}
	return append(objects, service(site, selector)), nil
}

// siteLabels select the site's pods. They are part of an immutable selector and never change.
func siteLabels(site *v1alpha1.DrupalSite) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":     "drupal",
		"app.kubernetes.io/instance": site.Name,
		v1alpha1.LabelSite:           site.Name,
	}
}

func childMeta(site *v1alpha1.DrupalSite, name string) metav1.ObjectMeta {
	labels := siteLabels(site)
	labels["app.kubernetes.io/managed-by"] = "drupdate"
	return metav1.ObjectMeta{
		Namespace:       site.Namespace,
		Name:            name,
		Labels:          labels,
		Annotations:     map[string]string{v1alpha1.AnnotationSite: site.Name},
		OwnerReferences: []metav1.OwnerReference{owner(site)},
	}
}

// owner is the reference that removes a child with its site. It does not block the deletion of the site: where the
// admission plugin OwnerReferencesPermissionEnforcement is on, that would take a right over finalizers.
func owner(site *v1alpha1.DrupalSite) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "DrupalSite", Name: site.Name, UID: site.UID, Controller: ptr.To(true),
	}
}

// configMap is the environment of the site's containers that is no secret. Drush reads DRUSH_OPTIONS_* as defaults of
// its options, so that a person who runs drush in the pod gets the right site.
func configMap(site *v1alpha1.DrupalSite) *corev1.ConfigMap {
	data := map[string]string{"DRUPDATE_SITE": site.Name}
	if uri := site.Spec.Runtime.URI; uri != "" {
		data["DRUSH_OPTIONS_URI"] = uri
	}
	if root := site.Spec.Runtime.Root; root != "" {
		data["DRUSH_OPTIONS_ROOT"] = root
	}
	return &corev1.ConfigMap{ObjectMeta: childMeta(site, configName(site)), Data: data}
}

func configName(site *v1alpha1.DrupalSite) string { return site.Name + "-config" }

func filesName(site *v1alpha1.DrupalSite) string { return site.Name + "-files" }

func volumeClaim(site *v1alpha1.DrupalSite, suffix, size, class string, mode corev1.PersistentVolumeAccessMode) (*corev1.PersistentVolumeClaim, error) {
	quantity, err := resource.ParseQuantity(size)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", size, err)
	}
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: childMeta(site, site.Name+"-"+suffix),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity}},
		},
	}
	if class != "" {
		pvc.Spec.StorageClassName = &class
	}
	return pvc, nil
}

func service(site *v1alpha1.DrupalSite, selector map[string]string) *corev1.Service {
	if selector == nil {
		selector = siteLabels(site)
	}
	return &corev1.Service{
		ObjectMeta: childMeta(site, site.Name),
		Spec: corev1.ServiceSpec{
			Selector: selector,
			Ports: []corev1.ServicePort{{
				Name: httpPort, Protocol: corev1.ProtocolTCP, Port: site.Spec.Service.Port,
				// By number: the container of an adopted Deployment need not name its port.
				TargetPort: intstr.FromInt32(site.Spec.Service.TargetPort),
			}},
		},
	}
}

// deployment is the site's Deployment at a release, as it is created; afterwards it is its admins'.
func deployment(site *v1alpha1.DrupalSite, release string) *appsv1.Deployment {
	meta := childMeta(site, site.WorkloadName())
	return &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas:                ptr.To[int32](1),
			RevisionHistoryLimit:    ptr.To[int32](3),
			ProgressDeadlineSeconds: ptr.To(progressSeconds(site)),
			Selector:                &metav1.LabelSelector{MatchLabels: siteLabels(site)},
			Strategy:                strategy(site),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: meta.Labels,
					Annotations: map[string]string{
						v1alpha1.AnnotationRelease: release,
						// Says where logs and exec go by default; only for people, drupdate names the container itself.
						"kubectl.kubernetes.io/default-container": site.Spec.Runtime.Container,
					},
				},
				Spec: podSpec(site, release),
			},
		},
	}
}

// strategy replaces pods one after the other where the files volume can be mounted on one node only: a new pod on
// another node would wait for the old one, and the old one for the new.
func strategy(site *v1alpha1.DrupalSite) appsv1.DeploymentStrategy {
	if files := site.Spec.Files; files != nil && files.AccessMode != string(corev1.ReadWriteMany) {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			MaxSurge:       ptr.To(intstr.FromInt32(1)),
		},
	}
}

func progressSeconds(site *v1alpha1.DrupalSite) int32 {
	timeout := site.Spec.Update.RolloutTimeout.Duration
	if timeout <= 0 {
		timeout = defaultProgress
	}
	return int32((timeout + time.Second - 1) / time.Second)
}

func podSpec(site *v1alpha1.DrupalSite, release string) corev1.PodSpec {
	container := corev1.Container{
		Name:           site.Spec.Runtime.Container,
		Image:          site.ImageFor(release),
		Ports:          []corev1.ContainerPort{{Name: httpPort, ContainerPort: site.Spec.Service.TargetPort, Protocol: corev1.ProtocolTCP}},
		EnvFrom:        environment(site),
		ReadinessProbe: readinessProbe(site),
		// What a crash said last is then part of the pod's status, and so of the condition of a failed rollout.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
		},
	}
	pod := corev1.PodSpec{
		AutomountServiceAccountToken:  ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](30),
		// runAsNonRoot is not set: the official Drupal image starts its web server as root.
		SecurityContext: &corev1.PodSecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if files := site.Spec.Files; files != nil {
		container.VolumeMounts = []corev1.VolumeMount{{Name: filesVolume, MountPath: files.Path}}
		pod.Volumes = []corev1.Volume{{Name: filesVolume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: filesName(site)},
		}}}
	}
	pod.Containers = []corev1.Container{container}
	return pod
}

// environment lets the Secret win over the ConfigMap, since of two sources the later one does.
func environment(site *v1alpha1.DrupalSite) []corev1.EnvFromSource {
	sources := []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configName(site)},
	}}}
	if db := site.Spec.Database; db != nil {
		sources = append(sources, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: db.SecretName},
		}})
	}
	return sources
}

// readinessProbe asks under the site's own host name where it is known: Drupal refuses others if trusted_host_patterns is set.
func readinessProbe(site *v1alpha1.DrupalSite) *corev1.Probe {
	get := &corev1.HTTPGetAction{Path: probePath, Port: intstr.FromString(httpPort)}
	if uri, err := url.Parse(site.Spec.Runtime.URI); err == nil && uri.Host != "" {
		get.HTTPHeaders = []corev1.HTTPHeader{{Name: "Host", Value: uri.Host}}
	}
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: get},
		PeriodSeconds: 2,
		// The first page after a cache rebuild takes Drupal seconds.
		TimeoutSeconds:   5,
		FailureThreshold: 3,
	}
}
