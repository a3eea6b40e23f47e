package drush

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// seed gives a fuzz test every recorded answer, whole and cut off.
func seed(f *testing.F) {
	f.Helper()
	for _, t := range transcripts(f) {
		f.Add(t.Stdout, t.Stderr, t.Exit, true)
		f.Add(t.Stdout, t.Stderr, t.Exit, false)
	}
	f.Add("[]", "", 0, true)
	f.Add("x\n{}", "", 0, true)
	f.Add(`{"e":{"module":"node","type":"entity-update"}}`, "", 0, true)
	f.Add(`[{"module":"a","update_id":"8001"}]`, none, 0, true)
}

func FuzzParseUpdateStatus(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, stdout, stderr string, exit int, complete bool) {
		r := Result{Stdout: stdout, Stderr: stderr, ExitCode: exit, Complete: complete}
		got := ParseUpdateStatus(r)
		if got.Verdict != UpdatesUnknown && (!complete || exit != 0) {
			t.Fatalf("a verdict without a complete answer: %+v", got)
		}
		if (got.Verdict == UpdatesPending) != (len(got.Pending) > 0) {
			t.Fatalf("verdict and list differ: %+v", got)
		}
		if got.Verdict == UpdatesNone && !provesNone(withoutPollution(stdout), stderr, got.Blocked) {
			t.Fatalf("none without proof: %+v", got)
		}
		for _, u := range got.Pending {
			if u.Module == "" || u.ID == "" || !strings.Contains(stdout, jsonText(u.Module)) && utf8.ValidString(stdout) && !strings.Contains(stdout, `\`) {
				t.Fatalf("an update that nobody listed: %+v", u)
			}
		}
		if again := ParseUpdateStatus(r); !slices.Equal(again.Pending, got.Pending) || again.Verdict != got.Verdict {
			t.Fatalf("two answers to one question: %+v and %+v", got, again)
		}
		message(t, got.Reason)
	})
}

// provesNone says it a second way: the words, an empty value, or one JSON value in which every row is of the kind that
// updatedb never applies.
func provesNone(stdout, stderr string, blocked []Update) bool {
	switch text := strings.TrimSpace(stdout); text {
	case "":
		return saysNonePending(stderr)
	case "[]", "{}", "null":
		return true
	default:
		return json.Valid([]byte(text)) && len(blocked) > 0 &&
			!slices.ContainsFunc(blocked, func(u Update) bool { return u.Type != entityUpdate })
	}
}

func jsonText(s string) string {
	raw, _ := json.Marshal(s) // A string is always encoded.
	return strings.Trim(string(raw), `"`)
}

func FuzzParseInstallTask(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, stdout, stderr string, exit int, complete bool) {
		r := Result{Stdout: stdout, Stderr: stderr, ExitCode: exit, Complete: complete}
		task, reason := ParseInstallTask(r)
		if !complete && task != TaskUnknown {
			t.Fatalf("an answer out of an incomplete result: %v", task)
		}
		if task == TaskDone && (exit != 0 || (!strings.Contains(stdout, `s:4:"done";`) && !strings.Contains(stdout, `\x`))) {
			t.Fatalf("done without the record: %v", task)
		}
		message(t, reason)
		n, known := ParseTableCount(r)
		if known && (!complete || exit != 0 || n < 0) {
			t.Fatalf("a number out of a failed question: %d", n)
		}
		bootstrap := ParseBootstrap(r)
		if bootstrap.Healthy && (!complete || exit != 0 || !strings.Contains(stdout, "{")) {
			t.Fatalf("healthy without proof")
		}
		switch got := Classify(bootstrap, task, Tables{n, known}); {
		case got != InstallationUnknown && !complete:
			t.Fatalf("classified without an answer: %v", got)
		case got == Empty && (n != 0 || !known):
			t.Fatal("empty without a count of no tables")
		}
	})
}

// FuzzAnswers feeds the short answers: a flag, a driver, a field, a cache rebuild.
func FuzzAnswers(f *testing.F) {
	seed(f)
	f.Add("1\n", "", 0, true)
	f.Add("mysql\n", "", 0, true)
	f.Add("", " [success] Cache rebuild complete.", 0, true)
	f.Fuzz(func(t *testing.T, stdout, stderr string, exit int, complete bool) {
		r := Result{Stdout: stdout, Stderr: stderr, ExitCode: exit, Complete: complete}
		proof := complete && exit == 0
		if on, known := ParseMaintenance(r); (known && !proof) || (on && !strings.Contains(stdout, "1")) || (known && !on && !strings.Contains(stdout, "0")) {
			t.Fatalf("a flag out of nothing: %v %v", on, known)
		}
		if driver, known := ParseDriver(r); known && (!proof || !strings.Contains(stdout, string(driver))) || !known && driver != "" {
			t.Fatalf("a driver out of nothing: %q", driver)
		}
		if field, known := ParseField(r); known && (!proof || field == "" || strings.Contains(field, "\n")) {
			t.Fatalf("a field out of nothing: %q", field)
		}
		outcome, why := ParseCacheRebuild(r)
		switch {
		case outcome == Succeeded && (!proof || !strings.Contains(stderr+stdout, "Cache rebuild complete")):
			t.Fatal("rebuilt without the words")
		case outcome == Failed && (!complete || exit == 0):
			t.Fatal("failed without an exit code")
		case (outcome == Succeeded) != (why == ""):
			t.Fatalf("%v: %q", outcome, why)
		}
		message(t, why)
	})
}

func FuzzText(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, stdout, stderr string, _ int, _ bool) {
		message(t, FirstError(stderr))
		message(t, LastLine(stdout))
		if got := Excerpt(stdout); len(got) > MaxExcerpt || utf8.ValidString(stdout) && !utf8.ValidString(got) {
			t.Fatalf("excerpt of %d bytes", len(got))
		}
		if got := Unwrap(stderr); len(got) > len(stderr)+1 {
			t.Fatalf("unwrapped %d bytes to %d", len(stderr), len(got))
		}
		if secret := "s3cr3t"; strings.Contains(Redact(stdout+secret+stderr, secret), secret) {
			t.Fatal("a secret is left")
		}
		for _, shape := range []string{"mysql://u:Pa55w0rd@h", "PGPASSWORD=Pa55w0rd ", `"db-password": "Pa55w0rd"`} {
			if strings.Contains(stdout, "Pa55w0rd") {
				return
			}
			if got := Redact(shape + "\n" + stdout); strings.Contains(got, "Pa55w0rd") {
				t.Fatalf("a secret of known shape is left: %q", got)
			}
		}
	})
}

// message holds for every text that reaches a condition: one bounded line of clean text.
func message(t *testing.T, s string) {
	t.Helper()
	if len(s) > MaxMessage+64 || strings.ContainsAny(s, "\n\r\x00") || !utf8.ValidString(s) {
		t.Fatalf("not a message: %q", s)
	}
}
