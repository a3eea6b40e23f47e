//go:build e2e && !fault

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// answer is what a command came to.
type answer struct {
	out, errs string
	code      int
}

// run runs a program beside the stack, with more variables.
func run(t *testing.T, env []string, program string, args ...string) answer {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(), env...)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		require.NoError(t, err)
	}
	return answer{out.String(), errs.String(), command.ProcessState.ExitCode()}
}

// drupdate runs a command of the binary in the site's namespace.
func (w *world) drupdate(args ...string) answer {
	w.Helper()
	return run(w.T, nil, filepath.Join(state, "bin", "drupdate"), append(args, "-n", w.ns)...)
}

// does is drupdate for a command that must succeed.
func (w *world) does(args ...string) string {
	w.Helper()
	a := w.drupdate(args...)
	require.Zero(w, a.code, "drupdate %v: %s%s", args, a.out, a.errs)
	return a.out
}

// asked reads what a command says as JSON.
func asked[T any](w *world, args ...string) T {
	w.Helper()
	var value T
	require.NoError(w, json.Unmarshal([]byte(w.does(append(args, "-o", "json")...)), &value))
	return value
}

type siteTold struct {
	Health, State string
	Paused        bool
	Next          []struct{ Command string }
	OpenRun       *struct{ Progress *update.Progress }
}

type runsTold struct {
	Items []struct {
		Outcome, From, Target string
		Seconds               float64
		Open                  bool
	}
}

func TestAnUpdateIsAskedForAndReadWithDrupdate(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	require.Contains(t, w.does("update", "blog", "--to", "10.3.6", "--wait"), "UpdatingDatabase")
	require.Equal(t, "10.3.6", w.site().Status.Release.Serving)
	w.serves("10.3.6")

	site := asked[siteTold](w, "status", "blog")
	require.Equal(t, "good InOrder", site.Health+" "+site.State)
	require.Contains(t, w.does("status"), "10.3.6")

	w.eventually("Temporal's list has both runs, closed", func() error {
		runs := asked[runsTold](w, "history", "blog").Items
		if len(runs) != 2 || runs[0].Open || runs[0].Outcome != "Succeeded" || runs[0].From != baseline || runs[0].Target != "10.3.6" || runs[0].Seconds <= 0 {
			return fmt.Errorf("it says %+v", runs)
		}
		return nil
	})
	backups := asked[struct{ Items []v1alpha1.BackupStatus }](w, "backup", "list", "blog").Items
	require.Len(t, backups, 1)
	require.Equal(t, baseline, backups[0].Release)
	log := w.does("logs", "blog")
	require.Contains(t, log, "drupdate: updatedb")
	require.NotContains(t, log, password)

	again := w.drupdate("update", "blog", "--to", "10.3.6", "--wait")
	require.Zero(t, again.code, again.errs)
	require.Contains(t, again.out, "serves 10.3.6 already")
}

func TestAFailedUpdateFailsItsWaitAndIsRetriedWithDrupdate(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	failed := w.drupdate("update", "blog", "--to", "10.4.0-cr-broken", "--wait")
	require.Equal(t, 1, failed.code, failed.out)
	require.Equal(t, fmt.Sprintf("drupdate: the update of %s/blog to 10.4.0-cr-broken failed (RolledBack); it serves %s\n", w.ns, baseline), failed.errs)
	require.Contains(t, failed.out, "drupdate retry blog")
	require.Equal(t, "failed RolledBack", func() string { s := asked[siteTold](w, "status", "blog"); return s.Health + " " + s.State }())

	refused := w.drupdate("update", "blog", "--to", "10.4.0-cr-broken")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.errs, "--retry")
	require.Empty(t, w.site().Annotations[v1alpha1.AnnotationRetry])

	w.idle()
	before := w.site().Status.Run.RunID
	require.Equal(t, 1, w.drupdate("retry", "blog", "--wait").code, "it fails again")
	require.NotEqual(t, before, w.site().Status.Run.RunID)
	require.Zero(t, w.drupdate("update", "blog", "--to", baseline, "--wait").code)
	w.serves(baseline)
}

