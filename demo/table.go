package main

import (
	"fmt"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// row is what the table shows of one site.
type row struct {
	site, from, to, phase, outcome string
	elapsed                        time.Duration
}

const format = "%-9s %-7s %-21s %-17s %-34s %6s"

func header() string {
	return fmt.Sprintf(format, "SITE", "FROM", "TO", "PHASE", "OUTCOME", "TIME")
}

func (r row) String() string {
	took := ""
	if r.elapsed > 0 {
		took = r.elapsed.Round(time.Second).String()
	}
	return strings.TrimRight(fmt.Sprintf(format, r.site, r.from, cut(r.to, 21), r.phase, cut(r.outcome, 34), took), " ")
}

func cut(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	return string(runes[:width-1]) + "…"
}

// look fills the row from the site as it is.
func (p *player) look(site *v1alpha1.DrupalSite, elapsed time.Duration) {
	p.view = row{site: p.name, from: first, to: p.target, phase: phase(site), elapsed: elapsed}
	if !p.ended(site) {
		if site.Status.Release.Target != p.target {
			p.view.phase = "Requested" // status still tells of the run before
		}
		return
	}
	switch reason := failure(site); {
	case reason == "":
		p.view.outcome = "serves " + site.Status.Release.Serving
	default:
		p.view.outcome = fmt.Sprintf("serves %s (%s)", site.Status.Release.Serving, reason)
	}
}

// ended tells whether the run for the player's target is over.
func (p *player) ended(site *v1alpha1.DrupalSite) bool {
	run := site.Status.Run
	return run != nil && run.FinishedAt != nil && site.Status.Release.Target == p.target &&
		site.Annotations[v1alpha1.AnnotationUpdateInProgress] == ""
}

// asAnnounced compares the end with the announced one; the empty string means that they agree.
func (p *player) asAnnounced(site *v1alpha1.DrupalSite, answers string) string {
	got := fmt.Sprintf("phase %s, serving %s, reason %q, its pod answers as %s", phase(site), site.Status.Release.Serving, failure(site), answers)
	want := fmt.Sprintf("phase %s, serving %s, reason %q, its pod answers as %s", p.phase, p.serving, p.reason, p.serving)
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s: announced %s; ended with %s", p.name, want, got)
}

func phase(site *v1alpha1.DrupalSite) string {
	if site.Status.Run == nil {
		return ""
	}
	return site.Status.Run.Phase
}

func failure(site *v1alpha1.DrupalSite) string {
	for _, kind := range []string{v1alpha1.ConditionDBUpdatesFailed, v1alpha1.ConditionCodeUpdateFailed} {
		if c := apimeta.FindStatusCondition(site.Status.Conditions, kind); c != nil {
			return c.Reason
		}
	}
	return ""
}

func conditions(site *v1alpha1.DrupalSite) string {
	var all []string
	for _, c := range site.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, ", ")
}
