//go:build e2e && !fault

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/simsite"
	"github.com/drupdate/drupdate/internal/update"
)

const (
	// patience is how long a test waits for the world. It is a limit for a slow machine, not an expectation.
	patience = 6 * time.Minute

	// What the sites of these tests allow a rollout and a database operation, unless a test says otherwise.
	rolloutLimit, databaseLimit = 4 * time.Minute, 5 * time.Minute
)

// world is one site under test, in a namespace of its own, with its simulated database.
type world struct {
	*testing.T
	ns, name string
	database string
	// content is set when the database holds the row that must never be lost.
	content bool
}

type option func(*v1alpha1.DrupalSite)

func withSpec(change func(*v1alpha1.DrupalSiteSpec)) option {
	return func(s *v1alpha1.DrupalSite) { change(&s.Spec) }
}

// newWorld makes a namespace and a database with an installed Drupal, and no site yet.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, name: "blog"}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	require.NoError(t, cluster.Create(t.Context(), ns))
	w.ns = ns.Name
	w.database = ns.Name + "-blog"
	t.Cleanup(func() {
		if t.Failed() {
			w.dump()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := cluster.Delete(ctx, ns); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete the namespace %q: %v", w.ns, err)
		}
	})
	w.secret("mysql")
	return w
}

// newSite is a site that is installed and verified at the baseline.
func newSite(t *testing.T, options ...option) *world {
	t.Helper()
	w := newWorld(t)
	w.install()
	w.create(options...)
	w.eventually("the site serves the baseline", func() error {
		s := w.site()
		if s.Status.Release.Serving != s.Spec.Release || s.Annotations[v1alpha1.AnnotationUpdateInProgress] != "" {
			return fmt.Errorf("serving is %q", s.Status.Release.Serving)
		}
		return nil
	})
	w.idle()
	return w
}

// idle waits until no run of the site is open: one that has written its end may still take another target.
func (w *world) idle() {
	w.Helper()
	w.eventually("no run is open", func() error {
		id := update.Site{Namespace: w.ns, Name: w.name}.UpdateID()
		description, err := temporal.DescribeWorkflow(w.Context(), id, "")
		if err == nil && description.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			err = fmt.Errorf("%s is open", id)
		}
		return err
	})
}

// secret makes the database's credentials. The file of an SQLite database is on the site's files volume.
func (w *world) secret(driver string) {
	w.Helper()
	require.NoError(w, cluster.Create(w.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "blog-db"},
		StringData: map[string]string{
			"DB_DRIVER": driver, "DB_HOST": "127.0.0.1", "DB_NAME": w.database, "DB_USER": "drupal", "DB_PASSWORD": password,
			"DB_PATH": "/opt/drupal/web/sites/default/files/site.db",
		},
	}))
}

// install makes the database of an installed site at the baseline; a row proves later that its content is still there.
func (w *world) install() {
	w.Helper()
	w.simsite("db", "create", w.database, "--password="+password, "--install")
	w.simsite("db", "set", w.database, "owner", "content")
	w.content = true
}

func (w *world) simsite(args ...string) string {
	w.Helper()
	env := []string{"SIMSITE_DIR=" + filepath.Join(state, "databases"), "SIMSITE_RELEASE=" + baseline}
	var out, errs bytes.Buffer
	code := simsite.Run(append([]string{"simsite"}, args...), env, strings.NewReader(""), &out, &errs)
	require.Zero(w, code, "simsite %v: %s%s", args, out.String(), errs.String())
	return strings.TrimSpace(out.String())
}

// create makes the DrupalSite.
func (w *world) create(options ...option) {
	w.Helper()
	s := &v1alpha1.DrupalSite{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name},
		Spec: v1alpha1.DrupalSiteSpec{
			Image: repository, Release: baseline, Database: &v1alpha1.DatabaseSpec{SecretName: "blog-db"},
			Update: v1alpha1.UpdateSpec{
				RolloutTimeout: metav1.Duration{Duration: rolloutLimit}, DatabaseTimeout: metav1.Duration{Duration: databaseLimit},
			},
		},
	}
	for _, o := range options {
		o(s)
	}
	require.NoError(w, cluster.Create(w.Context(), s))
}

// annotate sets an annotation of the site, as kubectl annotate does.
func (w *world) annotate(name, value string) {
	w.Helper()
	w.patch(w.object(), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, name, value))
}

func (w *world) key() kube.ObjectKey { return kube.ObjectKey{Namespace: w.ns, Name: w.name} }

func (w *world) site() *v1alpha1.DrupalSite {
	w.Helper()
	s := &v1alpha1.DrupalSite{}
	require.NoError(w, cluster.Get(w.Context(), w.key(), s))
	return s
}

func (w *world) deployment() (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	return d, cluster.Get(w.Context(), w.key(), d)
}

// image is the image of the Deployment's site container.
func (w *world) image() string {
	d, err := w.deployment()
	if err != nil {
		return err.Error()
	}
	return d.Spec.Template.Spec.Containers[0].Image
}

