package watcher

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

type siteEdit = func(*v1alpha1.DrupalSite)

// serves is a workload that serves a release.
func serves(release string) workload {
	return workload{exists: true, release: release, matches: true, available: true}
}

// down is a workload of a release without an available pod.
func down(release string) workload {
	return workload{exists: true, release: release, matches: true}
}

func with(w workload, edit func(*workload)) workload {
	edit(&w)
	return w
}

func TestDecide(t *testing.T) {
	t.Parallel()
	paused := func(s *v1alpha1.DrupalSite) { s.Spec.Update.Paused = true }
	frozen := set(v1alpha1.ConditionDBUpdatesFailed, metav1.ConditionTrue, update.ReasonFrozen)
	cases := []struct {
		name string
		site []siteEdit
		w    workload
		want decision
	}{
		{"a site that is being deleted is left alone", []siteEdit{verified, wants("10.3.7"), func(s *v1alpha1.DrupalSite) {
			s.DeletionTimestamp = &metav1.Time{Time: epoch}
		}}, serves("10.3.6"), decision{notYet, causeDeleting}},
		{
			"a site without its Deployment is left alone, even with a run",
			[]siteEdit{updating(update.PhaseRollingOut)},
			with(serves("10.3.6"), func(w *workload) { w.conflict = "taken" }),
			decision{notYet, causeConflict},
		},

		{"a run that goes to the wanted release is watched", []siteEdit{updating(update.PhaseRollingOut)}, down("10.3.7"), decision{running, ""}},
		{"a run is watched even while the Deployment is gone", []siteEdit{updating(update.PhaseRollingOut)}, workload{}, decision{running, ""}},
		{"a run that goes elsewhere is told", []siteEdit{updating(update.PhaseRollingOut), wants("10.3.8")}, down("10.3.7"), decision{running, causeRetarget}},
		{"a run is told of a retry", []siteEdit{updating(update.PhaseRollingOut), retried("1")}, down("10.3.7"), decision{running, causeRetarget}},
		{"a run of a paused site goes on", []siteEdit{updating(update.PhaseRollingOut), paused}, down("10.3.7"), decision{running, ""}},
		{"another value of the annotation is no run", []siteEdit{verified, func(s *v1alpha1.DrupalSite) {
			s.Annotations = map[string]string{v1alpha1.AnnotationUpdateInProgress: "false"}
		}}, serves("10.3.6"), decision{inSync, ""}},

		{"a missing Deployment is waited for", []siteEdit{verified, wants("10.3.7")}, workload{}, decision{notYet, causeWorkload}},
		{
			"a Deployment that is being deleted is waited for",
			[]siteEdit{verified, wants("10.3.7")},
			with(serves("10.3.6"), func(w *workload) { w.deleting = true }),
			decision{notYet, causeWorkload},
		},
		{
			"no run starts without the container",
			[]siteEdit{verified, wants("10.3.7")},
			with(serves("10.3.6"), func(w *workload) { w.missing = "drupal" }),
			decision{notYet, causeWorkload},
		},
		{
			"no run starts at zero replicas",
			[]siteEdit{verified, wants("10.3.7")},
			with(down("10.3.6"), func(w *workload) { w.scaledToZero = true }),
			decision{notYet, causeWorkload},
		},
		{
			"no run starts while the Deployment is paused",
			[]siteEdit{verified, wants("10.3.7")},
			with(serves("10.3.6"), func(w *workload) { w.paused = true }),
			decision{notYet, causeWorkload},
		},

		{"a site that serves is asked whether it is installed", nil, serves("10.3.6"), decision{check, causeInstalled}},
		{
			"a site that is known not to be installed is asked again",
			[]siteEdit{set(v1alpha1.ConditionInitialized, metav1.ConditionFalse, v1alpha1.ReasonNotInstalled)},
			serves("10.3.6"),
			decision{check, causeInstalled},
		},
		{
			"a site that could not be asked is asked again",
			[]siteEdit{set(v1alpha1.ConditionInitialized, metav1.ConditionUnknown, v1alpha1.ReasonProbeFailed)},
			serves("10.3.6"),
			decision{check, causeInstalled},
		},
		{"a site that neither is installed nor serves is not checked", nil, down("10.3.6"), decision{notYet, causeUnavailable}},
		{"a paused site is asked whether it is installed", []siteEdit{paused}, serves("10.3.6"), decision{check, causeInstalled}},

		{"a site at its release is in sync", []siteEdit{verified}, serves("10.3.6"), decision{inSync, ""}},
		{"a site at its release that is down is not in sync", []siteEdit{verified}, down("10.3.6"), decision{notYet, causeUnavailable}},
		{"another wanted release starts a run", []siteEdit{verified, wants("10.3.7")}, serves("10.3.6"), decision{start, causeRelease}},
		{
			"a site that was never verified starts a run",
			[]siteEdit{set(v1alpha1.ConditionInitialized, metav1.ConditionTrue, v1alpha1.ReasonInstalled)},
			serves("10.3.6"),
			decision{start, causeRelease},
		},
		{
			"a site that was never verified and is down waits",
			[]siteEdit{set(v1alpha1.ConditionInitialized, metav1.ConditionTrue, v1alpha1.ReasonInstalled)},
			down("10.3.6"),
			decision{notYet, causeUnavailable},
		},
		{"a site that is down moves on to another release", []siteEdit{verified, wants("10.3.7")}, down("10.3.6"), decision{start, causeRelease}},
		{"a Deployment at another release starts a run", []siteEdit{verified}, serves("10.3.5"), decision{start, causeTemplate}},
		{"a Deployment with the release of another repository starts a run", []siteEdit{verified}, with(serves("10.3.6"), func(w *workload) { w.matches, w.moved = false, true }), decision{start, causeTemplate}},
		{"a Deployment without annotation starts a run", []siteEdit{verified}, with(serves(""), func(w *workload) { w.matches = false }), decision{start, causeTemplate}},
		{"a retry of a site in sync starts a run", []siteEdit{verified, retried("1")}, serves("10.3.6"), decision{start, causeRetry}},
		{
			"a retry that was acted on starts none",
			[]siteEdit{verified, retried("1"), func(s *v1alpha1.DrupalSite) { s.Status.ObservedRetry = "1" }},
			serves("10.3.6"),
			decision{inSync, ""},
		},
		{"a retry of a site that is down without a failed update waits", []siteEdit{verified, retried("1")}, down("10.3.6"), decision{notYet, causeUnavailable}},
		{
			"confirmed updates start a run",
			[]siteEdit{verified, set(v1alpha1.ConditionDBUpdatesPending, metav1.ConditionTrue, v1alpha1.ReasonUpdatesConfirmed)},
			serves("10.3.6"),
			decision{start, causeConfirmed},
		},
		{"a paused site starts no run", []siteEdit{verified, wants("10.3.7"), paused}, serves("10.3.6"), decision{blocked, causePaused}},
		{"a paused site in sync is in sync", []siteEdit{verified, paused}, serves("10.3.6"), decision{inSync, ""}},

		{"a failed target is not tried again", []siteEdit{rolledBack}, serves("10.3.6"), decision{blocked, causeFailed}},
		{"a failed target is not tried again while the site is down", []siteEdit{rolledBack}, down("10.3.6"), decision{blocked, causeFailed}},
		{"a failed target is not tried again for confirmed updates", []siteEdit{
			rolledBack,
			set(v1alpha1.ConditionDBUpdatesPending, metav1.ConditionTrue, v1alpha1.ReasonUpdatesConfirmed),
		}, serves("10.3.6"), decision{blocked, causeFailed}},
		{"a retry tries a failed target again", []siteEdit{rolledBack, retried("1")}, serves("10.3.6"), decision{start, causeRetry}},
		{"a retry tries a failed target again while the site is down", []siteEdit{rolledBack, retried("1")}, down("10.3.6"), decision{start, causeRetry}},
		{"a retry of a paused site waits", []siteEdit{rolledBack, retried("1"), paused}, serves("10.3.6"), decision{blocked, causePaused}},
		{"another target after a failed one starts a run", []siteEdit{rolledBack, wants("10.3.8")}, down("10.3.6"), decision{start, causeRelease}},
		{"back to the served release after a failed one tidies up", []siteEdit{rolledBack, wants("10.3.6")}, serves("10.3.6"), decision{start, causeTidy}},

		{"a frozen site takes no other target", []siteEdit{rolledBack, frozen, wants("10.3.8")}, serves("10.3.7"), decision{blocked, causePerson}},
		{"a site whose restore failed takes no other target", []siteEdit{
			rolledBack, wants("10.3.8"),
			set(v1alpha1.ConditionDBUpdatesFailed, metav1.ConditionTrue, update.ReasonRestoreFailed),
		}, serves("10.3.7"), decision{blocked, causePerson}},
		{"a site whose rollback failed takes no other target", []siteEdit{
			rolledBack, wants("10.3.8"),
			set(v1alpha1.ConditionCodeUpdateFailed, metav1.ConditionTrue, update.ReasonRollbackFailed),
		}, down("10.3.6"), decision{blocked, causePerson}},
		{"a person frees a frozen site with a retry", []siteEdit{rolledBack, frozen, wants("10.3.8"), retried("1")}, serves("10.3.7"), decision{start, causeRetry}},
		{"a restored site takes another target", []siteEdit{
			rolledBack, wants("10.3.8"),
			set(v1alpha1.ConditionDBUpdatesFailed, metav1.ConditionTrue, update.ReasonRestored),
		}, serves("10.3.6"), decision{start, causeRelease}},

		{
			"unconfirmed updates are checked",
			[]siteEdit{verified, set(v1alpha1.ConditionDBUpdatesPending, metav1.ConditionTrue, v1alpha1.ReasonUpdatesPending)},
			serves("10.3.6"),
			decision{check, causePending},
		},
		{
			"unknown updates are checked",
			[]siteEdit{verified, set(v1alpha1.ConditionDBUpdatesPending, metav1.ConditionUnknown, v1alpha1.ReasonProbeFailed)},
			serves("10.3.6"),
			decision{check, causePending},
		},
		{
			"unknown updates after a failed target are checked",
			[]siteEdit{rolledBack, set(v1alpha1.ConditionDBUpdatesPending, metav1.ConditionUnknown, v1alpha1.ReasonProbeFailed)},
			serves("10.3.6"),
			decision{check, causePending},
		},
		{
			"updates of a site that is down are not checked",
			[]siteEdit{verified, set(v1alpha1.ConditionDBUpdatesPending, metav1.ConditionTrue, v1alpha1.ReasonUpdatesPending)},
			down("10.3.6"),
			decision{notYet, causeUnavailable},
		},
		{"updates after a failed database update are not checked", []siteEdit{
			rolledBack,
			set(v1alpha1.ConditionDBUpdatesFailed, metav1.ConditionTrue, update.ReasonRestored),
			set(v1alpha1.ConditionDBUpdatesPending, metav1.ConditionTrue, v1alpha1.ReasonUpdatesPending),
		}, serves("10.3.6"), decision{blocked, causeFailed}},
		{
			"a condition that is False does not hold",
			[]siteEdit{verified, set(v1alpha1.ConditionDBUpdatesPending, metav1.ConditionFalse, v1alpha1.ReasonUpdatesPending)},
			serves("10.3.6"),
			decision{inSync, ""},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, decide(newSite(c.site...), c.w))
		})
	}
}

