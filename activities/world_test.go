package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/podexec"
	"github.com/drupdate/drupdate/internal/update"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

var blog = update.Site{Namespace: "sites", Name: "blog", UID: "site-uid"}

// testClock moves on when somebody waits, at once. Each wait first lets the world change.
type testClock struct {
	mu     sync.Mutex
	now    time.Time
	waits  int
	onWait func(n int)
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.waits++
	n, now, change := c.waits, c.now, c.onWait
	c.mu.Unlock()
	if change != nil {
		change(n)
	}
	ready := make(chan time.Time, 1)
	ready <- now
	return ready
}

// testExec answers by the words after the site's options, and remembers what it was asked where.
type testExec struct {
	answers map[string][]any
	asked   []string
}

func (e *testExec) Run(_ context.Context, r podexec.Request) (drush.Result, error) {
	words := strings.Join(r.Argv, " ")
	e.asked = append(e.asked, r.Pod+": "+words)
	for prefix, answers := range e.answers {
		if !strings.Contains(words, prefix) {
			continue
		}
		next := answers[0]
		if len(answers) > 1 {
			e.answers[prefix] = answers[1:]
		}
		if err, failed := next.(error); failed {
			return drush.Result{}, err
		}
		return next.(drush.Result), nil
	}
	if strings.Contains(words, "php:eval") {
		return said(0, `{"drupdate_ahead":[]}`, ""), nil
	}
	return drush.Result{}, fmt.Errorf("nobody expected %q", words)
}

func said(exit int, stdout, stderr string) drush.Result {
	return drush.Result{ExitCode: exit, Stdout: stdout, Stderr: stderr, Complete: true}
}

// world is a cluster, a clock and the activities in Temporal's test environment.
type world struct {
	t        *testing.T
	client   client.WithWatch
	funcs    *interceptor.Funcs
	clock    *testClock
	exec     *testExec
	prober   Prober
	metrics  Metrics
	notifier Notifier
	webhook  Webhook
	runsURL  string
	writes   int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, clock: &testClock{now: noon}, exec: &testExec{answers: map[string][]any{}}, funcs: &interceptor.Funcs{}}
	scheme := testScheme(t)
	base := fake.NewClientBuilder().WithScheme(scheme).
		WithTypeConverters(applyconfigurations.NewTypeConverter(clientgoscheme.Scheme), siteConverter(t)).
		WithStatusSubresource(&v1alpha1.DrupalSite{}).
		WithReturnManagedFields().
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string {
			return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
		}).
		WithObjects(objects...).Build()
	w.client = interceptor.NewClient(base, w.counting())
	return w
}

// counting counts writes, and lets a test put faults in their way.
func (w *world) counting() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.funcs.Get != nil {
				return w.funcs.Get(ctx, c, key, o, opts...)
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.writes++
			if w.funcs.Create != nil {
				return w.funcs.Create(ctx, c, o, opts...)
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			w.writes++
			return c.Patch(ctx, o, p, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			w.writes++
			if w.funcs.Apply != nil {
				return w.funcs.Apply(ctx, c, o, opts...)
			}
			return c.Apply(ctx, o, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			w.writes++
			if w.funcs.SubResourceApply != nil {
				return w.funcs.SubResourceApply(ctx, c, sub, o, opts...)
			}
			return c.SubResource(sub).Apply(ctx, o, opts...)
		},
	}
}

// do runs one activity as a worker would.
func do[In, Out any](w *world, op update.Op[In, Out], in In) (Out, error) {
	w.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	Register(env, New(Deps{Client: w.client, Exec: w.exec, Clock: w.clock, Prober: w.prober, Metrics: w.metrics, Notifier: w.notifier, Webhook: w.webhook, RunsURL: w.runsURL}))
	var out Out
	value, err := env.ExecuteActivity(string(op), in)
	if err != nil {
		return out, err
	}
	require.NoError(w.t, value.Get(&out))
	return out, nil
}

// twice runs one activity two times, as after a lost completion, and returns what both must answer.
func twice[In, Out any](w *world, op update.Op[In, Out], in In) Out {
	w.t.Helper()
	first, err := do(w, op, in)
	require.NoError(w.t, err)
	writes := w.writes
	second, err := do(w, op, in)
	require.NoError(w.t, err)
	require.Equal(w.t, first, second)
	require.LessOrEqual(w.t, w.writes-writes, 1, "the second call writes nothing, but for an Event that is there already")
	return first
}

// requireFailure requires a permanent failure of a type, or a transient error for "".
func requireFailure(t *testing.T, err error, kind string) {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	if kind == "" {
		require.False(t, app.NonRetryable(), app.Error())
		return
	}
	require.True(t, app.NonRetryable(), app.Error())
	require.Equal(t, kind, app.Type())
}

func (w *world) site() *v1alpha1.DrupalSite {
	w.t.Helper()
	site := &v1alpha1.DrupalSite{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "sites", Name: "blog"}, site))
	return site
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "sites", Name: "blog"}, d))
	return d
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return scheme
}

