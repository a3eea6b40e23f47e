//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// testPorts is where the ports of the tested stack begin, apart from those of
// a stack that someone works with.
const testPorts = "27440"

// fakeSimsite stands for the simulated sites: one release that works, one that
// crashes, and a drush that says what it was asked.
const fakeSimsite = `#!/bin/sh
case "$(basename "$0")" in
drush) echo "drush $SIMSITE_RELEASE $*"; exit 0 ;;
esac
case "$1" in
releases) printf '10.3.1\tok\n10.3.2\tok\n10.9.0\tcrashloop\n' ;;
names) printf 'simsite\ndrush\n' ;;
web) [ "$SIMSITE_RELEASE" = 10.9.0 ] && { echo broken >&2; exit 1; }
	trap 'exit 0' TERM; echo "serving $SIMSITE_RELEASE"; while :; do sleep 0.1; done ;;
esac
`

// state is the folder of the tested stack, and program the command under test.
var state, program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run brings a stack up for all tests, with the programs of LOCALSTACK_STATE.
func run(m *testing.M) int {
	given := os.Getenv("LOCALSTACK_STATE")
	if given == "" {
		println("set LOCALSTACK_STATE to a state folder whose bin folder has the built programs")
		return 1
	}
	var err error
	if state, err = os.MkdirTemp("", "localstack-"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(state) }()
	program = filepath.Join(state, "localstack")
	if err := errors.Join(
		os.MkdirAll(filepath.Join(state, "bin"), 0o755),
		shell("go", "build", "-o", state+"/", "../cmd/localstack", "../cmd/container-init"),
		shell("sh", "-c", "cp "+given+"/bin/kubebox* "+given+"/bin/temporal-dev* "+state+"/bin/"),
		os.WriteFile(filepath.Join(state, "bin", "simsite"), []byte(fakeSimsite), 0o755),
	); err != nil {
		panic(err)
	}
	if out, err := localstack("up", "--ignore-env", "--ports", testPorts); err != nil {
		println(out)
		return 1
	}
	code := m.Run()
	if out, err := localstack("down"); err != nil {
		println(out)
		return 1
	}
	if left := processes(); left != "" {
		println("processes left behind by down:", left)
		return 1
	}
	return code
}

// processes lists what still runs from, or in, the state folder.
func processes() string {
	out, _ := exec.Command("pgrep", "-af", state).Output() // it exits with 1 when there is none.
	return string(out)
}

func shell(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

func localstack(args ...string) (string, error) {
	out, err := exec.Command(program, append(args, "--state", state)...).CombinedOutput()
	return string(out), err
}

// kubectl runs kubectl and returns its two streams and its exit code.
func kubectl(ctx context.Context, stdin string, args ...string) (stdout, stderr string, code int) {
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(state, "bin", "kubectl"), append([]string{"--kubeconfig", filepath.Join(state, "kubeconfig")}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	_ = cmd.Run() // the exit code says it.
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// must runs kubectl and fails the test when it fails.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, errOut, code := kubectl(t.Context(), stdin, args...)
	if code != 0 {
		t.Fatalf("kubectl %q: exit code %d: %s", args, code, errOut)
	}
	return out
}

// namespace makes a namespace for one test.
func namespace(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(t.Name())
	must(t, "", "create", "namespace", name)
	for range 100 { // the service account follows in a moment.
		if _, _, code := kubectl(t.Context(), "", "-n", name, "get", "serviceaccount", "default"); code == 0 {
			break
		}
	}
	t.Cleanup(func() { kubectl(context.WithoutCancel(t.Context()), "", "delete", "namespace", name, "--wait=false") })
	return name
}

// eventually polls a jsonpath of an object until all of it matches a pattern.
func eventually(t *testing.T, ns, object, path, want string) {
	t.Helper()
	pattern, got := regexp.MustCompile("^(?s:"+want+")$"), ""
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); <-tick.C {
		if got, _, _ = kubectl(t.Context(), "", "-n", ns, "get", object, "-o", "jsonpath="+path); pattern.MatchString(got) {
			return
		}
	}
	t.Fatalf("%s %s is %q, want %q", object, path, got, want)
}
