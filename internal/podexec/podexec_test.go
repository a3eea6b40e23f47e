package podexec

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/drupdate/drupdate/internal/drush"
)

// shells are the shells that the wrapper must work in; those not installed are left out.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{"sh": {"sh"}}
	if _, err := exec.LookPath("dash"); err == nil {
		found["dash"] = []string{"dash"}
	}
	if _, err := exec.LookPath("busybox"); err == nil {
		found["busybox"] = []string{"busybox", "sh"}
	}
	return found
}

// inShell is an executor whose far side is a local shell.
func inShell(shell []string) *Executor {
	return &Executor{stream: func(ctx context.Context, _ Request, argv []string, o remotecommand.StreamOptions) error {
		argv = append(append([]string{}, shell...), argv[1:]...)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = o.Stdout, o.Stderr
		cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
		return cmd.Run()
	}}
}

func TestWrapperInRealShells(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name           string
		argv           []string
		exit           int
		stdout, stderr string
	}{
		{"success without output", []string{"true"}, 0, "", ""},
		{"an exit code", []string{"sh", "-c", "exit 3"}, 3, "", ""},
		{"both streams", []string{"sh", "-c", "echo out; echo err >&2; exit 1"}, 1, "out\n", "err\n"},
		{"no newline at the end", []string{"printf", "a"}, 0, "a", ""},
		{"many newlines at the end", []string{"printf", `a\n\n\n`}, 0, "a\n\n\n", ""},
		{"zero bytes and bytes that are no text", []string{"printf", `\000a\377\000`}, 0, "\x00a\xff\x00", ""},
		{"arguments are never shell text", []string{"printf", "%s|", "$(id)", "`id`", "a b", "'", `"`, "", "-n", "*", "\n"}, 0, "$(id)|`id`|a b|'|\"||-n|*|\n|", ""},
		{"stdin is empty", []string{"cat"}, 0, "", ""},
		{"the environment", []string{"sh", "-c", `echo "$COLUMNS $LC_ALL $HOME"`}, 0, "1000 C.UTF-8 /tmp\n", ""},
		{"no descriptor leaks", []string{"sh", "-c", `for f in 3 4 5 6; do [ ! -e /proc/self/fd/$f ] || echo "$f"; done`}, 0, "", ""},
		{"killed by a signal", []string{"sh", "-c", "kill -9 $$"}, 137, "", "*"},
		{"no such program", []string{"no-such-program-here"}, 127, "", "*"},
	}
	for name, shell := range shells(t) {
		for _, c := range cases {
			t.Run(name+" "+c.name, func(t *testing.T) {
				t.Parallel()
				got, err := inShell(shell).Run(t.Context(), Request{Argv: c.argv})
				require.NoError(t, err)
				if c.stderr == "*" {
					c.stderr = got.Stderr
				}
				require.Equal(t, drush.Result{ExitCode: c.exit, Stdout: c.stdout, Stderr: c.stderr, Complete: true}, got)
			})
		}
	}
}

func TestLongOutputIsCountedWholeAndKeptInPart(t *testing.T) {
	t.Parallel()
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := `head -c 10485760 /dev/zero | tr '\0' x; echo; echo last; echo first >&2; head -c 3000000 /dev/urandom >&2`
			got, err := inShell(shell).Run(t.Context(), Request{Argv: []string{"sh", "-c", script}, MaxBytes: 64 << 10})
			require.NoError(t, err)
			require.True(t, got.Complete, got.Note)
			require.Less(t, len(got.Stdout), 70<<10)
			require.True(t, strings.HasPrefix(got.Stdout, "xxx"))
			require.True(t, strings.HasSuffix(got.Stdout, "x\nlast\n"))
			require.Contains(t, got.Stdout, "bytes left out]")
			require.True(t, strings.HasPrefix(got.Stderr, "first\n"))
		})
	}
}

