package stack

import (
	"io"
	"path/filepath"
	"testing"
)

func TestTheProgramOfTheSitesIsFoundFromEverywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.configure(t.Context(), UpOptions{Simsite: "bin/simsite", IgnoreEnv: true, Out: io.Discard}); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.Abs("bin/simsite")
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Config().Simsite; got != want {
		t.Fatalf("it is recorded as %q, want %q", got, want)
	}
}
