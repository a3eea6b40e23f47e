//go:build fault

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/api/workflowservice/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/simsite"
)

// facts are what the world says about a site, once it is quiet.
type facts struct {
	site       *v1alpha1.DrupalSite // nil when it is gone
	deployment *appsv1.Deployment   // nil when it is gone
	pods       []corev1.Pod
	jobs       []batchv1.Job
	crons      []batchv1.CronJob
	left       []string // objects that are left of a site that is gone
	answers    map[string]answer
	// visits are the rows that visitors had written before anything was looked at.
	visits  map[string]time.Time
	content *simsite.State
	events  []simsite.Event
	runs    []runFacts
	backups []backupFacts
	litter  []string // files of ours that a later operation has not cleaned up
	locked  bool
}

// answer is what a pod says to a visitor.
type answer struct {
	code    int
	release string
	ready   bool
}

// runFacts is one execution of the site's workflows.
type runFacts struct {
	id     string
	status enums.WorkflowExecutionStatus
	// faults are failed workflow tasks and secrets in the history.
	faults []string
	raw    []byte
}

// backupFacts is a finished backup on the volume.
type backupFacts struct {
	name, sha, file string
	taken, restored time.Time // restored is zero unless the note beside it says that it was
	// notes are the journal files beside it.
	notes map[string]bool
	// content is what restoring it into a scratch database gave, or problem why it could not be restored.
	content *simsite.State
	problem string
}

// wanted tells whether a failed update still needs the backup.
func (b backupFacts) needed() bool {
	return b.notes["started"] && !b.notes["opened"] && !b.notes["finished"] && !b.notes["restored"]
}

// gather asks the world.
func (r *round) gather(ctx context.Context) (*facts, error) {
	f := &facts{answers: map[string]answer{}, visits: r.visited()}
	site, err := r.site(ctx)
	switch {
	case apierrors.IsNotFound(err):
		f.left, err = r.leftovers(ctx)
	case err == nil:
		f.site = site
	}
	if err != nil {
		return nil, err
	}
	if f.events, err = r.journal(); err != nil {
		return nil, err
	}
	if f.runs, err = r.histories(ctx); err != nil {
		return nil, err
	}
	if f.site == nil {
		return f, nil
	}
	if err := r.gatherObjects(ctx, f); err != nil {
		return nil, err
	}
	if f.content, err = r.content(); err != nil {
		return nil, err
	}
	return f, r.gatherVolume(f)
}

func (r *round) gatherObjects(ctx context.Context, f *facts) error {
	d := &appsv1.Deployment{}
	if err := cluster.Get(ctx, r.key(), d); err == nil {
		f.deployment = d
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	pods, jobs, crons := &corev1.PodList{}, &batchv1.JobList{}, &batchv1.CronJobList{}
	err := errors.Join(cluster.List(ctx, pods, kube.InNamespace(r.ns)), cluster.List(ctx, jobs, kube.InNamespace(r.ns)),
		cluster.List(ctx, crons, kube.InNamespace(r.ns)))
	if err != nil {
		return err
	}
	f.pods, f.jobs, f.crons = pods.Items, jobs.Items, crons.Items
	for i := range f.pods {
		p := &f.pods[i]
		if p.Labels[batchv1.JobNameLabel] != "" || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		a := answer{}
		for _, c := range p.Status.Conditions {
			a.ready = a.ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		a.code, _ = visitPage(ctx, p, "/")
		_, a.release = visitPage(ctx, p, "/_simsite/release")
		f.answers[p.Name] = a
	}
	return nil
}

// visitPage is a visitor's request; code 0 means that nobody answered.
func visitPage(ctx context.Context, p *corev1.Pod, path string) (code int, body string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return getPage(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, p, path)
}

// gatherVolume reads the backup volume, and restores every finished backup into a database that is thrown away.
func (r *round) gatherVolume(f *facts) error {
	dir, err := r.volume(r.name + "-backups")
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	names := map[string]time.Time{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			names[e.Name()] = info.ModTime()
		}
	}
	for name := range names {
		if base, ok := strings.CutSuffix(name, ".meta"); ok {
			b, err := r.backup(dir, base, names)
			if err != nil {
				return err
			}
			f.backups = append(f.backups, b)
		}
	}
	f.litter = litter(names)
	if files, err := r.volume(r.name + "-files"); err == nil {
		left, _ := filepath.Glob(filepath.Join(files, "*.partial")) // the pattern is good
		for _, path := range left {
			f.litter = append(f.litter, filepath.Base(path))
		}
	}
	f.locked = isLocked(filepath.Join(dir, ".lock"))
	return nil
}

// litter lists what is left of an operation although another one has ended well since: that one should have cleaned up.
func litter(names map[string]time.Time) []string {
	var ended time.Time
	for name, at := range names {
		for _, suffix := range []string{".finished", ".restored", ".lifted"} {
			if strings.HasSuffix(name, suffix) && at.After(ended) {
				ended = at
			}
		}
	}
	var list []string
	for name, at := range names {
		ours := strings.HasSuffix(name, ".partial") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".work")
		if ours && at.Before(ended) {
			list = append(list, name)
		}
	}
	return list
}

