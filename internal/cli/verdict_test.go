package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
	"github.com/drupdate/drupdate/internal/updatetest"
)

type edit = func(*v1alpha1.DrupalSite)

// newSite is a site in order at 10.3.6.
func newSite(edits ...edit) *v1alpha1.DrupalSite {
	s := &v1alpha1.DrupalSite{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "blog", Generation: 3, Annotations: map[string]string{}},
		Spec:       v1alpha1.DrupalSiteSpec{Image: "registry.example/drupal", Release: "10.3.6"},
		Status: v1alpha1.DrupalSiteStatus{
			ObservedGeneration: 3,
			Release:            v1alpha1.ReleaseStatus{Serving: "10.3.6", Failsafe: "10.3.6", Target: "10.3.6"},
			Run:                &v1alpha1.RunStatus{RunID: "one", Phase: string(update.PhaseSucceeded), FinishedAt: at(1)},
		},
	}
	with(v1alpha1.ConditionInitialized, metav1.ConditionTrue, v1alpha1.ReasonInstalled, "Drupal is installed.")(s)
	with(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAvailable, "A pod is available.")(s)
	for _, e := range edits {
		e(s)
	}
	return s
}

func at(minute int) *metav1.Time {
	t := metav1.NewTime(time.Date(2026, 3, 1, 2, minute, 0, 0, time.UTC))
	return &t
}

func with(kind string, status metav1.ConditionStatus, reason, message string) edit {
	return func(s *v1alpha1.DrupalSite) {
		if c := condition(s, kind); c != nil {
			c.Status, c.Reason, c.Message = status, reason, message
			return
		}
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: *at(0)})
	}
}

func wants(release string) edit { return func(s *v1alpha1.DrupalSite) { s.Spec.Release = release } }

func marked(phase update.Phase, message string) edit {
	return func(s *v1alpha1.DrupalSite) {
		s.Annotations[v1alpha1.AnnotationUpdateInProgress] = "true"
		s.Status.Release.Target = s.Spec.Release
		s.Status.Run = &v1alpha1.RunStatus{RunID: "two", Phase: string(phase), Message: message, StartedAt: at(5)}
	}
}

