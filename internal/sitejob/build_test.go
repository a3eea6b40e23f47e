package sitejob

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/internal/drush"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func to[T any](v T) *T { return &v }

// plainParams is a site as the watcher makes it.
func plainParams() Params {
	labels := map[string]string{"app.kubernetes.io/name": "drupal", "drupdate.dev/site": "shop"}
	return Params{
		Name: Name("shop", "run-1", "update"), Site: "shop", RunID: "run-1", Operation: Update,
		Deployment: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "sites"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						Containers: []corev1.Container{{
							Name: "drupal", Image: "registry.example/drupal:10.3.5",
							Ports:          []corev1.ContainerPort{{ContainerPort: 80}},
							ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/"}}},
							EnvFrom:        []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "shop-db"}}}},
							VolumeMounts:   []corev1.VolumeMount{{Name: "files", MountPath: "/app/web/sites/default/files"}},
						}},
						Volumes: []corev1.Volume{claim("files", "shop-files")},
					},
				},
			},
		},
		Container: "drupal", Image: "registry.example/drupal:10.3.6",
		Drush:       drush.Command{Prefix: []string{"vendor/bin/drush"}, URI: "https://shop.example"},
		BackupClaim: "shop-backups", BackupPath: "/var/lib/drupdate/backups", BackupName: "shop-10.3.6-abc",
		Owner: metav1.OwnerReference{APIVersion: "drupdate.dev/v1alpha1", Kind: "DrupalSite", Name: "shop", UID: "u-1"},
	}
}

func claim(volume, name string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}
}

// fullParams is a Deployment that an admin has changed in every way that matters.
func fullParams() Params {
	p := plainParams()
	p.Operation, p.Name, p.RunID = Restore, Name("shop", "run-2", "restore"), "run-2"
	p.BackupPolicy, p.Keep, p.Timeout, p.TTL, p.Force = BackupNever, 7, 90*time.Second, time.Hour, true
	p.Drush = drush.Command{Prefix: []string{"php", "-d", "memory_limit=-1", "vendor/bin/drush.php"}, URI: "https://a/$(id)", Root: "/app/web"}
	p.ReadWriteOnceClaims = []string{"shop-files", "unused"}
	spec := &p.Deployment.Spec.Template.Spec
	p.Deployment.Spec.Template.Annotations = map[string]string{"sidecar.istio.io/inject": "true"}
	spec.InitContainers = []corev1.Container{
		{Name: "permissions", Image: "busybox:1.36", VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}},
		{Name: "code", Image: "registry.example/drupal:10.3.5"},
		{Name: "mesh", Image: "mesh", RestartPolicy: to(corev1.ContainerRestartPolicyAlways)},
	}
	site := &spec.Containers[0]
	site.Env = []corev1.EnvVar{{Name: "DB_HOST", Value: "db"}, {Name: "DRUPDATE_OPERATION", Value: "install"}}
	site.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: to(true)}
	site.WorkingDir, site.ImagePullPolicy = "/app", corev1.PullIfNotPresent
	site.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}
	site.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep", "5"}}}}
	site.VolumeMounts = append(site.VolumeMounts, corev1.VolumeMount{Name: "stale", MountPath: p.BackupPath})
	spec.Containers = append([]corev1.Container{{Name: "proxy", Image: "proxy", VolumeMounts: []corev1.VolumeMount{{Name: "certs", MountPath: "/c"}}}}, spec.Containers...)
	spec.Volumes = append(spec.Volumes, claim("unused", "unused"), claim("stale", "stale"),
		corev1.Volume{Name: "certs"}, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	spec.ServiceAccountName, spec.AutomountServiceAccountToken = "shop", to(false)
	spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: to(int64(33)), FSGroup: to(int64(33))}
	spec.NodeSelector = map[string]string{"disk": "ssd"}
	spec.Tolerations = []corev1.Toleration{{Key: "web", Operator: corev1.TolerationOpExists}}
	spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"db"}}}
	spec.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"x"}}
	spec.RuntimeClassName, spec.PriorityClassName = to("gvisor"), "high"
	spec.ShareProcessNamespace = to(true)
	spread := []corev1.PodAffinityTerm{{LabelSelector: p.Deployment.Spec.Selector, TopologyKey: corev1.LabelHostname}}
	spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: spread},
		NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}},
		}}},
	}
	return p
}

