//go:build fault

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/simsite"
	"github.com/drupdate/drupdate/internal/update"
)

// How long a site may take to become quiet. The machine may be slow, so what counts is that nothing moves: no run has a
// new event in its history. The longest pause that drupdate makes by itself is the watcher's two minutes after an outage of
// Temporal, the longest single step is a rollout that does not come up.
const (
	stillLimit  = 6 * time.Minute
	settleLimit = 25 * time.Minute
)

// collectLimit is what the garbage collector of Kubernetes gets for what nobody owns any more.
const collectLimit = time.Minute

// errUncollected says that an object is still there whose owner is gone.
var errUncollected = errors.New("its owner is gone, and the garbage collector has not taken it")

// errNoRun says that no run is open.
var errNoRun = errors.New("no run is open")

func noRun(err error) bool {
	var gone *serviceerror.NotFound
	return errors.Is(err, errNoRun) || errors.As(err, &gone)
}

// backupSeen is a finished backup as it was when it was first seen.
type backupSeen struct {
	sha     string
	started bool
}

// round is one site in a wave.
type round struct {
	plan
	wave     *wave
	ns, name string
	disk     string

	mu      sync.Mutex
	excuses map[excuse]bool
	// asked are the releases that were asked for, the last one is the wanted one.
	asked  []scenario
	notes  []string
	fired  map[string]bool
	missed []string
	// visits are the rows that visitors wrote, with the time at which the database took them.
	visits map[string]time.Time
	seen   map[string]backupSeen
	// offset is where the part of the journal begins that is judged.
	offset int
	broken []violation
}

// violation is an invariant that does not hold.
type violation struct {
	invariant int
	text      string
}

func (v violation) String() string { return fmt.Sprintf("[%d] %s", v.invariant, v.text) }

func newRound(w *wave, p plan) *round {
	return &round{
		plan: p, wave: w, name: "blog", asked: nil, excuses: map[excuse]bool{}, fired: map[string]bool{},
		visits: map[string]time.Time{}, seen: map[string]backupSeen{},
	}
}

func (r *round) excused(e excuse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.excuses[e] {
		r.notes = append(r.notes, stamped("excuse: "+string(e)))
	}
	r.excuses[e] = true
}

func (r *round) has(e excuse) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.excuses[e]
}

func stamped(text string) string { return time.Now().UTC().Format("15:04:05.000") + " " + text }

func (r *round) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, stamped(fmt.Sprintf(format, args...)))
}

func (r *round) violated(invariant int, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := violation{invariant, fmt.Sprintf(format, args...)}
	if !slices.Contains(r.broken, v) {
		r.broken = append(r.broken, v)
	}
}

func (r *round) meta() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: r.ns, Name: r.name} }

func (r *round) object() *v1alpha1.DrupalSite { return &v1alpha1.DrupalSite{ObjectMeta: r.meta()} }

func (r *round) key() kube.ObjectKey { return kube.ObjectKey{Namespace: r.ns, Name: r.name} }

func (r *round) workflow() string { return update.Site{Namespace: r.ns, Name: r.name}.UpdateID() }

func (r *round) check() string { return update.Site{Namespace: r.ns, Name: r.name}.CheckID() }

func (r *round) site(ctx context.Context) (*v1alpha1.DrupalSite, error) {
	s := &v1alpha1.DrupalSite{}
	return s, cluster.Get(ctx, r.key(), s)
}

// want asks for a release.
func (r *round) want(ctx context.Context, sc scenario) error {
	r.mu.Lock()
	r.asked = append(r.asked, sc)
	r.mu.Unlock()
	return retried(ctx, func(ctx context.Context) error {
		return cluster.Patch(ctx, r.object(), merge(`{"spec":{"release":%q}}`, sc.release))
	})
}

// wanted is the release that was asked for last.
func (r *round) wanted() scenario {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[len(r.asked)-1]
}

// databases is the folder that plays the database server.
func databases() string { return filepath.Join(state, "databases") }

// database is the name of the site's database in the server, and in the journal.
func (r *round) database() string { return r.ns + "-blog" }

// databaseName is the database for `simsite db`: a path with SQLite.
func (r *round) databaseName() string {
	if r.driver != "sqlite" {
		return r.database()
	}
	dir, err := r.volume(r.name + "-files")
	if err != nil {
		return filepath.Join(databases(), r.database()+".missing")
	}
	return filepath.Join(dir, "site.db")
}