func isLocked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

func (r *round) backup(dir, base string, names map[string]time.Time) (backupFacts, error) {
	raw, err := os.ReadFile(filepath.Join(dir, base+".meta"))
	if err != nil {
		return backupFacts{}, err
	}
	b := backupFacts{name: base, sha: field(string(raw), "sha256"), file: field(string(raw), "file"), notes: map[string]bool{}}
	b.restored = names[base+".restored"]
	b.taken, _ = time.Parse(time.RFC3339, field(string(raw), "takenAt")) // a zero time asks for nothing
	for name := range names {
		if suffix, ok := strings.CutPrefix(name, base+"."); ok {
			b.notes[suffix] = true
		}
	}
	path := filepath.Join(dir, b.file)
	if sum, err := sumOf(path); err != nil || sum != b.sha {
		b.problem = fmt.Sprintf("the file has the checksum %q, not %q as noted (%v)", sum, b.sha, err)
		return b, nil
	}
	b.content, err = r.restoreScratch(path)
	if err != nil {
		b.problem = err.Error()
	}
	return b, nil
}

// restoreScratch puts a backup into an empty database with the site's own tools.
func (r *round) restoreScratch(path string) (*simsite.State, error) {
	scratch := fmt.Sprintf("%s-scratch-%d", r.database(), time.Now().UnixNano())
	defer func() {
		for _, suffix := range []string{".json", ".json.lock", ".journal.jsonl"} {
			_ = os.Remove(filepath.Join(databases(), scratch+suffix)) // what was never made is not there
		}
	}()
	if r.driver == "sqlite" {
		if code, said := r.simsiteAt(baseline, path, "", "sqlite3", path, "PRAGMA integrity_check"); code != 0 || strings.TrimSpace(said) != "ok" {
			return nil, fmt.Errorf("integrity check: %s", said)
		}
		return r.contentOf(path)
	}
	if code, said := r.simsiteAt(baseline, scratch, "", "simsite", "db", "create", scratch); code != 0 {
		return nil, errors.New(said)
	}
	if err := r.feed(path, scratch); err != nil {
		return nil, err
	}
	return r.contentOf(scratch)
}

// feed runs a dump against a database, with the client that belongs to it.
func (r *round) feed(path, database string) error {
	args := []string{"pg_restore", "--clean", "--if-exists", "--no-owner", "-x", "-n", "public", "-d", database, path}
	stdin := ""
	if r.driver == "mysql" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		args, stdin = []string{"mysql", "--user=drupal", "--password=" + password, "-D", database}, string(raw)
	}
	if code, said := r.simsiteAt(baseline, database, stdin, args...); code != 0 {
		return fmt.Errorf("%s ends with %d: %s", args[0], code, said)
	}
	return nil
}

// histories are the executions of the site's UpdateSite workflow, open and closed.
func (r *round) histories(ctx context.Context) ([]runFacts, error) {
	list, err := temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: "default", Query: fmt.Sprintf("WorkflowId = '%s'", r.workflow()),
	})
	if err != nil {
		return nil, err
	}
	var runs []runFacts
	for _, e := range list.Executions {
		run := runFacts{id: e.Execution.RunId, status: e.Status}
		h := &history.History{}
		events := temporal.GetWorkflowHistory(ctx, r.workflow(), run.id, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				return nil, err
			}
			h.Events = append(h.Events, event)
			if a := event.GetWorkflowTaskFailedEventAttributes(); a != nil && !expectedTaskFailure(a.Cause) {
				run.faults = append(run.faults, fmt.Sprintf("a workflow task failed: %s: %s", a.Cause, a.Failure.GetMessage()))
			}
		}
		if run.raw, err = (temporalproto.CustomJSONMarshalOptions{Indent: " "}).Marshal(h); err != nil {
			return nil, err
		}
		if strings.Contains(string(run.raw), password) {
			run.faults = append(run.faults, "the history holds the database's password")
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// expectedTaskFailure tells whether a workflow task failed by what was done to it, and not by the workflow's code.
func expectedTaskFailure(cause enums.WorkflowTaskFailedCause) bool {
	return slices.Contains([]enums.WorkflowTaskFailedCause{
		enums.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW, enums.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
		enums.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, enums.WORKFLOW_TASK_FAILED_CAUSE_FAILOVER_CLOSE_COMMAND,
		enums.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
	}, cause)
}