// framed is what the wrapper writes for one command.
func framed(t *testing.T, nonce string) (stdout, stderr []byte) {
	t.Helper()
	argv := wrap(nonce, []string{"sh", "-c", "echo out; printf err >&2; exit 4"})
	cmd := exec.Command(argv[0], argv[1:]...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	require.NoError(t, cmd.Run())
	return o.Bytes(), e.Bytes()
}

func judged(t *testing.T, nonce string, o, e []byte) (drush.Result, bool) {
	t.Helper()
	stdout, stderr := newCapture(1<<20), newCapture(1<<20)
	_, err := stdout.Write(o)
	require.NoError(t, err)
	_, err = stderr.Write(e)
	require.NoError(t, err)
	return judge(nonce, stdout, stderr)
}

func TestAStreamCutAnywhereIsNeverComplete(t *testing.T) {
	t.Parallel()
	o, e := framed(t, "n0nce")
	got, _ := judged(t, "n0nce", o, e)
	require.Equal(t, drush.Result{ExitCode: 4, Stdout: "out\n", Stderr: "err", Complete: true}, got)
	for i := range o {
		got, started := judged(t, "n0nce", o[:i], e)
		require.False(t, got.Complete, "stdout cut at %d", i)
		require.True(t, started)
		got, _ = judged(t, "n0nce", append(bytes.Clone(o[:i]), o[i+1:]...), e)
		require.False(t, got.Complete, "byte %d of stdout lost", i)
	}
	for i := range e {
		got, _ := judged(t, "n0nce", o, e[:i])
		require.False(t, got.Complete, "stderr cut at %d", i)
		got, _ = judged(t, "n0nce", o, append(bytes.Clone(e[:i]), e[i+1:]...))
		require.False(t, got.Complete, "byte %d of stderr lost", i)
	}
	got, started := judged(t, "other", o, e)
	require.False(t, got.Complete)
	require.False(t, started)
}

func session(f func(ctx context.Context, nonce string, o remotecommand.StreamOptions) error) *Executor {
	return &Executor{stream: func(ctx context.Context, _ Request, argv []string, o remotecommand.StreamOptions) error {
		return f(ctx, argv[4], o)
	}}
}

func say(o remotecommand.StreamOptions, stdout, stderr string) {
	_, _ = o.Stdout.Write([]byte(stdout)) // a capture takes everything
	_, _ = o.Stderr.Write([]byte(stderr))
}

func TestRunNeverBelievesTheClientLibrary(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset by peer")
	cases := []struct {
		name    string
		session func(ctx context.Context, nonce string, o remotecommand.StreamOptions) error
		want    drush.Result
		is      error
	}{
		{
			"nil without any frame is unknown",
			func(context.Context, string, remotecommand.StreamOptions) error { return nil },
			drush.Result{Note: "no sign that the command started"},
			nil,
		},
		{
			"nil without the end frame is unknown",
			func(_ context.Context, n string, o remotecommand.StreamOptions) error {
				say(o, n+" start\n[]", n+" start\n")
				return nil
			},
			drush.Result{Stdout: "[]", Note: "the output was cut off"},
			nil,
		},
		{
			"an error after the end frames does not matter",
			func(_ context.Context, n string, o remotecommand.StreamOptions) error {
				say(o, n+" start\nab\n"+n+" end 0 2 0\n", n+" start\n\n"+n+" end 0 2 0\n")
				return reset
			},
			drush.Result{Stdout: "ab", Complete: true},
			nil,
		},
		{
			"an error after the start is unknown",
			func(_ context.Context, n string, o remotecommand.StreamOptions) error {
				say(o, n+" start\n", "")
				return reset
			},
			drush.Result{Note: "the output was cut off: connection reset by peer"},
			nil,
		},
		{
			"an error before the start may be tried again",
			func(context.Context, string, remotecommand.StreamOptions) error {
				return errors.New("error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused")
			},
			drush.Result{Note: "no sign that the command started"},
			ErrNotStarted,
		},
		{
			"a container without a shell is told apart",
			func(context.Context, string, remotecommand.StreamOptions) error {
				return errors.New(`OCI runtime exec failed: exec failed: unable to start container process: exec: "sh": executable file not found in $PATH: unknown`)
			},
			drush.Result{Note: "no sign that the command started"},
			ErrNoShell,
		},
		{
			"a count that does not match",
			func(_ context.Context, n string, o remotecommand.StreamOptions) error {
				say(o, n+" start\nab\n"+n+" end 0 3 0\n", n+" start\n\n"+n+" end 0 3 0\n")
				return nil
			},
			drush.Result{Stdout: "ab", Note: "bytes of the output are missing"},
			nil,
		},
		{
			"frames that contradict each other",
			func(_ context.Context, n string, o remotecommand.StreamOptions) error {
				say(o, n+" start\n\n"+n+" end 0 0 0\n", n+" start\n\n"+n+" end 1 0 0\n")
				return nil
			},
			drush.Result{Note: "bytes of the output are missing"},
			nil,
		},
		{
			"a frame without numbers",
			func(_ context.Context, n string, o remotecommand.StreamOptions) error {
				say(o, n+" start\n\n"+n+" end  0 0\n", n+" start\n\n"+n+" end  0 0\n")
				return nil
			},
			drush.Result{Stdout: "*", Stderr: "*", Note: "the output was cut off"},
			nil,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := session(c.session).Run(t.Context(), Request{Argv: []string{"drush"}})
			require.ErrorIs(t, err, c.is)
			if c.is == nil {
				require.NoError(t, err)
			}
			if c.want.Stdout == "*" {
				c.want.Stdout, c.want.Stderr = got.Stdout, got.Stderr
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestTheDeadlineHoldsEvenWhenTheLibraryHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	hang := session(func(_ context.Context, n string, o remotecommand.StreamOptions) error {
		<-release
		say(o, n, n)
		return nil
	})
	_, err := hang.Run(t.Context(), Request{Argv: []string{"x"}, Timeout: 20 * time.Millisecond})
	require.ErrorIs(t, err, ErrNotStarted)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	started := session(func(_ context.Context, n string, o remotecommand.StreamOptions) error {
		say(o, n+" start\n", "")
		<-release
		return nil
	})
	got, err := started.Run(t.Context(), Request{Argv: []string{"x"}, Timeout: 20 * time.Millisecond})
	require.NoError(t, err)
	require.False(t, got.Complete)
	require.Contains(t, got.Note, "no answer within 20ms")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = started.Run(ctx, Request{Argv: []string{"x"}})
	require.ErrorIs(t, err, context.Canceled)
}

func TestFramesThatArriveBeforeAHangAreEnough(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	e := session(func(_ context.Context, n string, o remotecommand.StreamOptions) error {
		say(o, n+" start\n1\n\n"+n+" end 0 2 0\n", n+" start\n\n"+n+" end 0 2 0\n")
		<-release
		return nil
	})
	got, err := e.Run(t.Context(), Request{Argv: []string{"x"}, Timeout: 20 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, drush.Result{Stdout: "1\n", Complete: true}, got)
}

func TestTheAddressAsksForNoStdinAndNoTerminal(t *testing.T) {
	t.Parallel()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://example.invalid"})
	require.NoError(t, err)
	got := execURL(client, Request{Namespace: "ns", Pod: "p", Container: "drupal"}, []string{"sh", "-c", "x y"})
	require.Equal(t, "/api/v1/namespaces/ns/pods/p/exec", got.Path)
	require.Equal(t, "command=sh&command=-c&command=x+y&container=drupal&stderr=true&stdout=true", got.RawQuery)
}

func TestNoServerIsNotStarted(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = New(config, client).Run(t.Context(), Request{Namespace: "ns", Pod: "p", Container: "c", Argv: []string{"x"}, Timeout: 5 * time.Second})
	require.ErrorIs(t, err, ErrNotStarted)
	_, err = New(config, client).Run(t.Context(), Request{Namespace: "ns", Pod: "p", Container: "c"})
	require.Error(t, err)
}

func TestCaptureKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	for size := range 40 {
		for _, chunk := range []int{1, 3, 100} {
			c := &capture{limit: 8}
			var all []byte
			for i := range size {
				all = append(all, byte('a'+i%26))
			}
			for rest := all; len(rest) > 0; {
				n := min(chunk, len(rest))
				wrote, err := c.Write(rest[:n])
				require.NoError(t, err)
				require.Equal(t, n, wrote)
				rest = rest[n:]
			}
			got := c.snapshot()
			want := snapshot{data: all, total: int64(size), gap: -1}
			if size > 16 {
				want = snapshot{data: append(bytes.Clone(all[:8]), all[size-8:]...), total: int64(size), gap: 8}
			}
			require.Equal(t, want, got)
		}
	}
}