func failedAt(release string, phase update.Phase, condition, reason string) edit {
	return func(s *v1alpha1.DrupalSite) {
		s.Status.Release = v1alpha1.ReleaseStatus{Serving: "10.3.6", Failsafe: "10.3.6", Target: release, Failed: release}
		s.Status.Run = &v1alpha1.RunStatus{RunID: "two", Phase: string(phase), FinishedAt: at(9)}
		with(condition, metav1.ConditionTrue, reason, "The update to "+release+" failed: it is no good.")(s)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	paused := func(s *v1alpha1.DrupalSite) { s.Spec.Update.Paused = true }
	rolledBack := failedAt("10.4.0", update.PhaseRolledBack, v1alpha1.ConditionCodeUpdateFailed, "ImagePullBackOff")
	frozen := failedAt("10.4.0", update.PhaseFrozen, v1alpha1.ConditionDBUpdatesFailed, update.ReasonFrozen)
	retried := func(s *v1alpha1.DrupalSite) { s.Annotations[v1alpha1.AnnotationRetry] = "1" }
	unreachable := with(v1alpha1.ConditionOrchestratorUnavailable, metav1.ConditionTrue, v1alpha1.ReasonTemporalUnreachable, "")
	for _, c := range []struct {
		name  string
		edits []edit
		want  verdict
	}{
		{"a site at its release is in order", nil, verdict{good, stateInOrder, at(1), "The site serves 10.3.6, as asked for."}},
		{"a paused one says so", []edit{paused}, verdict{good, statePaused, nil, "The site serves 10.3.6, as asked for; updates are paused."}},
		{"another release is requested", []edit{wants("10.3.7")}, verdict{waiting, stateRequested, nil, "The update to 10.3.7 is asked for."}},
		{"it waits for a paused site", []edit{wants("10.3.7"), paused}, verdict{waiting, statePaused, nil, "The update to 10.3.7 waits: updates are paused."}},
		{"it waits for Temporal", []edit{wants("10.3.7"), unreachable}, verdict{waiting, "TemporalUnreachable", nil, "The update to 10.3.7 waits: Temporal cannot be reached."}},
		{"it waits for its window", []edit{wants("10.3.7"), func(s *v1alpha1.DrupalSite) {
			s.Spec.Update.Window = &v1alpha1.WindowSpec{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: 90 * time.Minute}}
		}}, verdict{waiting, stateRequested, nil, `The update to 10.3.7 starts in the window "0 2 * * *" for 1h30m, UTC.`}},
		{"a run tells its phase", []edit{wants("10.3.7"), marked(update.PhaseVerifying, "Verifying.")}, verdict{busy, "Verifying", at(5), "Verifying."}},
		{"a run that has just begun does not tell how the last one ended", []edit{wants("10.3.7"), func(s *v1alpha1.DrupalSite) {
			s.Annotations[v1alpha1.AnnotationUpdateInProgress] = "true"
		}}, verdict{busy, "RollingOut", nil, "The run has begun."}},
		{"a failed release tells why", []edit{wants("10.4.0"), rolledBack}, verdict{failed, "RolledBack", at(9), "The update to 10.4.0 failed: it is no good."}},
		{"a frozen site needs a person", []edit{wants("10.4.0"), frozen}, verdict{person, "Frozen", at(0), "The update to 10.4.0 failed: it is no good."}},
		{"and does so whatever it wants", []edit{wants("10.3.7"), frozen}, verdict{person, "Frozen", at(0), "The update to 10.4.0 failed: it is no good."}},
		{"a retry is a wish", []edit{wants("10.4.0"), frozen, retried}, verdict{waiting, stateRequested, nil, "Another attempt at 10.4.0 is asked for."}},
		{"a site that is down says so", []edit{with(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnavailable, "No pod.")}, verdict{failed, "NoPodAvailable", at(0), "No pod."}},
		{"an empty database waits", []edit{with(v1alpha1.ConditionInitialized, metav1.ConditionFalse, v1alpha1.ReasonNotInstalled, "Empty.")}, verdict{waiting, "NotInstalled", at(0), "Empty."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := judge(newSite(c.edits...))
			if got.since != nil && c.want.since == nil {
				got.since = nil
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestBriefLeavesOutWhatTheRowSaysAlready(t *testing.T) {
	t.Parallel()
	site := newSite()
	require.Empty(t, brief(site, judge(site)))
	site = newSite(wants("10.4.0"), failedAt("10.4.0", update.PhaseRolledBack, v1alpha1.ConditionCodeUpdateFailed, "ImagePullBackOff"))
	require.Equal(t, "ImagePullBackOff: it is no good.", brief(site, judge(site)))
}

func TestAWaitEndsWithTheRunThatItIsFor(t *testing.T) {
	t.Parallel()
	asked := newSite(wants("10.4.0"), func(s *v1alpha1.DrupalSite) { s.Generation = 4 })
	done := ended(asked)
	require.False(t, done(asked), "nothing has begun")
	require.False(t, done(newSite(wants("10.4.0"), marked(update.PhaseRollingOut, ""))))
	require.True(t, done(newSite(wants("10.4.0"), failedAt("10.4.0", update.PhaseRolledBack, v1alpha1.ConditionCodeUpdateFailed, "X"))))
	require.True(t, done(newSite(wants("10.5.0"))), "somebody asked for something else")
	succeeded := newSite(wants("10.4.0"), func(s *v1alpha1.DrupalSite) {
		s.Status.Release = v1alpha1.ReleaseStatus{Serving: "10.4.0", Failsafe: "10.4.0", Target: "10.4.0"}
		s.Status.Run = &v1alpha1.RunStatus{RunID: "two", FinishedAt: at(9)}
	})
	require.True(t, done(succeeded))
	same := newSite()
	require.True(t, ended(same)(same), "it serves that already")
	retried := newSite(func(s *v1alpha1.DrupalSite) { s.Annotations[v1alpha1.AnnotationRetry] = "1" })
	require.False(t, ended(retried)(retried))
	heard := newSite(func(s *v1alpha1.DrupalSite) {
		s.Annotations[v1alpha1.AnnotationRetry], s.Status.ObservedRetry = "1", "1"
	})
	require.False(t, ended(retried)(heard), "the attempt has not ended")
	heard.Status.Run = &v1alpha1.RunStatus{RunID: "two", FinishedAt: at(9)}
	require.True(t, ended(retried)(heard))
}

func TestDurationsForPeople(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 38 * time.Second: "38s", 90 * time.Second: "1m30s", time.Hour: "1h", 25*time.Hour + time.Minute: "1d1h", 72 * time.Hour: "3d",
	} {
		require.Equal(t, want, lasting(d))
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 119 * time.Second: "119s", 5 * time.Minute: "5m", 3 * time.Hour: "3h", 72 * time.Hour: "3d"} {
		require.Equal(t, want, age(d))
	}
	require.Equal(t, "3.1 KiB", size(3175))
	require.Equal(t, "12 B", size(12))
	require.Equal(t, "2.0 GiB", size(2<<30))
}

func TestTheHistoryTellsBackupsThatWereTakenFromFailures(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[string]health{
		"BackingUp": good, "BackupRestored": good, "Succeeded": good, "BackupFailed": failed, "NotRestored": failed, "RestoreFailed": person, "Aborted": waiting,
	} {
		require.Equal(t, want, outcomeHealth(runReport{Outcome: outcome}), outcome)
	}
	require.Equal(t, busy, outcomeHealth(runReport{Outcome: "BackingUp", Open: true}))
}

func TestTheLogToReadIsThatOfTheOperationThatFailed(t *testing.T) {
	t.Parallel()
	s := &session{cmd: &cobra.Command{Use: "drupdate"}}
	for reason, want := range map[string]string{
		update.ReasonRestored:      "drupdate logs blog --operation update",
		update.ReasonFrozen:        "drupdate logs blog --operation update",
		update.ReasonRestoreFailed: "drupdate logs blog",
	} {
		site := newSite(wants("10.4.0"), failedAt("10.4.0", update.PhaseRestored, v1alpha1.ConditionDBUpdatesFailed, reason))
		var read []string
		for _, a := range s.advise(site, judge(site)) {
			if a.What == "read what the operation printed" {
				read = append(read, a.Command)
			}
		}
		require.Equal(t, []string{want}, read, reason)
	}
}

// "When that is mended" needs a "that".
func TestEveryFailureOfTheContractHasAMend(t *testing.T) {
	t.Parallel()
	speaksForItself := []string{update.ReasonAborted, update.ReasonStepFailed, update.ReasonRestoring}
	for _, reason := range updatetest.Reasons(t) {
		require.Equal(t, !slices.Contains(speaksForItself, reason), mends[reason] != "", reason)
	}
}