// siteConverter teaches the fake client how the CRD's lists merge, from the CRD itself.
func siteConverter(t *testing.T) managedfields.TypeConverter {
	t.Helper()
	text, err := os.ReadFile("../deploy/crd/drupdate.dev_drupalsites.yaml")
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(text, &crd))
	raw := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	words := map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	raw["properties"].(map[string]any)["metadata"] = map[string]any{
		"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		"properties": map[string]any{"annotations": words, "labels": words},
	}
	raw["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": "drupdate.dev", "version": "v1alpha1", "kind": "DrupalSite"}}
	text, err = json.Marshal(raw)
	require.NoError(t, err)
	schema := &spec.Schema{}
	require.NoError(t, json.Unmarshal(text, schema))
	converter, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"DrupalSite": schema}, false)
	require.NoError(t, err)
	return converter
}

// testSite is a site that runs 1.0 and wants 2.0.
func testSite(edit ...func(*v1alpha1.DrupalSite)) *v1alpha1.DrupalSite {
	s := &v1alpha1.DrupalSite{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: "blog", UID: "site-uid", Generation: 7},
		Spec: v1alpha1.DrupalSiteSpec{
			Image: "registry.example/drupal", Release: "2.0",
			Runtime: v1alpha1.RuntimeSpec{Container: "drupal", Drush: []string{"drush"}, URI: "https://blog.example"},
		},
	}
	for _, e := range edit {
		e(s)
	}
	return s
}

// testDeployment is a Deployment of a release, all of whose pods are available.
func testDeployment(release string, edit ...func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": "blog"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sites", Name: "blog", UID: "deployment-uid", Generation: 3},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{v1alpha1.AnnotationRelease: release, "their/own": "stays"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "proxy", Image: "proxy:1"}, {Name: "drupal", Image: "registry.example/drupal:" + release},
				}},
			},
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 3, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
		},
	}
	for _, e := range edit {
		e(d)
	}
	return d
}

// testReplicaSet is the ReplicaSet that the Deployment's controller made for its template.
func testReplicaSet(d *appsv1.Deployment, name string, revision int) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: name, Labels: map[string]string{"app": "blog"},
			Annotations:       map[string]string{annotationRevision: fmt.Sprint(revision)},
			CreationTimestamp: metav1.NewTime(noon), OwnerReferences: []metav1.OwnerReference{owner("Deployment", d.Name, string(d.UID))},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: *d.Spec.Template.DeepCopy()},
	}
	set.UID = types.UID("uid-" + name)
	return set
}

// testPod is a ready pod of a ReplicaSet.
func testPod(set *appsv1.ReplicaSet, name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "blog"},
			OwnerReferences: []metav1.OwnerReference{owner("ReplicaSet", set.Name, string(set.UID))},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "proxy", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				{Name: "drupal", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			},
		},
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func owner(kind, name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(uid), Controller: new(true)}
}
