package sitejob

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drupdate/drupdate/internal/drush"
)

func FuzzParseResult(f *testing.F) {
	for _, s := range []string{good, bad, midway, another, "", "null", `{"v":1,"v":2}`, good + bad, good[:60], `{"V":1,"OK":true,"STEP":"done"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		r, ok := ParseResult(message)
		if !ok {
			if r != (Result{}) {
				t.Fatalf("a result that is none: %+v", r)
			}
			return
		}
		if r.Version != 1 || r.Step == "" || r.Operation == "" {
			t.Fatalf("%+v", r)
		}
		for _, text := range []string{r.Error, r.Note} {
			if len(text) > drush.MaxMessage || strings.ContainsAny(text, "\n\r\t") || !utf8.ValidString(text) {
				t.Fatalf("not a message: %q", text)
			}
		}
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := ParseResult(string(raw)); !ok || again.OK != r.OK || again.Touched != r.Touched || again.Step != r.Step || again.Backup != r.Backup {
			t.Fatalf("read again it is another: %+v and %+v", r, again)
		}
	})
}

// FuzzVerdict: whatever a container leaves behind, an operation succeeded only if its script ended by itself in a last
// step, says so, and its container and its Job have ended; and a failed one is untouched only in the script's own words.
func FuzzVerdict(f *testing.F) {
	for _, s := range []string{good, bad, midway, another, "", "OOM", strings.Replace(good, "done", "backup", 1), strings.Replace(good, "update", "restore", 1)} {
		for ended := range uint8(4) {
			f.Add(s, int32(0), ended)
			f.Add(s, int32(137), ended)
		}
	}
	f.Fuzz(func(t *testing.T, message string, exit int32, how uint8) {
		j := job()
		j.Labels = map[string]string{LabelOperation: string(Update)}
		if how&1 != 0 {
			j.Status.Conditions = append(j.Status.Conditions, cond(batchv1.JobComplete, ""))
		}
		if how&2 != 0 {
			j.Status.Conditions = append(j.Status.Conditions, cond(batchv1.JobFailed, "DeadlineExceeded"))
		}
		state, r, text := Verdict(j, []corev1.Pod{jobPod("other", 9, ended(0, good)), jobPod("job", 1, ended(exit, message))})
		if !utf8.ValidString(text) || strings.Contains(text, "\n") || len(text) > 1024 {
			t.Fatalf("not a message: %q", text)
		}
		switch state {
		case Succeeded:
			if !r.OK || exit != 0 || how&3 == 0 || r.Operation != Update || !slices.Contains(wellDone, r.Step) {
				t.Fatalf("succeeded without proof: %+v", r)
			}
		case Failed:
			if r.OK || !r.Final() || how&3 == 0 || (!r.Touched && !strings.Contains(message, "false")) {
				t.Fatalf("failed without proof: %+v", r)
			}
		case Running:
			if how&3 != 0 {
				t.Fatal("an ended job runs")
			}
		case Unknown:
		}
	})
}

var (
	dnsLabel   = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	labelShape = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)
)

// FuzzNames: whatever a site, a run or a step is called, its Job and labels have names that the API server takes.
func FuzzNames(f *testing.F) {
	f.Add("shop", "0198a7f2-3c1d-7e55-9d1b-0a2b3c4d5e6f", "update")
	f.Add(strings.Repeat("a", 253), strings.Repeat("-", 70), strings.Repeat("Z", 90))
	f.Add("", "", "")
	f.Add("../x", "$(id)", "ü")
	f.Fuzz(func(t *testing.T, site, run, step string) {
		name := Name(site, run, step)
		if len(name) > maxName || !dnsLabel.MatchString(name) || label(name) != name {
			t.Fatalf("no name of a Job: %q", name)
		}
		if value := labelValue(site); len(value) > maxName || !labelShape.MatchString(value) {
			t.Fatalf("no value of a label: %q", value)
		}
		if Name(site, run+"x", step) == name || Name(site, run, step+"x") == name || Name(site+"x", run, step) == name {
			t.Fatal("two Jobs of one name")
		}
	})
}
