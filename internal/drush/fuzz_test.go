package drush

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func seed(f *testing.F) {
	f.Helper()
	for _, t := range transcripts(f) {
		f.Add(t.Stdout, t.Stderr, t.Exit, true)
		f.Add(t.Stdout, t.Stderr, t.Exit, false)
	}
	f.Add("[]", "", 0, true)
	f.Add("x\n{}", "", 0, true)
}

func FuzzParseUpdateStatus(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, stdout, stderr string, exit int, complete bool) {
		r := Result{Stdout: stdout, Stderr: stderr, ExitCode: exit, Complete: complete}
		got := ParseUpdateStatus(r)
		if got.Verdict != UpdatesUnknown && (!complete || exit != 0) {
			t.Fatalf("a verdict without a complete answer: %+v", got)
		}
		text := strings.TrimSpace(withoutPollution(stdout))
		empty := text == "[]" || text == "{}" || text == "null"
		if got.Verdict == UpdatesNone && !empty && !saysNonePending(stderr) && len(got.Blocked) == 0 {
			t.Fatalf("none without a sign: %+v", got)
		}
		if got.Verdict == UpdatesNone && text == "" && !saysNonePending(stderr) {
			t.Fatalf("none out of nothing: %+v", got)
		}
		if (got.Verdict == UpdatesPending) != (len(got.Pending) > 0) {
			t.Fatalf("verdict and list differ: %+v", got)
		}
		message(t, got.Reason)
	})
}

func FuzzParseInstallTask(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, stdout, stderr string, exit int, complete bool) {
		r := Result{Stdout: stdout, Stderr: stderr, ExitCode: exit, Complete: complete}
		task, reason := ParseInstallTask(r)
		if !complete && task != TaskUnknown {
			t.Fatalf("an answer out of an incomplete result: %v", task)
		}
		if task == TaskDone && (exit != 0 || (!strings.Contains(stdout, "done") && !strings.Contains(stdout, `\x`))) {
			t.Fatalf("done without the record: %v", task)
		}
		message(t, reason)
		n, known := ParseTableCount(r)
		if known && (!complete || exit != 0 || n < 0) {
			t.Fatalf("a number out of a failed question: %d", n)
		}
		if b := ParseBootstrap(r); b.Healthy && (!complete || exit != 0 || !strings.Contains(stdout, "{")) {
			t.Fatalf("healthy without proof")
		}
		if got := Classify(ParseBootstrap(r), task, Tables{n, known}); got != InstallationUnknown && !complete {
			t.Fatalf("classified without an answer: %v", got)
		}
	})
}

func FuzzText(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, stdout, stderr string, _ int, _ bool) {
		message(t, FirstError(stderr))
		message(t, LastLine(stdout))
		if got := Excerpt(stdout); len(got) > MaxExcerpt {
			t.Fatalf("excerpt of %d bytes", len(got))
		}
		Unwrap(stderr)
		if secret := "s3cr3t"; strings.Contains(Redact(stdout+secret+stderr, secret), secret) {
			t.Fatal("a secret is left")
		}
	})
}

func message(t *testing.T, s string) {
	t.Helper()
	if len(s) > MaxMessage+64 || strings.ContainsAny(s, "\n\r\x00") || !utf8.ValidString(s) {
		t.Fatalf("not a message: %q", s)
	}
}
