//go:build e2e && !fault

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/deploy/observability/queries"
	"github.com/drupdate/drupdate/internal/update"
)

// broken is a release whose caches cannot be rebuilt, updating one with database updates.
const (
	broken   = "10.4.0-cr-broken"
	updating = "10.3.6"
)

// scrape adds what /metrics says to samples, by name and labels.
func (w *world) scrape(samples map[string]float64) {
	w.Helper()
	for _, port := range []int{watcherPort + 1, workerPort + 1} {
		w.scrapeFrom(port, samples)
	}
}

func (w *world) scrapeFrom(port int, samples map[string]float64) {
	w.Helper()
	address := fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(w, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(w, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	require.NoError(w, err)
	require.Equal(w, http.StatusOK, response.StatusCode, "%s", raw)
	for line := range strings.Lines(string(raw)) {
		cut := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if strings.HasPrefix(line, "#") || cut < 0 {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line)[cut+1:], 64)
		require.NoError(w, err, line)
		samples[line[:cut]] = value
	}
}

// A run that succeeds and one that fails, seen through everything that tells of them.
func TestASitesRunsAreSeenInEverySignal(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	samples := map[string]float64{}
	w.want(updating)
	w.reaches(update.PhaseUpdatingDatabase)
	w.scrape(samples)
	w.ends(updating, update.PhaseSucceeded)
	w.want(broken)
	w.ends(broken, update.PhaseRolledBack)

	t.Run("notifications", w.within(checkNotifications))
	t.Run("traces", w.within(checkTraces))
	t.Run("logs", w.within(checkLogs))
	t.Run("events", w.within(checkEvents))
	w.eventually("the watcher's cache has the end", func() error {
		w.scrape(samples)
		name := fmt.Sprintf(`drupdate_site_failed{condition="CodeUpdateFailed",name="blog",namespace=%q,reason="CacheRebuildFailed"}`, w.ns)
		if samples[name] != 1 {
			return fmt.Errorf("%s is %v", name, samples[name])
		}
		return nil
	})
	checkMetrics(w, samples)
}

func (w *world) within(check func(*world)) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		inner := *w
		inner.T = t
		check(&inner)
	}
}

func checkMetrics(w *world, samples map[string]float64) {
	w.Helper()
	site := fmt.Sprintf(`name="blog",namespace=%q`, w.ns)
	require.InDelta(w, 1, samples["drupdate_site_info{"+site+`,release="`+updating+`"}`], 0)
	require.Contains(w, samples, "drupdate_site_phase_seconds{"+site+`,phase="UpdatingDatabase"}`, "while the run was open")
	require.InDelta(w, 1, samples["drupdate_orchestrator_up"], 0)
	for _, counted := range []string{
		`drupdate_updates_total{reason="None",result="Succeeded"}`, `drupdate_updates_total{reason="CacheRebuildFailed",result="RolledBack"}`,
		"drupdate_maintenance_seconds_count", `drupdate_update_duration_seconds_count{phase="UpdatingDatabase",result="Succeeded"}`,
		`drupdate_update_duration_seconds_count{phase="RebuildingCaches",result="Failed"}`,
		`drupdate_drush_duration_seconds_count{command="cache:rebuild",result="Failed"}`,
		`drupdate_notifications_total{result="Succeeded"}`, `drupdate_notifications_total{result="Failed"}`,
	} {
		require.GreaterOrEqual(w, samples[counted], 1.0, counted)
	}
	exported := map[string]bool{}
	for sample := range samples {
		name, _, _ := strings.Cut(sample, "{")
		exported[name] = true
	}
	var asked, absent []string
	alerts, err := queries.Alerts("../deploy/observability")
	require.NoError(w, err)
	for _, a := range alerts {
		asked = append(asked, queries.Metrics(a.Expr)...)
	}
	panels, err := queries.Panels("../deploy/observability")
	require.NoError(w, err)
	for _, p := range panels {
		for _, target := range p.Targets {
			asked = append(asked, queries.Metrics(target.Expr)...)
		}
	}
	slices.Sort(asked)
	asked = slices.Compact(asked)
	require.Greater(w, len(asked), 15)
	for _, name := range asked {
		if !exported[name] {
			absent = append(absent, name)
		}
	}
	require.Empty(w, absent, "alerts and dashboard ask for what the product does not export")
	w.Logf("%d series of %d names; %d names are asked for: %s", len(samples), len(exported), len(asked), strings.Join(asked, " "))
}