func TestEnsured(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		site []siteEdit
		want string
	}{
		{"a new site gets what it asks for", nil, "10.3.6"},
		{"a verified site gets what it serves", []siteEdit{verified, wants("10.3.7")}, "10.3.6"},
		{"a rolled back site gets the failsafe, not the failed release", []siteEdit{rolledBack}, "10.3.6"},
		{"without a served release the failsafe counts", []siteEdit{rolledBack, func(s *v1alpha1.DrupalSite) { s.Status.Release.Serving = "" }}, "10.3.6"},
		{"a frozen site gets the release that its database belongs to", []siteEdit{rolledBack, func(s *v1alpha1.DrupalSite) { s.Status.Release.Serving = "10.3.7" }}, "10.3.7"},
		{"during the rollout the served release counts", []siteEdit{updating(update.PhaseRollingOut)}, "10.3.6"},
		{"during the database update the target counts", []siteEdit{updating(update.PhaseUpdatingDatabase)}, "10.3.7"},
		{"during verification the target counts", []siteEdit{updating(update.PhaseVerifying)}, "10.3.7"},
		{"during a restore the served release counts", []siteEdit{updating(update.PhaseRestoring)}, "10.3.6"},
		{"the phase of a run that has ended does not count", []siteEdit{updating(update.PhaseVerifying), func(s *v1alpha1.DrupalSite) { s.Annotations = nil }}, "10.3.6"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, ensured(newSite(c.site...)))
		})
	}
}

