// Package queries reads the queries of the alerts and the dashboard, for tests.
package queries

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

// Alert is a rule of the PrometheusRule.
type Alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Panel is a panel of the dashboard.
type Panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Grid        struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
		RefID string `json:"refId"`
		Expr  string `json:"expr"`
	} `json:"targets"`
}

// Alerts are the rules of the PrometheusRule in a folder.
func Alerts(folder string) ([]Alert, error) {
	raw, err := os.ReadFile(filepath.Join(folder, "prometheusrule.yaml")) //nolint:gosec // tests name the folder
	if err != nil {
		return nil, err
	}
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []Alert `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(raw, &rule); err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	var all []Alert
	for _, group := range rule.Spec.Groups {
		all = append(all, group.Rules...)
	}
	return all, nil
}

// Panels are those of the dashboard in a folder.
func Panels(folder string) ([]Panel, error) {
	raw, err := os.ReadFile(filepath.Join(folder, "dashboard.json")) //nolint:gosec // tests name the folder
	if err != nil {
		return nil, err
	}
	var board struct {
		Panels []Panel `json:"panels"`
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		return nil, fmt.Errorf("read dashboard: %w", err)
	}
	return board.Panels, nil
}

// What in a query is not the name of a metric: texts, selectors, ranges, lists of labels, functions, numbers with their
// units, and words of the language.
var (
	noise = regexp.MustCompile(`"(\\.|[^"\\])*"|'(\\.|[^'\\])*'|\[[^\]]*\]`)
	inner = regexp.MustCompile(`\{[^}]*\}|\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	calls = regexp.MustCompile(`\b[a-zA-Z_]\w*\s*\(`)
	name  = regexp.MustCompile(`(?:^|[^\w.])([a-zA-Z_:][\w:]*)`)
	words = []string{
		"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "offset", "bool", "inf", "nan",
		"sum", "max", "min", "avg", "count", "topk", "bottomk", "quantile",
	}
)

// Metrics are the names of the metrics in a query, sorted.
func Metrics(expr string) []string {
	expr = noise.ReplaceAllString(expr, " ")
	expr = inner.ReplaceAllString(expr, " ")
	expr = calls.ReplaceAllString(expr, " ( ")
	var found []string
	for _, m := range name.FindAllStringSubmatch(expr, -1) {
		if !slices.Contains(words, m[1]) {
			found = append(found, m[1])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