func TestBuildGolden(t *testing.T) {
	t.Parallel()
	install := plainParams()
	install.Operation, install.Profile, install.Name = Install, "standard", Name("shop", "run-1", "install")
	preflight := fullParams()
	preflight.Operation, preflight.Name, preflight.BackupClaim = Preflight, Name("shop", "run-2", "preflight"), ""
	rewind := plainParams()
	rewind.Operation, rewind.Name, rewind.Source, rewind.Held, rewind.Scheduled = Rewind, Name("shop", "run-1", "rewind"), "shop-10.3.5-def", true, true
	cases := map[string]Params{"update": plainParams(), "restore": fullParams(), "install": install, "preflight": preflight, "rewind": rewind}
	for name, p := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := p.Deployment.DeepCopy()
			job, err := Build(p)
			require.NoError(t, err)
			require.Equal(t, before, p.Deployment, "the Deployment is only read")
			require.Equal(t, script, job.Spec.Template.Spec.Containers[0].Command[2])
			job.Spec.Template.Spec.Containers[0].Command[2] = "(script.sh)"
			got, err := yaml.Marshal(job)
			require.NoError(t, err)
			file := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				require.NoError(t, os.WriteFile(file, got, 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
			again, err := Build(p)
			require.NoError(t, err)
			again.Spec.Template.Spec.Containers[0].Command[2] = "(script.sh)"
			require.Equal(t, job, again)
		})
	}
}

func TestThePodIsNeverTakenForOneOfTheSite(t *testing.T) {
	t.Parallel()
	for _, p := range []Params{plainParams(), fullParams()} {
		job, err := Build(p)
		require.NoError(t, err)
		for key := range p.Deployment.Spec.Selector.MatchLabels {
			require.NotContains(t, job.Spec.Template.Labels, key)
		}
		require.Equal(t, "shop", job.Labels[LabelSite], "the Job itself can still be found by its site")
		require.Equal(t, "shop", job.Spec.Template.Annotations[LabelSite])
	}
	p := plainParams()
	p.Deployment.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	_, err := Build(p)
	require.ErrorIs(t, err, ErrInvalid)
}

func TestOnlyARelevantClaimTiesTheJobToANode(t *testing.T) {
	t.Parallel()
	p := plainParams()
	p.ReadWriteOnceClaims = []string{"other", "shop-backups"}
	job, err := Build(p)
	require.NoError(t, err)
	require.Nil(t, job.Spec.Template.Spec.Affinity)
	p.ReadWriteOnceClaims = []string{"shop-files"}
	job, err = Build(p)
	require.NoError(t, err)
	require.Equal(t, []corev1.PodAffinityTerm{{LabelSelector: p.Deployment.Spec.Selector, TopologyKey: "kubernetes.io/hostname"}},
		job.Spec.Template.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
}

// expand does what the kubelet does to a command: $$ becomes $, and $(NAME) the value of a variable. Here every name
// that a variable can have is one.
func expand(text string) string {
	return regexp.MustCompile(`\$\$|\$\([A-Za-z_][A-Za-z0-9_.-]*\)`).ReplaceAllStringFunc(text, func(m string) string {
		if m == "$$" {
			return "$"
		}
		return "POISON"
	})
}

func TestTheKubeletChangesNothingInTheCommand(t *testing.T) {
	t.Parallel()
	require.NotContains(t, strings.ReplaceAll(expand(script), script, ""), "#!/bin/sh", "the script holds what Kubernetes would replace")
	job, err := Build(fullParams())
	require.NoError(t, err)
	require.Equal(t, "--uri=https://a/$$(id)", job.Spec.Template.Spec.Containers[0].Command[8])
	require.Equal(t, "--uri=https://a/$(id)", expand(job.Spec.Template.Spec.Containers[0].Command[8]))
}

func TestBuildListsEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := Build(Params{})
	require.ErrorIs(t, err, ErrInvalid)
	require.EqualError(t, err, "invalid job parameters: name, site, operation, container, image, backup claim, backup path, backup name, deployment")
	for _, change := range []func(p *Params){
		func(p *Params) { p.BackupPath = "/a/../b" },
		func(p *Params) { p.BackupPath = "/a b" },
		func(p *Params) { p.BackupPath = "relative" },
		func(p *Params) { p.BackupName = "../x" },
		func(p *Params) { p.BackupName = "-x" },
		func(p *Params) { p.Profile = "-y" },
		func(p *Params) { p.BackupPolicy = "Sometimes" },
		func(p *Params) { p.Container = "nosuch" },
		func(p *Params) { p.Operation = "format" },
		func(p *Params) { p.Name = strings.Repeat("a", 64) },
	} {
		p := plainParams()
		change(&p)
		_, err := Build(p)
		require.ErrorIs(t, err, ErrInvalid)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, site := range []string{"shop", "a.b.c", strings.Repeat("long-", 50), "9lives", "Shop", "", "-", "ü"} {
		for _, run := range []string{"run-1", "run-2", ""} {
			for _, step := range []string{"update", "restore", strings.Repeat("s", 80)} {
				name := Name(site, run, step)
				require.Empty(t, validation.IsDNS1123Label(name), name)
				require.False(t, seen[name], name)
				require.Equal(t, name, Name(site, run, step))
				seen[name] = true
				require.Empty(t, validation.IsValidLabelValue(labelValue(site)), labelValue(site))
			}
		}
	}
	require.Regexp(t, `^shop-update-[0-9a-f]{10}$`, Name("shop", "r", "update"))
	require.Equal(t, "shop", labelValue("shop"))
	require.NotEqual(t, labelValue(strings.Repeat("a", 64)+"b"), labelValue(strings.Repeat("a", 64)+"c"))
}
