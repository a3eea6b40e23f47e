//go:build e2e && !fault

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func TestAnUpdateIsLookedForOnlyWhenTheSiteIsInstalledAndRunning(t *testing.T) {
	t.Parallel()
	t.Run("not installed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.simsite("db", "create", w.database, "--password="+password)
		w.create()
		w.eventually("Initialized says that nothing is installed", func() error {
			if r := w.reason(v1alpha1.ConditionInitialized); r != v1alpha1.ReasonNotInstalled {
				return fmt.Errorf("its reason is %q", r)
			}
			return nil
		})
		w.want("10.3.2")
		w.seen()
		require.Zero(t, w.runs(), "no run is started for a site that is not installed")
	})
	t.Run("not running", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		before := w.runs()
		w.patch(&appsv1.Deployment{ObjectMeta: w.object().ObjectMeta}, `{"spec":{"replicas":0}}`)
		w.eventually("Ready is False", func() error {
			if r := w.reason(v1alpha1.ConditionReady); r != v1alpha1.ReasonScaledToZero {
				return fmt.Errorf("its reason is %q", r)
			}
			return nil
		})
		w.want("10.3.2")
		w.seen()
		require.Equal(t, before, w.runs())
		w.patch(&appsv1.Deployment{ObjectMeta: w.object().ObjectMeta}, `{"spec":{"replicas":1}}`)
		w.ends("10.3.2", update.PhaseSucceeded)
		w.serves("10.3.2")
	})
}

func TestWhenAnUpdateHasFailedAndTheDeploymentIsDeletedANewDeploymentIsEnsuredWithTheFailsafeRelease(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.want("10.4.0-cr-broken")
	w.ends("10.4.0-cr-broken", update.PhaseRolledBack)
	old, err := w.deployment()
	require.NoError(t, err)
	require.NoError(t, cluster.Delete(t.Context(), old))
	w.eventually("another Deployment is there", func() error {
		fresh, err := w.deployment()
		if err == nil && fresh.UID == old.UID {
			err = fmt.Errorf("it is still the old one")
		}
		return err
	})
	require.Equal(t, repository+":"+baseline, w.image())
	w.serves(baseline)
	require.Equal(t, update.ReasonCacheRebuildFailed, w.reason(v1alpha1.ConditionCodeUpdateFailed))
}

func TestAnExecGoesToAPodThatIsRunningNotToTheFirstPodOfTheList(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	d, err := w.deployment()
	require.NoError(t, err)
	// A pod that is first by name, matches the selector, and never runs: one for the list, none for an exec.
	decoy := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "aaa-first", Labels: d.Spec.Template.Labels},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "drupal", Image: "registry.example/busybox:1", Command: []string{"/bin/sh", "-c", "exit 1"}}},
		},
	}
	decoy.Labels = map[string]string{v1alpha1.LabelSite: w.name}
	for k, v := range d.Spec.Selector.MatchLabels {
		decoy.Labels[k] = v
	}
	decoy.OwnerReferences = nil
	require.NoError(t, cluster.Create(t.Context(), decoy))
	w.want("10.3.6")
	w.ends("10.3.6", update.PhaseSucceeded)
	for _, e := range w.journal("cr", "updatedb-start") {
		require.NotEqual(t, "aaa-first", e.Pod)
	}
	require.NotEmpty(t, w.journal("cr"))
	w.serves("10.3.6")
}

