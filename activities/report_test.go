package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func started() update.Report {
	return update.Report{
		Site: blog, WorkflowID: "site/sites/blog", RunID: "r1", Phase: update.PhaseRollingOut, Message: "Moving to 2.0.",
		Started: true, InProgress: update.MarkSet, Releases: &update.Releases{Serving: "1.0", Failsafe: "1.0", Target: "2.0"},
		ObservedRetry: new("2"), Event: &update.Event{Reason: "UpdateStarted", Message: "Update from 1.0 to 2.0 started."},
	}
}

func rolledBack() update.Report {
	return update.Report{
		Site: blog, WorkflowID: "site/sites/blog", RunID: "r1", Phase: update.PhaseRolledBack, Message: "It crashed.",
		Finished: true, InProgress: update.MarkClear, Releases: &update.Releases{Serving: "1.0", Failsafe: "1.0", Target: "2.0", Failed: "2.0"},
		Set:   []update.Condition{{Type: "CodeUpdateFailed", Status: "True", Reason: "CrashLoopBackOff", Message: "It crashed."}},
		Event: &update.Event{Warning: true, Reason: "RolledBack", Message: "It crashed."},
	}
}

// watcherApplies writes what the watcher owns, as it does.
func (w *world) watcherApplies(ready string) {
	w.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"observedGeneration": int64(7),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": ready, "reason": "PodsAvailable", "message": "m", "lastTransitionTime": noon.Format(time.RFC3339),
		}},
	}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(siteKind))
	object.SetNamespace("sites")
	object.SetName("blog")
	require.NoError(w.t, w.client.Status().Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(v1alpha1.ManagerWatcher), client.ForceOwnership))
	w.writes = 0
}

func (w *world) events() []corev1.Event {
	w.t.Helper()
	var list corev1.EventList
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	return list.Items
}

func TestAReportFromMarkToEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	twice(w, update.WriteReport, started())

	begun := metav1.NewTime(noon.Local())
	site := w.site()
	require.Equal(t, "true", site.Annotations[v1alpha1.AnnotationUpdateInProgress])
	require.Equal(t, v1alpha1.ReleaseStatus{Serving: "1.0", Failsafe: "1.0", Target: "2.0"}, site.Status.Release)
	require.Equal(t, &v1alpha1.RunStatus{
		WorkflowID: "site/sites/blog", RunID: "r1", Phase: "RollingOut", Message: "Moving to 2.0.", StartedAt: &begun, PhaseStartedAt: &begun,
	}, site.Status.Run)
	require.Equal(t, []metav1.Condition{{
		Type: "Updating", Status: "True", Reason: "RollingOut", Message: "Moving to 2.0.", ObservedGeneration: 7, LastTransitionTime: begun,
	}}, site.Status.Conditions)
	require.Equal(t, "2", site.Status.ObservedRetry)

	w.clock.now = noon.Add(time.Minute)
	twice(w, update.WriteReport, rolledBack())

	ended := metav1.NewTime(noon.Add(time.Minute).Local())
	site = w.site()
	require.NotContains(t, site.Annotations, v1alpha1.AnnotationUpdateInProgress)
	require.Equal(t, &begun, site.Status.Run.StartedAt)
	require.Equal(t, &ended, site.Status.Run.FinishedAt)
	require.True(t, apimeta.IsStatusConditionFalse(site.Status.Conditions, "Updating"))
	require.True(t, apimeta.IsStatusConditionTrue(site.Status.Conditions, "CodeUpdateFailed"))
	require.Len(t, w.events(), 2)

	twice(w, update.WriteReport, update.Report{Site: blog, Remove: []string{"CodeUpdateFailed"}})
	require.Nil(t, apimeta.FindStatusCondition(w.site().Status.Conditions, "CodeUpdateFailed"))
}

func TestWorkerAndWatcherDoNotClobberEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	w.watcherApplies("True")
	twice(w, update.WriteReport, started())
	w.watcherApplies("False")
	twice(w, update.WriteReport, rolledBack())

	conditions := map[string]metav1.ConditionStatus{}
	for _, c := range w.site().Status.Conditions {
		conditions[c.Type] = c.Status
	}
	require.Equal(t, map[string]metav1.ConditionStatus{"Ready": "False", "Updating": "False", "CodeUpdateFailed": "True"}, conditions)
	require.Equal(t, int64(7), w.site().Status.ObservedGeneration)
}

