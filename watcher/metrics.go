package watcher

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/metrics"
)

// probeEvery is how often Temporal is asked whether it answers.
const probeEvery = 15 * time.Second

// collectTimeout limits one look into the cache, which is in memory.
const collectTimeout = 5 * time.Second

// Observe registers the watcher's metrics: the sites as its cache has them, and whether Temporal answers. It must be
// called once for each manager and registry, before the manager is started.
func Observe(mgr ctrl.Manager, starter Starter, registry prometheus.Registerer) error {
	sites := newSiteCollector(mgr.GetClient(), mgr.Elected())
	probe := newProbe(starter)
	for _, c := range []prometheus.Collector{sites, probe.up} {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("watcher: register metrics: %w", err)
		}
	}
	if err := mgr.Add(probe); err != nil {
		return fmt.Errorf("watcher: %w", err)
	}
	return nil
}

// siteCollector makes gauges of the sites in the cache whenever somebody asks, so they are never older than the cache,
// and a deleted site has none. Only the watcher that leads has any: the sites of two would be counted twice.
type siteCollector struct {
	reader  client.Reader
	elected <-chan struct{}
	now     func() time.Time

	sites, open, info, failed, phase *prometheus.Desc
}

func newSiteCollector(reader client.Reader, elected <-chan struct{}) *siteCollector {
	site := []string{"namespace", "name"}
	return &siteCollector{
		reader: reader, elected: elected, now: time.Now,
		sites: prometheus.NewDesc("drupdate_sites", "Sites by the phase of their newest run.", []string{"phase"}, nil),
		open:  prometheus.NewDesc("drupdate_open_runs", "Runs that change a site: those that carry the mark updateInProgress.", nil, nil),
		info: prometheus.NewDesc("drupdate_site_info", "One for each site, with the release that it serves.",
			append(site, "release"), nil),
		failed: prometheus.NewDesc("drupdate_site_failed", "One for each condition that says that a site's update failed.",
			append(site, "condition", "reason"), nil),
		phase: prometheus.NewDesc("drupdate_site_phase_seconds", "How long the open run of a site has been in its phase.",
			append(site, "phase"), nil),
	}
}

// Describe implements prometheus.Collector.
func (c *siteCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.sites, c.open, c.info, c.failed, c.phase} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *siteCollector) Collect(out chan<- prometheus.Metric) {
	select {
	case <-c.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var list v1alpha1.DrupalSiteList
	// The cache's own objects: they are only read.
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(c.sites, fmt.Errorf("list sites: %w", err))
		return
	}
	phases, open := map[string]int{}, 0
	for i := range list.Items {
		site := &list.Items[i]
		phases[phaseOf(site)]++
		if site.InProgress() {
			open++
		}
		c.collectSite(out, site)
	}
	for _, phase := range metrics.Phases() {
		out <- prometheus.MustNewConstMetric(c.sites, prometheus.GaugeValue, float64(phases[phase]), phase)
	}
	out <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(open))
}

// collectSite makes the gauges of one site.
func (c *siteCollector) collectSite(out chan<- prometheus.Metric, site *v1alpha1.DrupalSite) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{site.Namespace, site.Name}, labels...)...)
	}
	gauge(c.info, 1, site.Status.Release.Serving)
	for _, kind := range metrics.FailureConditions() {
		if f := apimeta.FindStatusCondition(site.Status.Conditions, kind); f != nil && f.Status == metav1.ConditionTrue {
			gauge(c.failed, 1, kind, metrics.Reason(f.Reason))
		}
	}
	if run := site.Status.Run; site.InProgress() && run != nil && run.PhaseStartedAt != nil {
		gauge(c.phase, max(0, c.now().Sub(run.PhaseStartedAt.Time).Seconds()), metrics.Phase(run.Phase))
	}
}

func phaseOf(site *v1alpha1.DrupalSite) string {
	if site.Status.Run == nil {
		return metrics.None
	}
	return metrics.Phase(site.Status.Run.Phase)
}

// probe asks Temporal at intervals whether it answers. Every watcher does, whether it leads or not.
type probe struct {
	starter Starter
	up      prometheus.Gauge
	every   time.Duration
}

func newProbe(starter Starter) *probe {
	return &probe{starter: starter, every: probeEvery, up: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drupdate_orchestrator_up", Help: "1 if Temporal answered the last time that the watcher asked, 0 if not.",
	})}
}

// Start implements manager.Runnable.
func (p *probe) Start(ctx context.Context) error {
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for {
		p.ask(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *probe) NeedLeaderElection() bool { return false }

func (p *probe) ask(ctx context.Context) {
	err := p.starter.Healthy(ctx)
	switch {
	case ctx.Err() != nil: // We are shutting down: this says nothing about Temporal.
	case err != nil:
		p.up.Set(0)
	default:
		p.up.Set(1)
	}
}