func TestAdminsMayEditTheResourcesTheImageInTheDeploymentIsKept(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	meta := metav1.ObjectMeta{Namespace: w.ns, Name: w.name}
	w.patch(&appsv1.Deployment{ObjectMeta: meta}, `{"metadata":{"labels":{"team":"web"}},"spec":{"replicas":2,"template":{"spec":{"terminationGracePeriodSeconds":5}}}}`)
	w.patch(&corev1.Service{ObjectMeta: meta}, `{"spec":{"sessionAffinity":"ClientIP"}}`)
	w.patch(&appsv1.Deployment{ObjectMeta: meta}, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[%s]}}}}`, w.container("registry.example/drupal:10.3.3")))
	w.eventually("the image is put back", func() error {
		if got := w.image(); got != repository+":"+baseline {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	w.want("10.3.2")
	w.ends("10.3.2", update.PhaseSucceeded)
	d, err := w.deployment()
	require.NoError(t, err)
	require.Equal(t, int32(2), *d.Spec.Replicas)
	require.Equal(t, int64(5), *d.Spec.Template.Spec.TerminationGracePeriodSeconds)
	require.Equal(t, "web", d.Labels["team"])
	service := &corev1.Service{}
	require.NoError(t, cluster.Get(t.Context(), w.key(), service))
	require.Equal(t, corev1.ServiceAffinityClientIP, service.Spec.SessionAffinity)
}

// container is the site's container as JSON, with another image: what kubectl edit would send.
func (w *world) container(image string) string {
	w.Helper()
	d, err := w.deployment()
	require.NoError(w, err)
	c := d.Spec.Template.Spec.Containers[0]
	c.Image = image
	raw, err := json.Marshal(c)
	require.NoError(w, err)
	return string(raw)
}

func TestInitializedTrueNothingIsDoneOtherwiseExecAndTheConditionIsSetAccordingly(t *testing.T) {
	t.Parallel()
	t.Run("installed", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		require.Equal(t, metav1.ConditionTrue, w.condition(v1alpha1.ConditionInitialized).Status)
		// Once True nobody asks again: with the database gone the condition stays.
		w.simsite("db", "down", w.database)
		w.patch(w.object(), `{"metadata":{"labels":{"touched":"yes"}}}`)
		w.stays("Initialized is True", func() bool {
			return w.condition(v1alpha1.ConditionInitialized).Status == metav1.ConditionTrue
		})
		w.simsite("db", "up", w.database)
	})
	t.Run("database down means unknown, never not installed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.install()
		w.simsite("db", "down", w.database)
		w.create(withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Install = &v1alpha1.InstallSpec{Profile: "minimal"} }))
		// A site whose database is down is not Ready by HTTP, so nobody asks; once it is back, the answer is True.
		w.simsite("db", "up", w.database)
		w.eventually("Initialized is True", func() error {
			if r := w.reason(v1alpha1.ConditionInitialized); r != v1alpha1.ReasonInstalled {
				return fmt.Errorf("its reason is %q", r)
			}
			return nil
		})
		require.Empty(t, w.journal("install"))
		require.Equal(t, "content", w.simsite("db", "get", w.database, "owner"))
	})
	t.Run("an empty database is installed once where the spec asks", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.simsite("db", "create", w.database, "--password="+password)
		w.create(withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Install = &v1alpha1.InstallSpec{Profile: "minimal"} }))
		w.eventually("Initialized is True", func() error {
			if r := w.reason(v1alpha1.ConditionInitialized); r != v1alpha1.ReasonInstalled {
				return fmt.Errorf("its reason is %q", r)
			}
			return nil
		})
		require.Len(t, w.journal("install"), 1)
	})
}

func TestRunningVersionDiffersFromTheSpecAnnotationUpdateInProgressLeadsToTheCodeUpdate(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.want("10.4.0-slow-start")
	w.eventually("the annotation is set while the code is updated", func() error {
		s := w.site()
		if s.Annotations[v1alpha1.AnnotationUpdateInProgress] != "true" || w.image() != repository+":10.4.0-slow-start" {
			return fmt.Errorf("annotations %v, image %s", s.Annotations, w.image())
		}
		return nil
	})
	require.Equal(t, metav1.ConditionTrue, w.condition(v1alpha1.ConditionUpdating).Status)
	w.ends("10.4.0-slow-start", update.PhaseSucceeded)
	require.NotContains(t, w.site().Annotations, v1alpha1.AnnotationUpdateInProgress)
	w.serves("10.4.0-slow-start")
}

func TestAReplicaSetOrPodThatKeepsFailingBecomesAPermanentFailure(t *testing.T) {
	t.Parallel()
	for target, reason := range map[string]string{
		"10.4.0-missing":   "ImagePullBackOff",
		"10.4.0-crashloop": "CrashLoopBackOff",
		"10.4.0-hangs":     update.ReasonRolloutTimeout,
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			w := newSite(t, withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Update.RolloutTimeout.Duration = 45 * time.Second }))
			w.want(target)
			s := w.ends(target, update.PhaseRolledBack)
			require.Equal(t, v1alpha1.ReleaseStatus{Serving: baseline, Failsafe: baseline, Target: target, Failed: target}, s.Status.Release)
			require.Equal(t, reason, w.reason(v1alpha1.ConditionCodeUpdateFailed))
			w.serves(baseline)
			runs := w.runs()
			w.stays("the failed target is not tried again", func() bool { return w.runs() == runs })
		})
	}
}

func TestDrushCrRunsTwiceThenTheVersionIsRolledBackAndCodeUpdateFailedIsSet(t *testing.T) {
	t.Parallel()
	t.Run("fails always", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want("10.4.0-cr-broken")
		w.ends("10.4.0-cr-broken", update.PhaseRolledBack)
		require.Len(t, w.journal("cr-failed"), 2)
		require.Equal(t, update.ReasonCacheRebuildFailed, w.reason(v1alpha1.ConditionCodeUpdateFailed))
		require.NotContains(t, w.site().Annotations, v1alpha1.AnnotationUpdateInProgress)
		w.serves(baseline)
		w.want("10.3.2") // another release is tried, and the condition goes
		w.ends("10.3.2", update.PhaseSucceeded)
		require.Nil(t, w.condition(v1alpha1.ConditionCodeUpdateFailed))
	})
	t.Run("fails once", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want("10.4.0-cr-fails-once")
		w.ends("10.4.0-cr-fails-once", update.PhaseSucceeded)
		require.Len(t, w.journal("cr-failed"), 1)
		w.serves("10.4.0-cr-fails-once")
	})
}

func TestAFailedTargetIsTriedAgainWhenARetryIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newSite(t, withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Update.CacheRebuildAttempts = 1 }))
	w.want("10.4.0-cr-fails-once")
	w.ends("10.4.0-cr-fails-once", update.PhaseRolledBack)
	w.annotate(v1alpha1.AnnotationRetry, "the cache is repaired")
	w.eventually("the second attempt succeeds", func() error {
		if s := w.site(); s.Status.Release.Serving != "10.4.0-cr-fails-once" || s.Status.ObservedRetry != "the cache is repaired" {
			return fmt.Errorf("releases %+v, retry %q", s.Status.Release, s.Status.ObservedRetry)
		}
		return nil
	})
	require.Nil(t, w.condition(v1alpha1.ConditionCodeUpdateFailed))
	w.serves("10.4.0-cr-fails-once")
}

func TestEveryDatabaseIsBackedUpAndRestored(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgsql", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			require.NoError(t, cluster.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "blog-db"}}))
			w.secret(driver)
			if driver == "pgsql" {
				w.install()
			}
			w.create(withSpec(func(s *v1alpha1.DrupalSiteSpec) {
				s.Files = &v1alpha1.FilesSpec{Size: "1Gi"}
				s.Install = &v1alpha1.InstallSpec{Profile: "minimal"} // the database file is empty when the volume is new
			}))
			w.ends(baseline, update.PhaseSucceeded)
			w.want("10.4.0-hook-exception")
			w.ends("10.4.0-hook-exception", update.PhaseRestored)
			w.serves(baseline)
			w.want("10.3.6") // and the restored database can be updated
			w.ends("10.3.6", update.PhaseSucceeded)
			w.serves("10.3.6")
		})
	}
}

func TestDatabaseUpdatesNeededMaintenanceModeOnUpdatedbMaintenanceModeOffFromOneScript(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.want("10.4.0-slow-update")
	w.eventually("DBUpdatesPending is set while the operation runs", func() error {
		if r := w.reason(v1alpha1.ConditionDBUpdatesPending); r != v1alpha1.ReasonUpdatesPending {
			return fmt.Errorf("its reason is %q", r)
		}
		return nil
	})
	w.ends("10.4.0-slow-update", update.PhaseSucceeded)
	started := w.journal("maint-on", "dump", "updatedb-start", "updatedb-end", "maint-off")
	var order []string
	pods := map[string]bool{}
	for _, e := range started {
		order = append(order, e.Event)
		pods[e.Pod] = true
	}
	require.Equal(t, []string{"maint-on", "dump", "updatedb-start", "updatedb-end", "maint-off"}, order)
	require.Len(t, pods, 1, "one script in one pod")
	require.True(t, started[2].Maintenance)
	require.Len(t, w.site().Status.Backups, 1)
	require.Equal(t, "0", w.maintenance())
	w.serves("10.4.0-slow-update")
}

func TestThatFailsDBUpdatesFailedAPermanentErrorNoMoreReconcilingOfIt(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"10.4.0-hook-exception", "10.4.0-hook-error", "10.4.0-exit0-not-applied"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			w := newSite(t)
			w.want(target)
			w.ends(target, update.PhaseRestored)
			require.Equal(t, update.ReasonRestored, w.reason(v1alpha1.ConditionDBUpdatesFailed))
			require.Len(t, w.journal("updatedb-start"), 1)
			require.Len(t, w.journal("restore"), 1)
			require.Equal(t, "0", w.maintenance())
			w.serves(baseline)
			require.NotContains(t, w.simsite("db", "show", w.database), "study_upd_partial", "nothing of the failed update is left")
			runs := w.runs()
			w.stays("the failed target is not tried again", func() bool { return w.runs() == runs })
		})
	}
	t.Run("frozen", func(t *testing.T) {
		t.Parallel()
		w := newSite(t, withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Update.OnDatabaseFailure = v1alpha1.FreezeSite }))
		w.want("10.4.0-hook-exception")
		w.ends("10.4.0-hook-exception", update.PhaseFrozen)
		require.Equal(t, update.ReasonFrozen, w.reason(v1alpha1.ConditionDBUpdatesFailed))
		require.Equal(t, "1", w.maintenance())
		require.Equal(t, repository+":10.4.0-hook-exception", w.image())
		require.Empty(t, w.journal("restore"))
	})
}

func TestItSucceedsAnnotationAndDBUpdatesPendingAreRemoved(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"10.3.6", "10.4.0-exit1-applied", "10.4.0-polluted"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			w := newSite(t)
			w.want(target)
			s := w.ends(target, update.PhaseSucceeded)
			require.NotContains(t, s.Annotations, v1alpha1.AnnotationUpdateInProgress)
			require.Nil(t, w.condition(v1alpha1.ConditionDBUpdatesPending))
			require.Nil(t, w.condition(v1alpha1.ConditionDBUpdatesFailed))
			require.Equal(t, v1alpha1.ReleaseStatus{Serving: target, Failsafe: target, Target: target}, s.Status.Release)
			require.Len(t, w.journal("updatedb-start"), 1)
			w.serves(target)
		})
	}
	t.Run("unless DBUpdatesFailed is set", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want("10.4.0-hook-exception")
		w.ends("10.4.0-hook-exception", update.PhaseRestored)
		require.NotNil(t, w.condition(v1alpha1.ConditionDBUpdatesPending))
	})
}

func TestDBUpdatesPendingSetAndDBUpdatesFailedNotExecAndConfirmNothingPendingItIsRemoved(t *testing.T) {
	t.Parallel()
	t.Run("nothing pending", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		runs := w.runs()
		w.setCondition(v1alpha1.ConditionDBUpdatesPending, "True", v1alpha1.ReasonUpdatesPending)
		w.eventually("the condition is removed", func() error {
			if r := w.reason(v1alpha1.ConditionDBUpdatesPending); r != "" {
				return fmt.Errorf("its reason is %q", r)
			}
			return nil
		})
		require.Equal(t, runs, w.runs(), "a check is enough")
	})
	t.Run("pending after all", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.install()
		w.create(withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Release = "10.3.6" }))
		s := w.ends("10.3.6", update.PhaseSucceeded) // the database of 10.3.1 needs updates from the start
		require.Equal(t, "10.3.6", s.Status.Release.Failsafe)
		require.Len(t, w.journal("updatedb-start"), 1)
		w.serves("10.3.6")
	})
}

func TestAnUpdateRunCanBeReadInTheTemporalWebUI(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.want("10.3.6")
	s := w.ends("10.3.6", update.PhaseSucceeded)
	w.closes(s.Status.Run, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	details := w.cli("workflow", "metadata", "--workflow-id", s.Status.Run.WorkflowID, "--run-id", s.Status.Run.RunID)
	for _, word := range []string{w.ns + "/blog", baseline, "10.3.6", string(update.PhaseSucceeded)} {
		require.Contains(t, details, word)
	}
	history := w.cli("workflow", "show", "--workflow-id", s.Status.Run.WorkflowID, "--run-id", s.Status.Run.RunID, "-o", "json")
	for _, word := range []string{"WaitRollout", "RunOperation", "PendingUpdates"} {
		require.Contains(t, history, word)
	}
	require.NotContains(t, history, password)
	list := w.cli("workflow", "list", "--query", fmt.Sprintf("DrupalNamespace = %q", w.ns), "-o", "json")
	require.Contains(t, list, s.Status.Run.WorkflowID)
}

func TestARunIsSignalledAndCancelledWithTemporal(t *testing.T) {
	t.Parallel()
	t.Run("pause, query, resume", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want("10.4.0-slow-start")
		w.reaches(update.PhaseRollingOut)
		id := "site/" + w.ns + "/" + w.name
		w.cli("workflow", "signal", "--workflow-id", id, "--name", update.SignalPause)
		w.eventually("the query tells that it is paused", func() error {
			if out := w.cli("workflow", "query", "--workflow-id", id, "--type", update.QueryState); !strings.Contains(out, "paused") {
				return fmt.Errorf("it says %s", out)
			}
			return nil
		})
		w.cli("workflow", "signal", "--workflow-id", id, "--name", update.SignalResume)
		w.ends("10.4.0-slow-start", update.PhaseSucceeded)
	})
	t.Run("abort", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want("10.4.0-hangs")
		w.reaches(update.PhaseRollingOut)
		w.cli("workflow", "signal", "--workflow-id", "site/"+w.ns+"/"+w.name, "--name", update.SignalAbort)
		w.ends("10.4.0-hangs", update.PhaseAborted)
		require.Equal(t, update.ReasonAborted, w.reason(v1alpha1.ConditionCodeUpdateFailed))
		w.serves(baseline)
	})
	t.Run("cancel before the database step rolls back", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want("10.4.0-hangs")
		w.reaches(update.PhaseRollingOut)
		w.cli("workflow", "cancel", "--workflow-id", "site/"+w.ns+"/"+w.name)
		s := w.ends("10.4.0-hangs", update.PhaseAborted)
		w.closes(s.Status.Run, enums.WORKFLOW_EXECUTION_STATUS_CANCELED)
		w.serves(baseline)
	})
	t.Run("cancel in the database step lets it finish", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want("10.4.0-slow-update")
		w.reaches(update.PhaseUpdatingDatabase)
		w.cli("workflow", "cancel", "--workflow-id", "site/"+w.ns+"/"+w.name)
		w.ends("10.4.0-slow-update", update.PhaseSucceeded)
		require.Len(t, w.journal("updatedb-start"), 1)
		w.serves("10.4.0-slow-update")
	})
	t.Run("a new target is a signal", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		runs := w.runs()
		w.want("10.4.0-hangs")
		w.reaches(update.PhaseRollingOut)
		w.want("10.3.2")
		w.ends("10.3.2", update.PhaseSucceeded)
		require.LessOrEqual(t, w.runs(), runs+1, "the open run took the new target")
		w.serves("10.3.2")
	})
	t.Run("terminate is recovered", func(t *testing.T) {
		t.Parallel()
		w := newSite(t)
		w.want("10.4.0-slow-update")
		w.reaches(update.PhaseUpdatingDatabase)
		w.cli("workflow", "terminate", "--workflow-id", "site/"+w.ns+"/"+w.name)
		w.ends("10.4.0-slow-update", update.PhaseSucceeded)
		require.Len(t, w.journal("updatedb-start"), 1, "the recovery run found the same Job")
		require.Equal(t, "0", w.maintenance())
		w.serves("10.4.0-slow-update")
	})
}

func TestDeletedChildrenComeBack(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name}}
	require.NoError(t, cluster.Delete(t.Context(), service))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name + "-config"}}
	require.NoError(t, cluster.Delete(t.Context(), config))
	w.eventually("Service and ConfigMap are back", func() error {
		if err := cluster.Get(t.Context(), kube.ObjectKeyFromObject(service), &corev1.Service{}); err != nil {
			return err
		}
		return cluster.Get(t.Context(), kube.ObjectKeyFromObject(config), &corev1.ConfigMap{})
	})
}

func TestASiteDeletedDuringARunEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.want("10.4.0-hangs")
	w.reaches(update.PhaseRollingOut)
	run := w.site().Status.Run
	require.NoError(t, cluster.Delete(t.Context(), w.object()))
	w.vanishes("the resource is gone: no finalizer holds it", run)
}

func TestALostWorkerLosesNothing(t *testing.T) {
	w := newSite(t) // not parallel: a process that every other test needs is killed
	w.want("10.4.0-slow-update")
	w.reaches(update.PhaseUpdatingDatabase)
	w.eventually("updatedb runs", func() error {
		if len(w.journal("updatedb-start")) == 0 {
			return fmt.Errorf("it has not started")
		}
		return nil
	})
	require.NoError(t, worker.kill())
	var err error
	worker, err = startWorker()
	require.NoError(t, err)
	w.ends("10.4.0-slow-update", update.PhaseSucceeded)
	require.Len(t, w.journal("updatedb-start"), 1)
	require.Equal(t, "0", w.maintenance())
	w.serves("10.4.0-slow-update")
}

func TestControllersOfTheClusterThatAreAwayFailNoRelease(t *testing.T) {
	// not parallel: a process that every other test needs is killed
	w := newSite(t, withSpec(func(s *v1alpha1.DrupalSiteSpec) { s.Update.RolloutTimeout.Duration = 15 * time.Second }))
	controllers := func(verb string) {
		t.Helper()
		out, err := exec.Command(filepath.Join(state, "bin", "localstack"), "--state", state, verb, "kube-controller-manager").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	controllers("kill")
	t.Cleanup(func() { controllers("start") })
	w.want("10.3.2")
	w.eventually("the condition says what the update waits for", func() error {
		if c := w.condition(v1alpha1.ConditionUpdating); c == nil || !strings.Contains(c.Message, "Waiting: for the Deployment controller") {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	controllers("start")
	w.ends("10.3.2", update.PhaseSucceeded)
	require.Nil(t, w.condition(v1alpha1.ConditionCodeUpdateFailed))
	w.serves("10.3.2")
}

func TestALostWatcherIsReplacedWhenItsLeaseEnds(t *testing.T) {
	w := newSite(t) // not parallel: a process that every other test needs is killed
	require.NoError(t, watcher.kill())
	var err error
	watcher, err = startWatcher("KUBE_FEATURE_WatchListClient=false") // it lists, as with an API server that cannot stream lists
	require.NoError(t, err)
	w.want("10.3.2")
	w.ends("10.3.2", update.PhaseSucceeded)
}

// closes waits until the run is closed with a status.
func (w *world) closes(run *v1alpha1.RunStatus, status enums.WorkflowExecutionStatus) {
	w.Helper()
	w.eventually("the run is "+status.String(), func() error {
		description, err := temporal.DescribeWorkflow(w.Context(), run.WorkflowID, run.RunID)
		if err == nil && description.Status != status {
			err = fmt.Errorf("it is %s", description.Status)
		}
		return err
	})
}

// seen waits until the watcher has seen the spec as it is.
func (w *world) seen() {
	w.Helper()
	w.eventually("the watcher has seen the new release", func() error {
		if s := w.site(); s.Status.ObservedGeneration != s.Generation {
			return fmt.Errorf("observed %d of %d", s.Status.ObservedGeneration, s.Generation)
		}
		return nil
	})
}

// vanishes waits until the resource is gone, and its open run has ended.
func (w *world) vanishes(what string, run *v1alpha1.RunStatus) {
	w.Helper()
	w.eventually(what, func() error {
		if err := cluster.Get(w.Context(), w.key(), w.object()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the site answers %w", err)
		}
		return nil
	})
	w.eventually("the run ends", func() error {
		description, err := temporal.DescribeWorkflow(w.Context(), run.WorkflowID, run.RunID)
		if err == nil && description.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			err = fmt.Errorf("it is still open")
		}
		return err
	})
}

// stays asserts that something holds now and for the next seconds.
func (w *world) stays(what string, holds func() bool) {
	w.Helper()
	until := time.Now().Add(4 * time.Second)
	require.NoError(w, try(10*time.Second, func() error {
		require.True(w, holds(), what)
		if time.Now().Before(until) {
			return fmt.Errorf("not looked at for long enough")
		}
		return nil
	}))
}

// runs counts the executions of UpdateSite for the site, open and closed.
func (w *world) runs() int {
	w.Helper()
	list, err := temporal.ListWorkflow(w.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = 'site/%s/%s'", w.ns, w.name),
	})
	require.NoError(w, err)
	return len(list.Executions)
}

// cli runs the temporal command, as an operator would, who says it again when Temporal is busy with that very workflow.
func (w *world) cli(args ...string) string {
	w.Helper()
	var out []byte
	w.eventually("Temporal is not busy", func() error {
		var err error
		out, err = exec.CommandContext(w.Context(), filepath.Join(state, "bin", "temporal"), args...).CombinedOutput()
		if err != nil && bytes.Contains(out, []byte("Workflow is busy")) {
			return err
		}
		require.NoError(w, err, "temporal %v: %s", args, out)
		return nil
	})
	return string(out)
}
