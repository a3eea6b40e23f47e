package stack

import (
	"io"
	"path/filepath"
	"testing"
)

func TestWhatIsRecordedIsFoundFromEverywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.configure(t.Context(), UpOptions{Simsite: "bin/simsite", IgnoreEnv: true, Out: io.Discard}); err != nil {
		t.Fatal(err)
	}
	s.config.Kubeconfig = "admin.conf"
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for given, got := range map[string]string{"bin/simsite": again.Config().Simsite, "admin.conf": again.Kubeconfig()} {
		want, err := filepath.Abs(given)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("it is recorded as %q, want %q", got, want)
		}
	}
}