func TestPutBack(t *testing.T) {
	t.Parallel()
	edited := func(w *workload) { w.matches = false }
	cases := []struct {
		name string
		site []siteEdit
		w    workload
		want string
	}{
		{"an image in order is left alone", []siteEdit{verified}, serves("10.3.6"), ""},
		{"an image edited by hand is put back", []siteEdit{verified}, with(serves("10.3.6"), edited), "10.3.6"},
		{"an image edited by hand is put back while the site is down", []siteEdit{verified}, with(down("10.3.6"), edited), "10.3.6"},
		{"an image edited by hand is put back at zero replicas", []siteEdit{verified}, with(down("10.3.6"), func(w *workload) { w.matches, w.scaledToZero = false, true }), "10.3.6"},
		{"a broken Deployment of another release is put back, since no run will start", []siteEdit{verified}, down("10.3.5"), "10.3.6"},
		{"after a failed update the image is kept at the served release", []siteEdit{rolledBack}, with(serves("10.3.7"), edited), "10.3.6"},
		{"a run that will start sets the image itself", []siteEdit{verified, wants("10.3.7")}, with(serves("10.3.6"), edited), ""},
		{
			"a paused site is kept at the served release",
			[]siteEdit{verified, wants("10.3.7"), func(s *v1alpha1.DrupalSite) { s.Spec.Update.Paused = true }},
			with(serves("10.3.6"), edited), "10.3.6",
		},
		{"an open run owns the image", []siteEdit{updating(update.PhaseRollingOut)}, with(down("10.3.7"), edited), ""},
		{"a frozen site is left to a person", []siteEdit{rolledBack, set(v1alpha1.ConditionDBUpdatesFailed, metav1.ConditionTrue, update.ReasonFrozen)}, with(serves("10.3.7"), edited), ""},
		{"a site whose rollback failed is left to a person", []siteEdit{rolledBack, set(v1alpha1.ConditionCodeUpdateFailed, metav1.ConditionTrue, update.ReasonRollbackFailed)}, down("10.3.7"), ""},
		{"a container is never added", []siteEdit{verified}, with(serves("10.3.6"), func(w *workload) { w.missing, w.matches = "drupal", false }), ""},
		{"somebody else's Deployment is left alone", []siteEdit{verified}, with(serves("10.3.5"), func(w *workload) { w.conflict = "taken" }), ""},
		{"a Deployment that is being deleted is left alone", []siteEdit{verified}, with(serves("10.3.5"), func(w *workload) { w.deleting = true }), ""},
		{"a missing Deployment is created elsewhere", []siteEdit{verified}, workload{}, ""},
		{"a site that is being deleted is left alone", []siteEdit{verified, func(s *v1alpha1.DrupalSite) { s.DeletionTimestamp = &metav1.Time{Time: epoch} }}, down("10.3.5"), ""},
		{"a first release that never came up is replaced by the one asked for", []siteEdit{wants("10.3.7")}, down("10.3.6"), "10.3.7"},
		{"a first release that serves is left for a run", []siteEdit{wants("10.3.7")}, serves("10.3.6"), ""},
		{"a first release edited by hand is put back", nil, with(serves("10.3.6"), edited), "10.3.6"},
		{"an adopted Deployment is left for a run", nil, with(serves(""), edited), ""},
		{"an adopted Deployment that is down is left alone", nil, with(down(""), edited), ""},
		{"an installed site without a verified release is left for a run", []siteEdit{
			wants("10.3.7"),
			set(v1alpha1.ConditionInitialized, metav1.ConditionTrue, v1alpha1.ReasonInstalled),
		}, down("10.3.6"), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site := newSite(c.site...)
			require.Equal(t, c.want, putBack(site, c.w, decide(site, c.w)))
		})
	}
}