// simsite plays one of the simulated programs from outside of the cluster, on the site's own database.
func (r *round) simsite(stdin string, args ...string) (int, string) {
	return r.simsiteAt(baseline, r.databaseName(), stdin, args...)
}

func (r *round) simsiteAt(release, database, stdin string, args ...string) (int, string) {
	env := []string{
		"SIMSITE_DIR=" + databases(), "SIMSITE_RELEASE=" + release, "SIMSITE_WORDS=good", "SIMSITE_CHAIN=2", "HOME=/root",
		"DB_DRIVER=" + r.driver, "DB_HOST=127.0.0.1", "DB_USER=drupal", "DB_PASSWORD=" + password,
		"HOSTNAME=by-hand",
	}
	if r.driver == "sqlite" {
		env = append(env, "DB_PATH="+database, "DB_NAME="+r.database())
	} else {
		env = append(env, "DB_NAME="+database)
	}
	var out, errs bytes.Buffer
	code := simsite.Run(args, env, strings.NewReader(stdin), &out, &errs)
	if code != 0 {
		return code, strings.TrimSpace(out.String() + errs.String())
	}
	return 0, out.String()
}

// content is what the database holds.
func (r *round) content() (*simsite.State, error) { return r.contentOf(r.databaseName()) }

func (r *round) contentOf(database string) (*simsite.State, error) {
	code, out := r.simsite("", "simsite", "db", "show", database)
	if code != 0 {
		return nil, fmt.Errorf("simsite db show: %s", out)
	}
	s := &simsite.State{}
	return s, json.Unmarshal([]byte(out), s)
}

func (r *round) journal() ([]simsite.Event, error) {
	return simsite.Journal(databases(), r.database())
}

// volume is the folder behind a claim of the site's.
func (r *round) volume(claim string) (string, error) {
	matches, err := filepath.Glob(filepath.Join(state, "volumes", r.ns+"-"+claim+"-pvc-*"))
	if err == nil && len(matches) != 1 {
		err = fmt.Errorf("claim %q has %d volumes", claim, len(matches))
	}
	if err != nil {
		return "", err
	}
	return matches[0], nil
}

// ---- setting up

// set makes the site as it is before the update, installed and verified at the baseline.
func (r *round) set(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("fault-%d-%d-", r.seed, r.index)}}
	if err := cluster.Create(ctx, ns); err != nil {
		return err
	}
	r.ns = ns.Name
	if err := r.setDatabase(ctx); err != nil {
		return err
	}
	if r.cron {
		for name, suspended := range cronJobs() {
			if err := cluster.Create(ctx, r.cronJob(name, suspended)); err != nil {
				return err
			}
		}
	}
	r.asked = []scenario{{"the baseline", baseline, succeeds, nil, 0}}
	if err := cluster.Create(ctx, r.resource()); err != nil {
		return err
	}
	if r.fillsDisk() {
		if err := try(time.Minute, func() error { return r.smallDisk(ctx) }); err != nil {
			return err
		}
	}
	if err := try(3*time.Minute, func() error { return r.quiet(ctx) }); err != nil {
		return fmt.Errorf("the site does not come up: %w", err)
	}
	return r.finishSet(ctx)
}

// fillsDisk tells whether one of the round's faults fills the backup volume.
func (r *round) fillsDisk() bool {
	list := slices.Clone(r.faults)
	if r.rewind != nil {
		list = append(list, r.rewind.faults...)
	}
	return slices.ContainsFunc(list, func(p planned) bool { return p.name == "disk full" })
}

func (r *round) setDatabase(ctx context.Context) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: "blog-db"},
		StringData: map[string]string{
			"DB_DRIVER": r.driver, "DB_HOST": "127.0.0.1", "DB_NAME": r.database(), "DB_USER": "drupal", "DB_PASSWORD": password,
			"DB_PATH":      "/opt/drupal/web/sites/default/files/site.db",
			"SIMSITE_SLOW": "1", "SIMSITE_PACE": fmt.Sprintf("%.2f", r.pace),
		},
	}
	if err := cluster.Create(ctx, secret); err != nil {
		return err
	}
	if r.driver == "sqlite" {
		return nil // the file is on a volume that does not exist yet: drupdate installs it
	}
	if code, said := r.simsite("", "simsite", "db", "create", r.database(), "--password="+password, "--install"); code != 0 {
		return errors.New(said)
	}
	return nil
}

