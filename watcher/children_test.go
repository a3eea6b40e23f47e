package watcher

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

var rewrite = flag.Bool("update", false, "rewrite golden files")

func TestChildrenAreTheGoldenOnes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		site     siteEdit
		selector map[string]string
	}{
		{"minimal", func(s *v1alpha1.DrupalSite) {
			s.Spec.Database = nil
			s.Spec.Update.Backup.Policy = v1alpha1.BackupNever
			s.Spec.Update.OnDatabaseFailure = v1alpha1.FreezeSite
		}, nil},
		{"full", func(s *v1alpha1.DrupalSite) {
			s.Spec.Release = digest
			s.Spec.Runtime.URI, s.Spec.Runtime.Root = "https://shop.example:8443/de", "/opt/drupal/web"
			s.Spec.Files = &v1alpha1.FilesSpec{Size: "5Gi", StorageClassName: "fast", AccessMode: "ReadWriteOnce", Path: "/opt/drupal/web/sites/default/files"}
			s.Spec.Update.Backup.StorageClassName = "slow"
			s.Spec.Update.RolloutTimeout = metav1.Duration{Duration: 90*time.Second + time.Millisecond}
		}, nil},
		{"shared-files", func(s *v1alpha1.DrupalSite) {
			s.Spec.Files = &v1alpha1.FilesSpec{Size: "5Gi", AccessMode: "ReadWriteMany", Path: "/srv/files"}
		}, nil},
		{"named-workload", func(s *v1alpha1.DrupalSite) { s.Spec.Workload.Name = "web" }, map[string]string{"app": "web"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site := newSite(c.site)
			objects, err := children(site, c.selector)
			require.NoError(t, err)
			var out bytes.Buffer
			for _, obj := range append(objects, deployment(site, ensured(site))) {
				gvk, err := apiutil.GVKForObject(obj, Scheme())
				require.NoError(t, err)
				obj.GetObjectKind().SetGroupVersionKind(gvk)
				text, err := yaml.Marshal(obj)
				require.NoError(t, err)
				out.WriteString("---\n")
				out.Write(text)
			}
			golden(t, c.name, out.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden.yaml")
	if *rewrite {
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestAnInvalidSizeNamesItsField(t *testing.T) {
	t.Parallel()
	_, err := children(newSite(func(s *v1alpha1.DrupalSite) { s.Spec.Files = &v1alpha1.FilesSpec{Size: "5 Gi"} }), nil)
	require.ErrorContains(t, err, `spec.files.size: "5 Gi"`)
	_, err = children(newSite(func(s *v1alpha1.DrupalSite) { s.Spec.Update.Backup.Size = "" }), nil)
	require.ErrorContains(t, err, `spec.update.backup.size: ""`)
}

func TestAReadWriteOnceVolumeIsNeverSurged(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"": "Recreate", string(corev1.ReadWriteOnce): "Recreate", string(corev1.ReadWriteMany): "RollingUpdate"} {
		site := newSite(func(s *v1alpha1.DrupalSite) {
			s.Spec.Files = &v1alpha1.FilesSpec{Size: "1Gi", AccessMode: mode, Path: "/f"}
		})
		require.Equal(t, want, string(deployment(site, "1").Spec.Strategy.Type), mode)
	}
}
