// Package observability holds what watches drupdate: alerts, a dashboard, and how its pods are scraped. Its tests hold
// them to one another and to docs/operations.md; that every metric exists is proven by e2e, which scrapes the product.
package observability

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/deploy/observability/queries"
)

func TestEveryAlertHasARunbookThatExists(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	anchors := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(raw), -1) {
		kept := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors[strings.ReplaceAll(kept, " ", "-")] = true
	}
	alerts, err := queries.Alerts(".")
	require.NoError(t, err)
	require.Greater(t, len(alerts), 8)
	for _, a := range alerts {
		page, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "#")
		require.Equal(t, "https://github.com/drupdate/drupdate/blob/main/docs/operations.md", page, a.Alert)
		require.True(t, anchors[anchor], "%s: docs/operations.md has no section %q", a.Alert, anchor)
		require.NotEmpty(t, a.Annotations["summary"], a.Alert)
		require.Contains(t, []string{"warning", "critical"}, a.Labels["severity"], a.Alert)
	}
}

func TestEveryAlertHasATestOfItsOwn(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("alerts_test.yaml")
	require.NoError(t, err)
	var file struct {
		Tests []struct {
			Cases []struct {
				Alert    string `json:"alertname"`
				Expected []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Expected) > 0 {
				fires[c.Alert] = true
			} else {
				quiet[c.Alert] = true
			}
		}
	}
	alerts, err := queries.Alerts(".")
	require.NoError(t, err)
	for _, a := range alerts {
		require.True(t, fires[a.Alert], "no test in which %s fires", a.Alert)
		require.True(t, quiet[a.Alert], "no test in which %s is quiet", a.Alert)
	}
}

func TestThePanelsOfTheDashboardDoNotOverlap(t *testing.T) {
	t.Parallel()
	panels, err := queries.Panels(".")
	require.NoError(t, err)
	require.Greater(t, len(panels), 20)
	ids, cells := map[int]bool{}, map[string]string{}
	for _, p := range panels {
		require.False(t, ids[p.ID], "panel id %d twice", p.ID)
		ids[p.ID] = true
		for x := p.Grid.X; x < p.Grid.X+p.Grid.W; x++ {
			require.Less(t, x, 24, p.Title)
			for y := p.Grid.Y; y < p.Grid.Y+p.Grid.H; y++ {
				cell := fmt.Sprint(x, ",", y)
				require.Empty(t, cells[cell], "%q covers %q", p.Title, cells[cell])
				cells[cell] = p.Title
			}
		}
		require.True(t, p.Type == "row" || len(p.Targets) > 0 && p.Description != "", p.Title)
	}
}

// Prometheus' own parser reads every query of the dashboard, as rules of a file.
func TestEveryQueryOfTheDashboardParses(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	panels, err := queries.Panels(".")
	require.NoError(t, err)
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, p := range panels {
		for _, target := range p.Targets {
			rules = append(rules, rule{Record: fmt.Sprintf("panel_%d_%s", p.ID, target.RefID), Expr: strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
	}
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "dashboard.yaml")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), fmt.Sprintf("SUCCESS: %d rules found", len(rules)))
}

func TestTheNamesInAQueryAreItsMetrics(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		`sum by (le, result) (rate(a_b_bucket{phase="Run",x=~"sum|by"}[1h]))`: {"a_b_bucket"},
		`(sum(n{t="w"}) or vector(0)) < 1 and max(up) == 0`:                   {"n", "up"},
		`absent(one)`: {"one"},
		`histogram_quantile(0.5, sum by (le) (rate(h_bucket[$__rate_interval]))) > bool 1e3`: {"h_bucket"},
		`a / on (x) group_left (y) b offset 5m unless c`:                                     {"a", "b", "c"},
	} {
		require.Equal(t, want, queries.Metrics(expr), expr)
	}
}