// finishSet brings what can only be made once the site is there.
func (r *round) finishSet(ctx context.Context) error {
	if r.replicas != 1 {
		if err := cluster.Patch(ctx, &appsv1.Deployment{ObjectMeta: r.meta()}, merge(`{"spec":{"replicas":%d}}`, r.replicas)); err != nil {
			return err
		}
	}
	if code, said := r.simsite("", "simsite", "db", "set", r.databaseName(), "owner", "content"); code != 0 {
		return errors.New(said)
	}
	if r.maintenance {
		if code, said := r.simsite("", "simsite", "db", "maint", r.databaseName(), "1"); code != 0 {
			return errors.New(said)
		}
	}
	if err := try(2*time.Minute, func() error { return r.quiet(ctx) }); err != nil {
		return err
	}
	events, err := r.journal()
	r.offset = len(events)
	return err
}

func (r *round) resource() *v1alpha1.DrupalSite {
	site := r.object()
	site.Spec = v1alpha1.DrupalSiteSpec{
		Image: repository, Release: baseline, Database: &v1alpha1.DatabaseSpec{SecretName: "blog-db"},
		Update: v1alpha1.UpdateSpec{
			RolloutTimeout: metav1.Duration{Duration: 3 * time.Minute}, DatabaseTimeout: metav1.Duration{Duration: 3 * time.Minute},
			OnDatabaseFailure: r.policy,
		},
	}
	switch r.scenario.name {
	case "hangs":
		site.Spec.Update.RolloutTimeout.Duration = 25 * time.Second
	case "hook hangs":
		site.Spec.Update.DatabaseTimeout.Duration = 15 * time.Second
	}
	if r.driver == "sqlite" {
		site.Spec.Files = &v1alpha1.FilesSpec{Size: "1Gi"}
		site.Spec.Install = &v1alpha1.InstallSpec{Profile: "minimal"}
	}
	return site
}

// cronJobs are the site's CronJobs, and whether their owner has suspended them.
func cronJobs() map[string]bool { return map[string]bool{"yearly": false, "asleep": true} }

func (r *round) cronJob(name string, suspended bool) *batchv1.CronJob {
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: name, Labels: map[string]string{v1alpha1.LabelSite: r.name}},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 0 1 1 *", Suspend: &suspended,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "cron", Image: "registry.example/busybox:1"}},
			}}}},
		},
	}
}

// ---- running

// run asks for the target, lets the faults happen, and returns when the site is quiet.
func (r *round) run(ctx context.Context) error {
	return r.amid(ctx, r.faults, func() error { return r.want(ctx, r.scenario) })
}

// amid lets a change begin and faults happen, and returns when the site is quiet.
func (r *round) amid(ctx context.Context, list []planned, change func() error) error {
	over := make(chan struct{})
	var faults sync.WaitGroup
	for _, p := range list {
		faults.Go(func() { r.happens(ctx, p, over) })
	}
	err := change()
	if err == nil {
		// A fault whose moment may still come is not waited for: the site has to be quiet first.
		err = r.settle(ctx)
	}
	close(over)
	faults.Wait()
	return err
}

// happens waits for the moment of a fault and lets it happen. Over ends the wait.
func (r *round) happens(ctx context.Context, p planned, over <-chan struct{}) {
	if !r.moment(ctx, p.when, over) {
		r.miss(p.name, "its moment did not come")
		return
	}
	r.strike(ctx, p)
}

// strike lets a fault happen now.
func (r *round) strike(ctx context.Context, p planned) {
	phase := ""
	if site, err := r.site(ctx); err == nil && site.Status.Run != nil {
		phase = site.Status.Run.Phase
	}
	r.note("fault %q begins in phase %s", p.name, phase)
	err := p.do(ctx, r, p.last)
	switch {
	case errors.Is(err, errMissed):
		r.miss(p.name, err.Error())
	case err != nil:
		r.note("fault %q: %v", p.name, err)
		r.violated(0, "the suite could not carry out the fault %q: %v", p.name, err)
	default:
		r.note("fault %q is over", p.name)
		r.mu.Lock()
		r.fired[p.name] = true
		r.mu.Unlock()
	}
}

func (r *round) miss(name, why string) {
	r.note("fault %q missed: %s", name, why)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missed = append(r.missed, name)
}

// moment waits for a trigger; false means that the round was over before.
func (r *round) moment(ctx context.Context, t trigger, over <-chan struct{}) bool {
	for !r.reached(t) {
		select {
		case <-over:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(60 * time.Millisecond):
		}
	}
	pause(t.jitter)
	return true
}

