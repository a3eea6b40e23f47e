// Package metricstest reads metrics in tests.
package metricstest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// Values are the values of all series that are not zero, as a scrape would name them: a histogram has two, its count and
// its sum.
func Values(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	add := func(name, labels string, value float64) {
		if value != 0 {
			values[name+labels] = value
		}
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var pairs []string
			for _, l := range m.GetLabel() {
				pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			labels := ""
			if len(pairs) > 0 {
				labels = "{" + strings.Join(pairs, ",") + "}"
			}
			if h := m.GetHistogram(); h != nil {
				add(family.GetName()+"_count", labels, float64(h.GetSampleCount()))
				add(family.GetName()+"_sum", labels, h.GetSampleSum())
				continue
			}
			add(family.GetName(), labels, m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	return values
}
