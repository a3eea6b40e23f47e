//go:build fault

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// wrong is one way in which a person makes the world wrong, and what the judge must say then.
type wrong struct {
	name      string
	invariant int
	says      string
	do        func(*control)
	undo      func(*control)
}

// control is a real site after a good update with a database step, and drupdate stopped, so that nobody mends the world.
type control struct {
	*testing.T
	*round
}

// TestTheJudgeSeesAWrongWorld makes the world wrong by hand, one thing after the other: the judge must notice each.
func TestTheJudgeSeesAWrongWorld(t *testing.T) {
	w := newWave(wavePlan{sites: []plan{{
		scenario: scenarios()[2], policy: v1alpha1.RestoreDatabase, driver: "mysql", replicas: 1, cron: true, pace: 0.05,
	}}}, 1)
	defer w.tearDown()
	c := &control{t, w.rounds[0]}
	require.Equal(t, "database updates", c.scenario.name)
	require.NoError(t, c.set(t.Context()))
	watching, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		c.watch(watching)
		close(done)
	}()
	require.NoError(t, c.run(t.Context()))
	require.NoError(t, try(10*time.Second, func() error { return c.visitedTwice() }))
	stop()
	<-done
	require.Empty(t, c.judged(), "the world is as it should be")

	shared.worker.retire()
	shared.watcher.retire()
	defer func() {
		shared.worker, shared.watcher = shared.newDaemon("worker"), shared.newDaemon("watcher")
		require.NoError(t, shared.whole(time.Minute))
	}()
	annotate(`"true"`)(c)
	require.ErrorContains(t, c.quiet(t.Context()), "no run is open", "what is left to do is not quiet")
	annotate("null")(c)
	for _, one := range wrongs() {
		t.Run(fmt.Sprintf("%d %s", one.invariant, one.name), func(t *testing.T) {
			c := &control{t, c.round}
			one.do(c)
			found := c.judged()
			require.True(t, slices.ContainsFunc(found, func(v violation) bool {
				return v.invariant == one.invariant && strings.Contains(v.text, one.says)
			}), "the judge says only %v", found)
			if one.undo != nil {
				one.undo(c)
				require.Empty(t, c.judged(), "all is well again")
			}
		})
	}
}

func (c *control) visitedTwice() error {
	if n := len(c.visited()); n < 2 {
		return fmt.Errorf("visitors wrote %d rows", n)
	}
	return nil
}

func (c *control) judged() []violation {
	c.Helper()
	f, err := c.gather(c.Context())
	require.NoError(c, err)
	return judge(c.round, f)
}

func (c *control) play(args ...string) {
	c.Helper()
	code, said := c.simsite("", args...)
	require.Zero(c, code, said)
}

func (c *control) playAt(release string, args ...string) {
	c.Helper()
	code, said := c.simsiteAt(release, c.databaseName(), "", args...)
	require.Zero(c, code, said)
}

func (c *control) backupFile(suffix string) string {
	c.Helper()
	dir, err := c.volume(c.name + "-backups")
	require.NoError(c, err)
	found, err := filepath.Glob(filepath.Join(dir, "*."+suffix))
	require.NoError(c, err)
	require.Len(c, found, 1)
	return found[0]
}

// status edits the status as an administrator with the worker's name would.
func (c *control) status(edit func(*v1alpha1.DrupalSiteStatus)) {
	c.Helper()
	site, err := c.site(c.Context())
	require.NoError(c, err)
	edit(&site.Status)
	require.NoError(c, cluster.Status().Update(c.Context(), site, kube.FieldOwner(v1alpha1.ManagerWorker)))
}

func condition(kind, status, reason string) func(*control) {
	return func(c *control) {
		c.status(func(s *v1alpha1.DrupalSiteStatus) {
			apimeta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "By hand."})
		})
	}
}

func noCondition(kind string) func(*control) {
	return func(c *control) {
		c.status(func(s *v1alpha1.DrupalSiteStatus) { apimeta.RemoveStatusCondition(&s.Conditions, kind) })
	}
}

