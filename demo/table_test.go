package main

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// ended is a site as its player is announced to end.
func ended(p *player) *v1alpha1.DrupalSite {
	site := &v1alpha1.DrupalSite{}
	site.Status.Release = v1alpha1.ReleaseStatus{Serving: p.serving, Target: p.target}
	site.Status.Run = &v1alpha1.RunStatus{Phase: string(p.phase), FinishedAt: &metav1.Time{}}
	if p.reason != "" {
		site.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCodeUpdateFailed, Reason: p.reason}}
	}
	return site
}

func TestEveryRowReadsWellIn100Columns(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, utf8.RuneCountInString(header()), 100)
	for _, p := range cast() {
		p.look(ended(p), 9*time.Minute+59*time.Second)
		require.LessOrEqual(t, utf8.RuneCountInString(p.view.String()), 100, p.view.String())
		require.Contains(t, p.view.String(), "9m59s")
	}
}

func TestOnlyTheAnnouncedEndCounts(t *testing.T) {
	t.Parallel()
	for _, p := range cast() {
		site := ended(p)
		require.Empty(t, p.asAnnounced(site, p.serving))
		require.NotEmpty(t, p.asAnnounced(site, "another release"))
		site.Status.Run.Phase = "Other"
		require.NotEmpty(t, p.asAnnounced(site, p.serving))
	}
}

func TestARunBeforeTheTargetIsNotTakenForItsEnd(t *testing.T) {
	t.Parallel()
	p := cast()[0]
	site := ended(p)
	site.Status.Release.Target = first
	require.False(t, p.ended(site))
	p.look(site, time.Second)
	require.Equal(t, "Requested", p.view.phase)
}