func TestARunIsHeldAndGivenUpWithDrupdate(t *testing.T) {
	t.Parallel()
	t.Run("pause and resume", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.does("update", "blog", "--to", "10.4.0-slow-start")
		w.reaches(update.PhaseRollingOut)
		w.does("pause", "blog")
		require.True(t, w.site().Spec.Update.Paused)
		w.eventually("the run says that it is paused", func() error {
			site := asked[siteTold](w, "status", "blog")
			if site.OpenRun == nil || site.OpenRun.Progress == nil || !site.OpenRun.Progress.Paused {
				return fmt.Errorf("it says %+v", site)
			}
			return nil
		})
		w.does("resume", "blog")
		require.False(t, w.site().Spec.Update.Paused)
		w.ends("10.4.0-slow-start", update.PhaseSucceeded)
		none := w.drupdate("pause", "blog", "--only", "run")
		require.Equal(t, 1, none.code)
		require.Equal(t, fmt.Sprintf("drupdate: no run of %s/blog is open\n", w.ns), none.errs)
	})
	t.Run("abort", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.does("update", "blog", "--to", "10.4.0-hangs")
		w.reaches(update.PhaseRollingOut)
		require.Contains(t, w.does("abort", "blog", "--wait"), "is given up; the site serves "+baseline)
		w.ends("10.4.0-hangs", update.PhaseAborted)
		w.serves(baseline)
	})
	t.Run("abort of a run that has not marked the site", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.closesWindow()
		w.want("10.3.2")
		w.waits("10.3.2")
		require.Contains(t, w.does("abort", "blog", "--wait"), "is given up; the site serves "+baseline)
		require.Equal(t, string(update.PhaseAborted), w.site().Status.Run.Phase)
	})
	t.Run("abort by annotation", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want("10.4.0-hangs")
		w.reaches(update.PhaseRollingOut)
		w.annotate(v1alpha1.AnnotationAbort, "1")
		w.ends("10.4.0-hangs", update.PhaseAborted)
		w.eventually("the value is observed", func() error {
			if observed := w.site().Status.ObservedAbort; observed != "1" {
				return fmt.Errorf("observedAbort is %q", observed)
			}
			return nil
		})
		w.want("10.3.2")
		w.ends("10.3.2", update.PhaseSucceeded) // the old value does not hit the next run
	})
}

func TestDrupdateIsAPluginOfKubectl(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	bin := t.TempDir()
	for _, name := range []string{"kubectl-drupdate", "kubectl_complete-drupdate"} {
		require.NoError(t, os.Symlink(filepath.Join(state, "bin", "drupdate"), filepath.Join(bin, name)))
	}
	path := []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	kubectl := filepath.Join(state, "bin", "kubectl")
	status := run(t, path, kubectl, "drupdate", "status", "blog", "-n", w.ns)
	require.Zero(t, status.code, status.errs)
	require.Contains(t, status.out, "kubectl drupdate update blog --to RELEASE -n "+w.ns)
	require.NotContains(t, status.out, "\x1b", "nobody looks at a pipe in colour")
	completed := run(t, path, kubectl, "__complete", "drupdate", "status", "-n", w.ns, "")
	require.Contains(t, completed.out, "blog\t")

	missing := run(t, path, kubectl, "drupdate", "status", "shop", "-n", w.ns)
	require.Equal(t, 1, missing.code)
	require.Equal(t, fmt.Sprintf("drupdate: there is no site %q in the namespace %q\n", "shop", w.ns), missing.errs)
}