func releases(edit func(*v1alpha1.ReleaseStatus)) func(*control) {
	return func(c *control) {
		c.status(func(s *v1alpha1.DrupalSiteStatus) { edit(&s.Release) })
	}
}

// database changes the database past everybody else.
func database(verb string, args ...string) func(*control) {
	return func(c *control) { c.play(append([]string{"simsite", "db", verb, c.databaseName()}, args...)...) }
}

// saved lets undo put back what do has overwritten.
var saved []byte

func overwrite(suffix string, with string) (do, undo func(*control)) {
	return func(c *control) {
			path := c.backupFile(suffix)
			raw, err := os.ReadFile(path)
			require.NoError(c, err)
			saved = raw
			require.NoError(c, os.WriteFile(path, []byte(with), 0o644))
		}, func(c *control) {
			require.NoError(c, os.WriteFile(c.backupFile(suffix), saved, 0o644))
		}
}

func annotate(value string) func(*control) {
	return func(c *control) {
		require.NoError(c, cluster.Patch(c.Context(), c.object(), merge(`{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.AnnotationUpdateInProgress, value)))
	}
}

func cronSuspended(value string) func(*control) {
	return func(c *control) {
		job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "yearly"}}
		require.NoError(c, cluster.Patch(c.Context(), job, merge(`{"spec":{"suspend":%s}}`, value)))
	}
}

// strayJob is a Job that never ends, and that nothing cleans up.
func strayJob(c *control) {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "stray"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{Name: "stray", Image: "registry.example/busybox:1"}},
		}}},
	}
	require.NoError(c, cluster.Create(c.Context(), job))
}

func noStrayJob(c *control) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "stray"}}
	require.NoError(c, cluster.Delete(c.Context(), job, kube.PropagationPolicy(metav1.DeletePropagationForeground)))
	require.NoError(c, try(time.Minute, func() error {
		jobs, pods, err := c.jobs(c.Context())
		if err == nil && len(jobs)+len(pods) > 0 {
			err = fmt.Errorf("it is still there")
		}
		return err
	}))
}

// litterFile is left by an operation that another one, which ended later, did not clean up after.
func litterFile(name string) (do, undo func(*control)) {
	path := func(c *control) string { return filepath.Join(filepath.Dir(c.backupFile("meta")), name) }
	return func(c *control) {
		require.NoError(c, os.WriteFile(path(c), []byte("left"), 0o644))
		old := time.Now().Add(-time.Hour)
		require.NoError(c, os.Chtimes(path(c), old, old))
	}, func(c *control) { require.NoError(c, os.Remove(path(c))) }
}

// askedBack makes a restore on demand of the round, which never was.
func askedBack(c *control) { c.rewind = &rewind{backup: "blog-x", from: time.Now(), to: time.Now()} }

func neverAskedBack(c *control) { c.rewind = nil }

// claimedBack says that the restore was made, while the row that it takes away is there.
func claimedBack(c *control) {
	askedBack(c)
	database("set", latest, "yes")(c)
	c.status(func(s *v1alpha1.DrupalSiteStatus) { s.Run.Phase = string(update.PhaseRewound) })
}

func noClaim(c *control) {
	neverAskedBack(c)
	database("set", latest, "")(c)
	c.status(func(s *v1alpha1.DrupalSiteStatus) { s.Run.Phase = string(update.PhaseSucceeded) })
}

func wrongs() []wrong {
	damage, repair := overwrite("sql", "-- Dump completed on a lie\n")
	swap, unswap := overwrite("meta", "driver=mysql\nfile=none\nsha256=other\ntakenAt=2026-01-01T00:00:00Z\n")
	partial, noPartial := litterFile("blog-x.partial")
	work, noWork := litterFile(".abc.work")
	other := "10.3.2"
	return []wrong{
		{"maintenance mode is left on", 2, "maintenance mode is true", database("maint", "1"), database("maint", "0")},
		{"a claim of failed code", 4, "ended with Succeeded, reason \"CacheRebuildFailed\"", condition(v1alpha1.ConditionCodeUpdateFailed, "True", "CacheRebuildFailed"), noCondition(v1alpha1.ConditionCodeUpdateFailed)},
		{"a claim of a failed database update", 4, "reason \"Restored\"", condition(v1alpha1.ConditionDBUpdatesFailed, "True", "Restored"), noCondition(v1alpha1.ConditionDBUpdatesFailed)},
		{"a claim of pending updates", 4, "nothing is pending", condition(v1alpha1.ConditionDBUpdatesPending, "True", "UpdatesPending"), noCondition(v1alpha1.ConditionDBUpdatesPending)},
		{"Ready is not so", 4, "Ready is false", condition(v1alpha1.ConditionReady, "False", "NoPodAvailable"), condition(v1alpha1.ConditionReady, "True", "PodsAvailable")},
		{"Initialized is not so", 4, "Initialized", condition(v1alpha1.ConditionInitialized, "Unknown", "ProbeFailed"), condition(v1alpha1.ConditionInitialized, "True", "Installed")},
		{"Updating is not so", 4, "Updating is", condition(v1alpha1.ConditionUpdating, "True", "Succeeded"), condition(v1alpha1.ConditionUpdating, "False", "Succeeded")},
		{"the mark is left", 4, "updateInProgress", annotate(`"true"`), annotate("null")},
		{"another release is said to serve", 4, "status.release.serving is " + other, releases(func(r *v1alpha1.ReleaseStatus) { r.Serving = other }), releases(func(r *v1alpha1.ReleaseStatus) { r.Serving = r.Target })},
		{"a run nobody asked for", 4, "nobody asked for", releases(func(r *v1alpha1.ReleaseStatus) { r.Target = "9.9.9" }), releases(func(r *v1alpha1.ReleaseStatus) { r.Target = r.Serving })},
		{"the site does not serve", 5, "answers 500", database("down"), database("up")},
		{"a damaged backup", 6, "cannot be restored", damage, repair},
		{"a backup that was overwritten", 6, "another checksum", swap, unswap},
		{"content is lost", 6, "lost its owner's content", database("set", "owner", "somebody"), database("set", "owner", "content")},
		{"a visitor's row is lost", 6, "rows that visitors wrote", database("set", "visit-1", ""), database("set", "visit-1", "was here")},
		{"an update was applied twice", 1, "applied 2 times", database("set", "study_upd_update_10001", "2"), database("set", "study_upd_update_10001", "1")},
		{"a Job runs", 7, "the Job stray still runs", strayJob, noStrayJob},
		{"a CronJob is left suspended", 7, "the CronJob yearly is suspended: true", cronSuspended("true"), cronSuspended("false")},
		{"a partial backup is left", 7, "blog-x.partial", partial, noPartial},
		{"a work folder is left", 7, ".abc.work", work, noWork},
		{"what a restore replaced is gone", 6, "in none of the backups", askedBack, neverAskedBack},
		{"a restore that was not made", 6, "and it was not", claimedBack, noClaim},
		{"updatedb by hand", 1, "without a backup of its own", func(c *control) { c.playAt("10.3.8", "drush", "updatedb", "-y") }, nil},
		{"the schema that is left by it", 3, "does not fit", func(*control) {}, nil},
		{"a run that is not recorded", 8, "status.run is empty", func(c *control) { c.status(func(s *v1alpha1.DrupalSiteStatus) { s.Run = nil }) }, nil},
	}
}

// TestWhatTheCollectorForgotIsSeen tells an object without its owner from one with it, and from one that never had one.
func TestWhatTheCollectorForgotIsSeen(t *testing.T) {
	controller := true
	pod := func(name string, owners ...metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
	}
	of := func(uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{Kind: "ReplicaSet", Name: "blog-1", UID: uid, Controller: &controller}
	}
	owners := map[types.UID]bool{"made-anew": true}
	require.NoError(t, ownerGone(owners, []kube.Object{pod("by-hand"), pod("owned", of("made-anew"))}))
	err := ownerGone(owners, []kube.Object{pod("owned", of("made-anew")), pod("forgotten", of("deleted"))})
	require.ErrorIs(t, err, errUncollected)
	require.ErrorContains(t, err, "forgotten")
}