func (r *round) reached(t trigger) bool {
	switch {
	case t.phase != "":
		return r.wave.phase(r.ns) == string(t.phase)
	case t.event != "":
		events, err := r.journal()
		return err == nil && slices.ContainsFunc(events[min(r.offset, len(events)):], func(e simsite.Event) bool { return e.Event == t.event })
	case t.file != "":
		dir, err := r.volume(r.name + "-backups")
		if err != nil {
			return false
		}
		found, err := filepath.Glob(filepath.Join(dir, "*."+t.file))
		return err == nil && len(found) > 0
	}
	return true
}

// settled tells whether the site became quiet. That it did not is noted as a violation.
func (r *round) settled(ctx context.Context) bool { return r.settle(ctx) == nil }

// settle waits until the site is quiet, and stays so over two looks. Not to become quiet is a violation.
func (r *round) settle(ctx context.Context) error {
	begun, moved, at, calm := time.Now(), time.Now(), "", time.Time{}
	uncollected := time.Time{}
	for {
		err := r.quiet(ctx)
		switch {
		case !errors.Is(err, errUncollected):
			uncollected = time.Time{}
		case uncollected.IsZero():
			uncollected = time.Now()
		case time.Since(uncollected) > collectLimit:
			uncollected = time.Now()
			r.remindCollector(err)
		}
		switch {
		case err != nil:
			calm = time.Time{}
		case calm.IsZero():
			calm = time.Now()
		case time.Since(calm) > 1500*time.Millisecond:
			return nil
		}
		if now := r.progress(ctx); now != at {
			at, moved = now, time.Now()
		}
		if err != nil && (time.Since(moved) > stillLimit || time.Since(begun) > settleLimit) {
			r.violated(8, "the site does not become quiet: nothing moved for %s, after %s in all: %v",
				time.Since(moved).Round(time.Second), time.Since(begun).Round(time.Second), err)
			return err
		}
		pause(time.Second)
	}
}

// progress is another text whenever a workflow of the site has moved.
func (r *round) progress(ctx context.Context) string {
	text := ""
	for _, id := range []string{r.workflow(), r.check()} {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		described, err := temporal.DescribeWorkflow(ctx, id, "")
		cancel()
		if err == nil {
			text += fmt.Sprintf("%s %d ", described.WorkflowExecution.RunID, described.HistoryLength)
		}
	}
	return text
}

// quiet is nil when nothing is under way and nothing is left to do.
func (r *round) quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for _, id := range []string{r.workflow(), r.check()} {
		if err := closed(ctx, id); err != nil {
			return err
		}
	}
	site, err := r.site(ctx)
	if apierrors.IsNotFound(err) && r.has(excuseDeleted) {
		return r.quietGone(ctx)
	}
	if err != nil {
		return err
	}
	if r.has(excuseDeleted) {
		return errors.New("the site is still there")
	}
	if err := r.quietSite(site); err != nil {
		return err
	}
	jobs, pods, err := r.jobs(ctx)
	if err != nil {
		return err
	}
	if len(jobs)+len(pods) > 0 {
		return fmt.Errorf("%d Jobs have not ended, %d pods of Jobs run", len(jobs), len(pods))
	}
	return r.quietWorkload(ctx, site)
}