func TestDoctorFindsWhatSetupMends(t *testing.T) {
	t.Parallel()
	drupdate := filepath.Join(state, "bin", "drupdate")
	well := run(t, nil, drupdate, "doctor", "-A")
	require.Zero(t, well.code, well.out)
	require.Len(t, strings.Split(strings.TrimSpace(well.out), "\n"), 9)

	fresh := []string{fmt.Sprintf("TEMPORAL_NAMESPACE=e2e-%d", os.Getpid())}
	require.Contains(t, run(t, fresh, drupdate, "doctor").out, "drupdate setup temporal")
	made := run(t, fresh, drupdate, "setup", "temporal", "--retention", "48h")
	require.Zero(t, made.code, made.errs)
	require.Equal(t, 2, strings.Count(made.out, "registered"))
	again := run(t, fresh, drupdate, "setup", "temporal")
	require.Zero(t, again.code, again.errs)
	require.Zero(t, strings.Count(again.out, "registered"), "twice is once")

	type findings struct {
		Items []struct{ Check, Result string }
	}
	var found findings
	sick := run(t, fresh, drupdate, "doctor", "-o", "json")
	require.Equal(t, 1, sick.code)
	require.NoError(t, json.Unmarshal([]byte(sick.out), &found))
	got := map[string]string{}
	for _, f := range found.Items {
		got[f.Check] = f.Result
	}
	require.Equal(t, map[string]string{
		"cluster": "ok", "clock": "ok", "crd": "ok", "rights": "ok", "watcher": "ok", "temporal": "ok", "namespace": "ok", "attributes": "ok", "workers": "bad",
	}, got)

	nobody := run(t, nil, drupdate, "doctor", "--as", "system:serviceaccount:default:nobody", "-o", "json")
	require.Equal(t, 1, nobody.code)
	require.Contains(t, nobody.out, "patch drupalsites")
	gone := run(t, []string{"TEMPORAL_ADDRESS=127.0.0.1:1"}, drupdate, "doctor")
	require.Equal(t, 1, gone.code)
	require.Contains(t, gone.out, "cannot be reached (connection refused)")
}

// Signal names and payloads are a contract with whoever has only the temporal command.
func TestTheSignalsAndTheirPayloadsAreAContract(t *testing.T) {
	t.Parallel()
	t.Run("a retarget by hand makes the run look at the resource", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		id := "site/" + w.ns + "/blog"
		w.want("10.4.0-hangs")
		w.reaches(update.PhaseRollingOut)
		w.want("10.3.2")
		w.cli("workflow", "signal", "--workflow-id", id, "--name", "retarget", "--input", `{"release":"10.3.2"}`)
		w.ends("10.3.2", update.PhaseSucceeded)
		w.serves("10.3.2")
	})
	t.Run("a signal names no release that the resource does not ask for", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		id := "site/" + w.ns + "/blog"
		w.want("10.4.0-slow-start")
		w.reaches(update.PhaseRollingOut)
		w.cli("workflow", "signal", "--workflow-id", id, "--name", "retarget", "--input", `{"release":"10.3.2"}`)
		w.ends("10.4.0-slow-start", update.PhaseSucceeded)
		w.serves("10.4.0-slow-start")
	})
	t.Run("a payload too much, or too little, harms nobody", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		id := "site/" + w.ns + "/blog"
		w.want("10.4.0-hangs")
		w.reaches(update.PhaseRollingOut)
		w.cli("workflow", "signal", "--workflow-id", id, "--name", "retarget")
		w.cli("workflow", "signal", "--workflow-id", id, "--name", "pause", "--input", `"because"`)
		w.cli("workflow", "signal", "--workflow-id", id, "--name", "resume", "--input", `{"why":"done"}`)
		w.cli("workflow", "signal", "--workflow-id", id, "--name", "abort", "--input", `"enough"`)
		w.ends("10.4.0-hangs", update.PhaseAborted)
		w.serves(baseline)
	})
	t.Run("a run is started by hand as the documents say", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.cli("workflow", "signal-with-start", "--workflow-id", "site/"+w.ns+"/blog", "--type", "UpdateSite", "--task-queue", "drupdate",
			"--input", fmt.Sprintf(`{"site":{"namespace":%q,"name":"blog"}}`, w.ns), "--signal-name", "retarget", "--signal-input", fmt.Sprintf(`{"release":%q}`, baseline))
		w.eventually("it ends with nothing to do", func() error {
			if out := w.cli("workflow", "describe", "--workflow-id", "site/"+w.ns+"/blog"); !strings.Contains(out, "Nothing to do") {
				return errors.New(out)
			}
			return nil
		})
	})
}