func TestTheTransitionTimeStaysUnlessTheStatusChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	set := func(status, reason string) metav1.Time {
		r := update.Report{Site: blog, Set: []update.Condition{{Type: "DBUpdatesPending", Status: status, Reason: reason, Message: "m"}}}
		_, err := do(w, update.WriteReport, r)
		require.NoError(t, err)
		w.clock.now = w.clock.now.Add(time.Minute)
		return apimeta.FindStatusCondition(w.site().Status.Conditions, "DBUpdatesPending").LastTransitionTime
	}
	first := set("True", "UpdatesPending")
	require.Equal(t, first, set("True", "UpdatesConfirmed"))
	require.NotEqual(t, first, set("Unknown", "ProbeFailed"))
}

func TestAReleaseWithoutAVerdictIsTriedAgain(t *testing.T) {
	t.Parallel()
	left := update.Report{
		Site: blog, WorkflowID: "site/sites/blog", RunID: "r1", Phase: update.PhaseSuperseded, Message: "Made anew.",
		Finished: true, InProgress: update.MarkClear, Unjudged: "2.0",
	}
	for _, tc := range []struct {
		name           string
		failed, reason string
		kept           bool
	}{
		{"the failure is of another life of the run", "2.0", update.ReasonCacheRebuildFailed, false},
		{"another release failed", "3.0", update.ReasonCacheRebuildFailed, true},
		{"a person must look at it", "2.0", update.ReasonRollbackFailed, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testSite(), testDeployment("1.0"))
			before := rolledBack()
			before.Releases.Failed, before.Set[0].Reason = tc.failed, tc.reason
			_, err := do(w, update.WriteReport, before)
			require.NoError(t, err)
			_, err = do(w, update.WriteReport, left)
			require.NoError(t, err)
			failed := ""
			if tc.kept {
				failed = tc.failed
			}
			require.Equal(t, failed, w.site().Status.Release.Failed)
			require.Equal(t, tc.kept, apimeta.IsStatusConditionTrue(w.site().Status.Conditions, v1alpha1.ConditionCodeUpdateFailed))
			require.Equal(t, "1.0", w.site().Status.Release.Serving)
		})
	}
}

func TestANewRunKeepsAnOperationThatNobodySettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(func(s *v1alpha1.DrupalSite) {
		then := metav1.NewTime(noon.Add(-time.Hour))
		s.Status.Run = &v1alpha1.RunStatus{RunID: "lost", Operation: "lost", Phase: "UpdatingDatabase", StartedAt: &then, FinishedAt: &then}
	}))
	_, err := do(w, update.WriteReport, update.Report{Site: blog, RunID: "r1", Phase: update.PhaseVerifying, Message: "m"})
	require.NoError(t, err)
	begun := metav1.NewTime(noon.Local())
	require.Equal(t, &v1alpha1.RunStatus{RunID: "r1", Operation: "lost", Phase: "Verifying", PhaseStartedAt: &begun, Message: "m"}, w.site().Status.Run)
	_, err = do(w, update.WriteReport, update.Report{Site: blog, RunID: "r1", Operation: new("")})
	require.NoError(t, err)
	require.Empty(t, w.site().Status.Run.Operation)
}

func TestARunThatDoesNotKnowTheOpenOperationWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(func(s *v1alpha1.DrupalSite) {
		s.Status.Run = &v1alpha1.RunStatus{RunID: "r1", Phase: "UpdatingDatabase", Operation: "r1-1"}
	}), testDeployment("1.0"))
	end := rolledBack()
	end.Known, end.Operation = new(""), new("")
	_, err := do(w, update.WriteReport, end)
	requireFailure(t, err, update.FailureOperationOpen)
	_, err = do(w, update.SetRelease, update.Change{Site: blog, Release: "2.0", Known: new("")})
	requireFailure(t, err, update.FailureOperationOpen)
	require.Zero(t, w.writes)

	begins := update.Report{Site: blog, RunID: "r1", Phase: update.PhaseUpdatingDatabase, Known: new(""), Operation: new("r1-1")}
	_, err = do(w, update.WriteReport, begins)
	require.NoError(t, err, "an earlier attempt of the report has written it")
	end.Known = new("r1-1")
	_, err = do(w, update.WriteReport, end)
	require.NoError(t, err)
	require.Empty(t, w.site().Status.Run.Operation)
}

func TestARunThatAnotherOneHasFollowedWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(func(s *v1alpha1.DrupalSite) {
		s.Status.Run = &v1alpha1.RunStatus{RunID: "successor", Phase: "Succeeded"}
	}), testDeployment("1.0"))
	end := rolledBack()
	end.KnownRuns = []string{"before", "r1"}
	_, err := do(w, update.WriteReport, end)
	requireFailure(t, err, update.FailureOperationOpen)
	change := update.Change{Site: blog, Release: "2.0", KnownRuns: []string{"before", "r1"}}
	_, err = do(w, update.SetRelease, change)
	requireFailure(t, err, update.FailureOperationOpen)
	require.Zero(t, w.writes)

	change.KnownRuns = []string{"successor", "r1"}
	done, err := do(w, update.SetRelease, change)
	require.NoError(t, err)
	require.Empty(t, done.KnownRuns)
	end.KnownRuns = change.KnownRuns
	_, err = do(w, update.WriteReport, end)
	require.NoError(t, err)
	require.Equal(t, "r1", w.site().Status.Run.RunID)
}

func TestARunThatCannotLookAtItsSiteKeepsTheRecordOfOneHalfWay(t *testing.T) {
	t.Parallel()
	for _, halfWay := range []bool{true, false} {
		w := newWorld(t, testSite(func(s *v1alpha1.DrupalSite) {
			s.Status.Run = &v1alpha1.RunStatus{RunID: "lost", Phase: "RollingBack", Message: "The update to 2.0 failed."}
			if halfWay {
				s.Annotations = map[string]string{v1alpha1.AnnotationUpdateInProgress: "true"}
			}
		}))
		_, err := do(w, update.WriteReport, update.Report{
			Site: blog, RunID: "r1", Phase: update.PhaseCodeFailed, Message: "The Deployment cannot be read.", Finished: true, Blind: true,
			Set: []update.Condition{{Type: v1alpha1.ConditionCodeUpdateFailed, Status: update.True, Reason: update.FailureForbidden, Message: "The Deployment cannot be read."}},
		})
		require.NoError(t, err)
		site := w.site()
		require.Equal(t, update.FailureForbidden, conditionOf(site, v1alpha1.ConditionCodeUpdateFailed).Reason)
		require.Equal(t, halfWay, site.InProgress())
		if halfWay {
			require.Equal(t, []string{"lost", "RollingBack"}, []string{site.Status.Run.RunID, site.Status.Run.Phase})
			require.Nil(t, conditionOf(site, v1alpha1.ConditionUpdating))
		} else {
			require.Equal(t, []string{"r1", "CodeUpdateFailed"}, []string{site.Status.Run.RunID, site.Status.Run.Phase})
		}
	}
}

func TestWhatAPersonSetByHandIsRemovedAsWell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(func(s *v1alpha1.DrupalSite) {
		s.Status.Release = v1alpha1.ReleaseStatus{Serving: "1.0", Failed: "1.5"}
		s.Status.Conditions = []metav1.Condition{{Type: "CodeUpdateFailed", Status: "True", Reason: "ByHand"}, {Type: "Ready", Status: "True", Reason: "r"}}
	}))
	_, err := do(w, update.WriteReport, update.Report{
		Site: blog, Releases: &update.Releases{Serving: "1.0", Failsafe: "1.0"}, Remove: []string{"CodeUpdateFailed"},
	})
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ReleaseStatus{Serving: "1.0", Failsafe: "1.0"}, w.site().Status.Release)
	require.Len(t, w.site().Status.Conditions, 1)
	require.Equal(t, "Ready", w.site().Status.Conditions[0].Type)
}

func TestACheckNeverOverrulesARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	twice(w, update.WriteReport, started())
	w.writes = 0
	twice(w, update.WriteReport, update.Report{Site: blog, OnlyIdle: true, Set: []update.Condition{{Type: "Initialized", Status: "True", Reason: "Installed"}}})
	require.Zero(t, w.writes)
	require.Nil(t, apimeta.FindStatusCondition(w.site().Status.Conditions, "Initialized"))
}

func TestAReportReadsAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	w.funcs.SubResourceApply = func(_ context.Context, _ client.Client, _ string, _ runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
		w.funcs.SubResourceApply = nil
		return apierrors.NewConflict(schema.GroupResource{Resource: "drupalsites"}, "blog", errors.New("modified"))
	}
	_, err := do(w, update.WriteReport, started())
	require.NoError(t, err)
	require.Equal(t, "r1", w.site().Status.Run.RunID)
}

func TestTheMarkIsThereBeforeTheStatusAndGoesAfterIt(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]update.Report{"mark": started(), "clear": rolledBack()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testSite(func(s *v1alpha1.DrupalSite) {
				if name == "clear" {
					s.Annotations = map[string]string{v1alpha1.AnnotationUpdateInProgress: "true"}
				}
			}))
			w.funcs.SubResourceApply = func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
				return apierrors.NewServiceUnavailable("down")
			}
			_, err := do(w, update.WriteReport, r)
			requireFailure(t, err, "")
			require.Equal(t, "true", w.site().Annotations[v1alpha1.AnnotationUpdateInProgress])
			w.funcs.SubResourceApply = nil
			_, err = do(w, update.WriteReport, r)
			require.NoError(t, err)
			require.Equal(t, name == "mark", w.site().InProgress(), "a mark that somebody else set is cleared as well")
		})
	}
}

func TestAnEventThatMayNotBeRecordedDecidesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	w.funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("no"))
	}
	_, err := do(w, update.WriteReport, started())
	require.NoError(t, err)
}

func TestStatusAndEventsLeadToThePageOfTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite())
	w.runsURL = "https://temporal.example.org/namespaces/ops/"
	_, err := do(w, update.WriteReport, started())
	require.NoError(t, err)
	page := "https://temporal.example.org/namespaces/ops/workflows/site%2Fsites%2Fblog/r1/history"
	require.Equal(t, page, w.site().Status.Run.URL)
	require.Equal(t, "Update from 1.0 to 2.0 started. "+page, w.events()[0].Message)
	long := rolledBack()
	long.Event.Message = strings.Repeat("x", 2*maxMessage)
	_, err = do(w, update.WriteReport, long)
	require.NoError(t, err)
	events := w.events()
	require.Len(t, events, 2)
	for _, e := range events {
		require.True(t, strings.HasSuffix(e.Message, " "+page))
		require.LessOrEqual(t, len(e.Message), maxMessage)
	}
}

func TestAReportOnASiteThatIsGone(t *testing.T) {
	t.Parallel()
	_, err := do(newWorld(t), update.WriteReport, started())
	requireFailure(t, err, update.FailureSiteGone)
}

func TestThoseBackupsAreListedThatTheVolumeKeeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(func(s *v1alpha1.DrupalSite) { s.Spec.Update.Backup.Keep = 4 }))
	take := func(n int, release string, set ...update.Condition) {
		_, err := do(w, update.WriteReport, update.Report{Site: blog, Set: set, Backup: &update.Backup{
			Name: fmt.Sprintf("b%02d", n), Release: release, TakenAt: noon.Add(time.Duration(n) * time.Minute), Bytes: 1, SHA256: "aa",
		}})
		require.NoError(t, err)
	}
	for n := range 12 {
		take(n, "1.0")
	}
	take(11, "1.0") // once more is once
	names := func() (list []string) {
		for _, b := range w.site().Status.Backups {
			list = append(list, b.Name)
		}
		return list
	}
	require.Equal(t, []string{"b11", "b10", "b09", "b08"}, names())

	failed := update.Condition{Type: "DBUpdatesFailed", Status: "True", Reason: "RestoreFailed", Message: "The backup is b09."}
	for n := 12; n < 24; n++ {
		take(n, "2.0", failed)
	}
	require.Equal(t, []string{"b23", "b22", "b21", "b20", "b09"}, names())
}