func checkNotifications(w *world) {
	site := w.ns + "/blog"
	wanted := []string{
		"dev.drupdate.update.failed " + broken + " RolledBack CacheRebuildFailed", "dev.drupdate.update.finished " + updating + " Succeeded ",
		"dev.drupdate.update.started " + broken + " RollingOut ", "dev.drupdate.update.started " + updating + " RollingOut ",
	}
	slices.Sort(wanted)
	w.eventually("each transition is told", func() error {
		var got []string
		for _, list := range told.of(site) {
			// The very first run, to the baseline, is told as well.
			if last := list[len(list)-1]; len(list) > 1 && last.Data.Release != baseline {
				got = append(got, strings.Join([]string{last.Type, last.Data.Release, last.Data.Phase, last.Data.Reason}, " "))
			}
		}
		slices.Sort(got)
		if !slices.Equal(wanted, got) {
			return fmt.Errorf("told %q", got)
		}
		return nil
	})
	for id, list := range told.of(site) {
		require.Len(w, list, 2, "refused once, then taken, then quiet")
		require.Equal(w, list[0].body, list[1].body)
		for _, d := range list {
			require.True(w, d.signed)
		}
		raw := w.history("notify/" + site + "/" + id)
		require.NotContains(w, raw, hookToken)
		require.NotContains(w, raw, webhookSecret)
		require.Contains(w, raw, "webhook: it answers with status 500")
	}
}

// history is a workflow's history as text.
func (w *world) history(id string) string {
	w.Helper()
	var b strings.Builder
	events := temporal.GetWorkflowHistory(w.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(w, err)
		b.WriteString(e.String())
	}
	return b.String()
}

func checkTraces(w *world) {
	w.eventually("one trace has the watcher, the workflow and its activities", func() error {
		traces := spans.names(w.ns)
		for _, names := range traces {
			missing := slices.DeleteFunc([]string{
				"request update", "SignalWithStartWorkflow:UpdateSite", "RunWorkflow:UpdateSite", "StartActivity:WriteReport", "RunActivity:WriteReport",
				"RunActivity:RunOperation", "RunActivity:RebuildCaches", "drush cache:rebuild", "drush updatedb:status",
			}, func(name string) bool { return names[name] })
			if len(missing) == 0 {
				return nil
			}
		}
		return fmt.Errorf("%d traces: %v", len(traces), traces)
	})
}

// workerEvents are the Events about the site that the worker recorded.
func (w *world) workerEvents() []corev1.Event {
	w.Helper()
	var list corev1.EventList
	require.NoError(w, cluster.List(w.Context(), &list, kube.InNamespace(w.ns)))
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Kind != "DrupalSite" || e.ReportingController != "drupdate-worker"
	})
}

func checkEvents(w *world) {
	said := map[string]int{}
	for _, e := range w.workerEvents() {
		message, _, _ := strings.Cut(e.Message, " http") // the run's page
		said[e.Reason+": "+message] += int(e.Count)
	}
	require.Contains(w, said, "UpdateSucceeded: Updated from "+baseline+" to "+updating+".")
	require.Contains(w, said, "UpdateStarted: Update from "+updating+" to "+broken+" started.")
	for what, times := range said {
		require.Equal(w, 1, times, what)
	}
}

// checkLogs holds every line about a site to the list of keys in the documents, and follows the site's runs.
func checkLogs(w *world) {
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(w, err)
	_, section, found := strings.Cut(string(page), "\n## Logs\n")
	require.True(w, found)
	section, _, _ = strings.Cut(section, "\n## ")
	known := map[string]bool{}
	for _, word := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(section, -1) {
		known[word[1]] = true
	}
	var raw []byte
	for _, p := range []*process{watcher, worker} {
		lines, err := os.ReadFile(filepath.Join(state, "logs", p.log))
		require.NoError(w, err)
		raw = append(raw, lines...)
	}
	require.NotContains(w, string(raw), hookToken)
	require.NotContains(w, string(raw), webhookSecret)
	var phases []string
	unknown := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "drupdate: ") {
			continue // the last words of a process that ended, for people
		}
		var line map[string]any
		require.NoError(w, json.Unmarshal(lines.Bytes(), &line), lines.Text())
		_, about := line["site"]
		for key := range line {
			require.Regexp(w, "^[a-z][a-z0-9_]*$", key, lines.Text())
			if about && !known[key] {
				unknown[key] = lines.Text()
			}
		}
		if id, _ := line["workflow_id"].(string); strings.HasSuffix(id, "/"+w.ns+"/blog") {
			require.Equal(w, []any{w.ns, "blog"}, []any{line["namespace"], line["site"]}, lines.Text())
		}
		if line["msg"] == "phase begins" && line["namespace"] == w.ns {
			require.Subset(w, keys(line), []string{"workflow_id", "run_id", "activity", "attempt", "release"}, lines.Text())
			if line["phase"] == "RolledBack" {
				require.Equal(w, "CacheRebuildFailed", line["reason"], lines.Text())
				require.Contains(w, line["cause"], "drush cache:rebuild failed: ", lines.Text())
			}
			phases = append(phases, fmt.Sprint(line["release"], " ", line["phase"]))
		}
	}
	require.Empty(w, unknown, "docs/operations.md does not list these keys")
	for _, phase := range []string{updating + " UpdatingDatabase", updating + " Succeeded", broken + " RollingBack", broken + " RolledBack"} {
		require.Len(w, slices.DeleteFunc(slices.Clone(phases), func(p string) bool { return p != phase }), 1, "%s in %q", phase, phases)
	}
}

func keys(line map[string]any) []string {
	var list []string
	for key := range line {
		list = append(list, key)
	}
	return list
}