func (w *world) patch(object kube.Object, body string, subresource ...string) {
	w.Helper()
	raw := kube.RawPatch("application/merge-patch+json", []byte(body))
	if len(subresource) > 0 {
		require.NoError(w, cluster.SubResource(subresource[0]).Patch(w.Context(), object, raw))
		return
	}
	require.NoError(w, cluster.Patch(w.Context(), object, raw))
}

func (w *world) object() *v1alpha1.DrupalSite {
	return &v1alpha1.DrupalSite{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name}}
}

// want asks for a release.
func (w *world) want(release string) {
	w.Helper()
	w.patch(w.object(), fmt.Sprintf(`{"spec":{"release":%q}}`, release))
}

// setCondition writes a condition as an administrator would, who edits the status by hand.
func (w *world) setCondition(kind, status, reason string) {
	w.Helper()
	s := w.site()
	apimeta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "By hand."})
	require.NoError(w, cluster.Status().Update(w.Context(), s, kube.FieldOwner(v1alpha1.ManagerWorker)))
}

func (w *world) condition(kind string) *metav1.Condition {
	return apimeta.FindStatusCondition(w.site().Status.Conditions, kind)
}

// reason is a condition's reason, empty when the condition is absent.
func (w *world) reason(kind string) string {
	if c := w.condition(kind); c != nil {
		return c.Reason
	}
	return ""
}

func (w *world) eventually(what string, f func() error) {
	w.Helper()
	require.NoError(w, try(patience, f), what)
}

// ends waits until the run for the target is over and has closed, and returns the site.
func (w *world) ends(target string, phase update.Phase) *v1alpha1.DrupalSite {
	w.Helper()
	var s *v1alpha1.DrupalSite
	w.eventually(fmt.Sprintf("the run to %s ends with %s", target, phase), func() error {
		s = w.site()
		run := s.Status.Run
		if run == nil || run.FinishedAt == nil || s.Status.Release.Target != target || s.Annotations[v1alpha1.AnnotationUpdateInProgress] != "" {
			return fmt.Errorf("the run is %+v, releases %+v", run, s.Status.Release)
		}
		return nil
	})
	require.Equal(w, string(phase), s.Status.Run.Phase, "run: %+v", s.Status.Run)
	w.idle()
	return s
}

// phase waits until a run is in a phase.
func (w *world) reaches(phase update.Phase) {
	w.Helper()
	w.eventually("the run reaches "+string(phase), func() error {
		if run := w.site().Status.Run; run == nil || run.Phase != string(phase) {
			return fmt.Errorf("the run is %+v", run)
		}
		return nil
	})
}

// serves asserts that a pod answers 200 from a release, and that the content is still there.
func (w *world) serves(release string) {
	w.Helper()
	w.eventually("the site answers from "+release, func() error {
		pods := &corev1.PodList{}
		if err := cluster.List(w.Context(), pods, kube.InNamespace(w.ns), kube.MatchingLabels{v1alpha1.LabelSite: w.name}); err != nil {
			return err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || pod.Labels["job-name"] != "" {
				continue
			}
			code, _ := w.get(pod, "/")
			_, running := w.get(pod, "/_simsite/release")
			if code != http.StatusOK || running != release {
				return fmt.Errorf("%s answers %d from %q", pod.Name, code, running)
			}
			return nil
		}
		return fmt.Errorf("no pod of %d runs", len(pods.Items))
	})
	if w.content {
		require.Equal(w, "content", w.simsite("db", "get", w.database, "owner"))
	}
}

func (w *world) get(pod *corev1.Pod, path string) (code int, body string) {
	return getPage(w.Context(), http.DefaultClient, pod, path)
}

// entry is a line of the simulated database's journal.
type entry struct {
	Event       string `json:"event"`
	Pod         string `json:"pod"`
	Release     string `json:"release"`
	Maintenance bool   `json:"maintenance"`
}

// journal is what happened to the database, as it recorded it itself.
func (w *world) journal(events ...string) []entry {
	w.Helper()
	var out []entry
	for line := range strings.Lines(w.simsite("db", "journal", w.database)) {
		var e entry
		require.NoError(w, json.Unmarshal([]byte(line), &e), line)
		for _, wanted := range events {
			if e.Event == wanted {
				out = append(out, e)
			}
		}
	}
	return out
}

// maintenance is the flag as the database has it.
func (w *world) maintenance() string {
	w.Helper()
	var database struct {
		Maintenance bool `json:"maintenance"`
	}
	require.NoError(w, json.Unmarshal([]byte(w.simsite("db", "show", w.database)), &database))
	if database.Maintenance {
		return "1"
	}
	return "0"
}

// dump shows what a person would look at after a failure.
func (w *world) dump() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), 20*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"get", "dsite,deploy,rs,pod,job", "-o", "wide"},
		{"get", "dsite", "-o", "yaml"},
		{"get", "events", "--sort-by=.lastTimestamp"},
	} {
		command := exec.CommandContext(ctx, filepath.Join(state, "bin", "kubectl"), append([]string{"-n", w.ns}, args...)...)
		out, err := command.CombinedOutput()
		w.Logf("kubectl %v: %v\n%s", args, err, out)
	}
}
