package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// fakeSimsite answers as the program of the simulated sites does.
const fakeSimsite = `#!/bin/sh
case "$1" in
releases) printf '10.3.1\tok\n10.9.0\tcrashloop\nsha256:` + someDigest + `\tok\n' ;;
names) printf 'simsite\ndrush\n' ;;
esac
`

const someDigest = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func testImages(t *testing.T) *images {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte(fakeSimsite), 0o755); err != nil {
		t.Fatal(err)
	}
	product := filepath.Join(dir, "drupdate")
	if err := os.WriteFile(product, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	return &images{program: program, folder: filepath.Join(dir, "links"), drupdate: product}
}

func TestFindImage(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, ref string
		release   string
		err       error
	}{
		{name: "a release by its tag", ref: "registry.example/drupal:10.3.1", release: "10.3.1"},
		{name: "a release that crashes is still an image", ref: "registry.example/drupal:10.9.0", release: "10.9.0"},
		{name: "a release by its digest", ref: "registry.example/drupal@sha256:" + someDigest, release: "sha256:" + someDigest},
		{name: "the digest wins over the tag", ref: "registry.example/drupal:1@sha256:" + someDigest, release: "sha256:" + someDigest},
		{name: "an unknown release", ref: "registry.example/drupal:99", err: errNoImage},
		{name: "no tag", ref: "registry.example/drupal", err: errNoImage},
		{name: "the host's tools", ref: "registry.example/busybox:1"},
		{name: "another tag of the host's tools", ref: "registry.example/busybox:2", err: errNoImage},
		{name: "drupdate itself, as the manifests name it", ref: "drupdate:dev"},
		{name: "another tag of drupdate", ref: "drupdate:1", err: errNoImage},
		{name: "an unknown repository", ref: "nginx:1", err: errNoImage},
		{name: "no reference at all", ref: "Not An Image", err: errImageName},
	}
	table := testImages(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			img, err := table.find(t.Context(), c.ref)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			if c.release != "" && img.env[1] != "SIMSITE_RELEASE="+c.release {
				t.Fatalf("environment %q, want release %q", img.env, c.release)
			}
			if img.simsite != (c.release != "") {
				t.Fatalf("simsite is %v", img.simsite)
			}
		})
	}
}

func TestImagesFollowTheProgram(t *testing.T) {
	t.Parallel()
	table := testImages(t)
	if _, err := table.find(t.Context(), "registry.example/drupal:11.0.0"); !errors.Is(err, errNoImage) {
		t.Fatalf("error %v, want %v", err, errNoImage)
	}
	if err := os.Remove(table.program); err != nil {
		t.Fatal(err)
	}
	newer := "#!/bin/sh\necho 11.0.0\n"
	if err := os.WriteFile(table.program, []byte(newer), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := table.find(t.Context(), "registry.example/drupal:11.0.0"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(table.folder, "simsite"))
	if err != nil || string(raw) != newer {
		t.Fatalf("installed %q, error %v", raw, err)
	}
}

func TestThePodsArgumentsFollowTheEntryPointOfTheImage(t *testing.T) {
	t.Parallel()
	table := testImages(t)
	img, err := table.find(t.Context(), "drupdate:dev")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		ctr  corev1.Container
		want []string
	}{
		{"arguments alone", corev1.Container{Args: []string{"worker"}}, []string{"/drupdate", "worker"}},
		{"a command of the pod's own", corev1.Container{Command: []string{"/bin/true"}, Args: []string{"x"}}, []string{"/bin/true", "x"}},
		{"neither", corev1.Container{}, []string{"/drupdate"}},
	} {
		if got := command(img, c.ctr); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAnImageWhoseProgramIsNotBuiltSaysHowToBuildIt(t *testing.T) {
	t.Parallel()
	table := testImages(t)
	table.drupdate = filepath.Join(t.TempDir(), "drupdate")
	_, err := table.find(t.Context(), "drupdate:dev")
	if !errors.Is(err, errNoImage) || !strings.Contains(err.Error(), "make build") {
		t.Fatalf("error %v", err)
	}
}