// closed is nil unless an execution of the workflow is open.
func closed(ctx context.Context, id string) error {
	described, err := temporal.DescribeWorkflow(ctx, id, "")
	if noRun(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if described.WorkflowCloseTime == nil {
		return fmt.Errorf("the workflow %s is open", id)
	}
	return nil
}

func (r *round) quietSite(site *v1alpha1.DrupalSite) error {
	st := site.Status
	reasons := reasonsOf(site)
	retry := site.Annotations[v1alpha1.AnnotationRetry]
	switch {
	case site.Annotations[v1alpha1.AnnotationUpdateInProgress] != "":
		return errors.New("it is marked as being updated, and no run is open")
	case st.ObservedGeneration != site.Generation:
		return fmt.Errorf("the watcher has seen generation %d of %d", st.ObservedGeneration, site.Generation)
	case reasons[v1alpha1.ConditionOrchestratorUnavailable] != "":
		return errors.New("the watcher believes that Temporal is away")
	case reasons[v1alpha1.ConditionPaused] != "":
		return errors.New("the watcher believes that updates are paused")
	case reasons[v1alpha1.ConditionInitialized] == "":
		return errors.New("it is not initialized")
	case st.Run == nil || st.Run.FinishedAt == nil:
		return errors.New("no run has finished")
	case retry != st.ObservedRetry && !(retry == "" && st.ObservedRetry == ""):
		return errors.New("a retry is asked for and not acted on")
	case needsPerson(site):
		return nil
	case st.Release.Failed == site.Spec.Release:
		return nil
	case st.Release.Serving != site.Spec.Release || st.Release.Failed != "":
		return fmt.Errorf("%s is wanted, and the releases are %+v", site.Spec.Release, st.Release)
	case reasons[v1alpha1.ConditionDBUpdatesPending] != "" && reasons[v1alpha1.ConditionDBUpdatesFailed] == "":
		return errors.New("it may have pending updates, and nobody looks")
	}
	return nil
}

// reasonsOf are the reasons of the conditions that hold, or may hold.
func reasonsOf(site *v1alpha1.DrupalSite) map[string]string {
	m := map[string]string{}
	for _, c := range site.Status.Conditions {
		if c.Status != metav1.ConditionFalse {
			m[c.Type] = c.Reason
		}
	}
	return m
}

// needsPerson tells whether a condition says that a person has to act.
func needsPerson(site *v1alpha1.DrupalSite) bool {
	reasons := reasonsOf(site)
	db := reasons[v1alpha1.ConditionDBUpdatesFailed]
	return db == update.ReasonFrozen || db == update.ReasonRestoreFailed || reasons[v1alpha1.ConditionCodeUpdateFailed] == update.ReasonRollbackFailed
}

func (r *round) quietWorkload(ctx context.Context, site *v1alpha1.DrupalSite) error {
	d := &appsv1.Deployment{}
	if err := cluster.Get(ctx, r.key(), d); err != nil {
		return err
	}
	if d.DeletionTimestamp != nil {
		return errors.New("the Deployment is being deleted")
	}
	pods := &corev1.PodList{}
	if err := cluster.List(ctx, pods, kube.InNamespace(r.ns)); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil {
			return fmt.Errorf("the pod %s is ending", p.Name)
		}
	}
	if err := r.uncollected(ctx, d, pods.Items); err != nil {
		return err
	}
	if needsPerson(site) || site.Status.Run.Phase == string(update.PhaseCodeFailed) {
		return nil // its pods may be in any state
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	st := d.Status
	if st.ObservedGeneration != d.Generation || st.UpdatedReplicas != want || st.Replicas != want || st.AvailableReplicas != want {
		return fmt.Errorf("the Deployment rolls out: %d wanted, %d updated, %d there, %d available", want, st.UpdatedReplicas, st.Replicas, st.AvailableReplicas)
	}
	return nil
}

// quietGone is nil when nothing of a deleted site is left that something will still clean up.
func (r *round) quietGone(ctx context.Context) error {
	left, err := r.leftovers(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	pods := &corev1.PodList{}
	if err := cluster.List(ctx, pods, kube.InNamespace(r.ns)); err != nil {
		return err
	}
	return errors.Join(fmt.Errorf("of the deleted site are left: %s", strings.Join(left, ", ")), r.uncollected(ctx, nil, pods.Items))
}

// uncollected is errUncollected if a pod or a ReplicaSet is there whose owner is gone. The Deployment is nil if there is none.
func (r *round) uncollected(ctx context.Context, d *appsv1.Deployment, pods []corev1.Pod) error {
	sets, jobs := &appsv1.ReplicaSetList{}, &batchv1.JobList{}
	if err := errors.Join(cluster.List(ctx, sets, kube.InNamespace(r.ns)), cluster.List(ctx, jobs, kube.InNamespace(r.ns))); err != nil {
		return err
	}
	owners := map[types.UID]bool{}
	var owned []kube.Object
	if d != nil {
		owners[d.UID] = true
	}
	for i := range jobs.Items {
		owners[jobs.Items[i].UID] = true
	}
	for i := range sets.Items {
		owners[sets.Items[i].UID] = true
		owned = append(owned, &sets.Items[i])
	}
	for i := range pods {
		owned = append(owned, &pods[i])
	}
	return ownerGone(owners, owned)
}

// ownerGone is errUncollected for the first object whose controller is none of the owners.
func ownerGone(owners map[types.UID]bool, owned []kube.Object) error {
	for _, o := range owned {
		if owner := metav1.GetControllerOf(o); owner != nil && !owners[owner.UID] {
			return fmt.Errorf("%s: %w", o.GetName(), errUncollected)
		}
	}
	return nil
}

// remindCollector starts the controller manager anew, as the administrator of a cluster does. Its garbage collector
// never hears of the end of an object that was deleted and made anew under its name while it could not watch, as during a
// restart of the API server: it takes the two for one, and what the first one owned stays for as long as it runs.
func (r *round) remindCollector(why error) {
	r.note("the controller manager is started anew: %v", why)
	r.wave.mu.Lock()
	r.wave.reminded = append(r.wave.reminded, fmt.Sprintf("%d/%d: %v", r.seed, r.index, why))
	r.wave.mu.Unlock()
	restart := exclusive("kube-controller-manager", func(d time.Duration) error { return outage("kube-controller-manager", d) })
	if err := restart(context.Background(), r, 0); err != nil { //nolint:forbidigo // a restart that is cut short would leave the next wave without it
		r.violated(0, "start the controller manager anew: %v", err)
	}
}

// leftovers are the objects of a deleted site that still exist.
func (r *round) leftovers(ctx context.Context) ([]string, error) {
	var left []string
	for kind, list := range map[string]kube.ObjectList{
		"Deployment": &appsv1.DeploymentList{}, "ReplicaSet": &appsv1.ReplicaSetList{}, "Pod": &corev1.PodList{}, "Job": &batchv1.JobList{},
		"Service": &corev1.ServiceList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{},
	} {
		if err := cluster.List(ctx, list, kube.InNamespace(r.ns)); err != nil {
			return nil, err
		}
		raw, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		var names struct {
			Items []struct {
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
			} `json:"items"`
		}
		if err := json.Unmarshal(raw, &names); err != nil {
			return nil, err
		}
		for _, item := range names.Items {
			left = append(left, kind+" "+item.Metadata.Name)
		}
	}
	slices.Sort(left)
	return left, nil
}

// ---- watching

// watch plays the visitors and looks at the backups until the context ends.
func (r *round) watch(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		r.visit(n)
		r.lookAtBackups()
		if n%4 == 0 {
			r.lookAtMark(ctx)
		}
		pause(250 * time.Millisecond)
	}
}

// visit writes a row as a visitor does, where the site is open.
func (r *round) visit(n int) {
	key := fmt.Sprintf("visit-%d", n)
	if code, _ := r.simsite("", "simsite", "db", "visit", r.databaseName(), key, "was here"); code == 0 {
		r.mu.Lock()
		r.visits[key] = time.Now()
		r.mu.Unlock()
	}
}

// lookAtBackups notes what is finished, and notices what is overwritten.
func (r *round) lookAtBackups() {
	dir, err := r.volume(r.name + "-backups")
	if err != nil {
		return
	}
	metas, _ := filepath.Glob(filepath.Join(dir, "*.meta")) // the pattern is good
	for _, path := range metas {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has just been removed
		}
		name := strings.TrimSuffix(filepath.Base(path), ".meta")
		sha := field(string(raw), "sha256")
		_, err = os.Stat(filepath.Join(dir, name+".started"))
		started := err == nil
		r.mu.Lock()
		before, known := r.seen[name]
		r.seen[name] = backupSeen{sha, started || before.started}
		r.mu.Unlock()
		if known && before.started && before.sha != sha {
			r.violated(6, "the backup %s was overwritten after updatedb had started on it", name)
		}
	}
}

// field is a value of a .meta file.
func field(meta, key string) string {
	for line := range strings.Lines(meta) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return value
		}
	}
	return ""
}

// lookAtMark looks whether the site carries the mark while its code is another than the one that serves: between two
// equal looks at the resource the Deployment must have the serving release, unless the resource is marked.
func (r *round) lookAtMark(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	before, err := r.site(ctx)
	if err != nil || before.Annotations[v1alpha1.AnnotationUpdateInProgress] != "" || before.Status.Release.Serving == "" || needsPerson(before) {
		return
	}
	d := &appsv1.Deployment{}
	if err := cluster.Get(ctx, r.key(), d); err != nil || d.DeletionTimestamp != nil {
		return
	}
	after, err := r.site(ctx)
	if err != nil || after.ResourceVersion != before.ResourceVersion || before.Status.Run == nil || before.Status.Run.Phase == string(update.PhaseCodeFailed) {
		return
	}
	if image := d.Spec.Template.Spec.Containers[0].Image; image != before.ImageFor(before.Status.Release.Serving) {
		r.violated(4, "the Deployment has %s while the site is not marked and serves %s", image, before.Status.Release.Serving)
	}
}

// copied is a copy of the visits.
func (r *round) visited() map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.visits)
}
