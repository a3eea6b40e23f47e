package watcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/drupdate/drupdate/internal/update"
)

// fakeStarter is an orchestrator that remembers what it was asked for.
type fakeStarter struct {
	mu        sync.Mutex
	open      map[string]bool
	retargets []update.Retarget
	aborts    int
	// abortedAfter is how many retargets there were when a run was last aborted.
	abortedAfter int
	checks       int
	calls        int
	err          error
	// schedules are by id; refused is why Temporal takes none.
	schedules map[string]Plan
	refused   error
}

func (f *fakeStarter) call(fn func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.err != nil {
		return f.err
	}
	if f.open == nil {
		f.open = map[string]bool{}
	}
	fn()
	return nil
}

func (f *fakeStarter) Retarget(_ context.Context, site update.Site, target update.Retarget) error {
	return f.call(func() {
		f.open[site.UpdateID()] = true
		f.retargets = append(f.retargets, target)
	})
}

func (f *fakeStarter) Abort(_ context.Context, site update.Site) (bool, error) {
	var open bool
	err := f.call(func() {
		if open = f.open[site.UpdateID()]; open {
			f.aborts++
			f.abortedAfter = len(f.retargets)
		}
	})
	return open, err
}

func (f *fakeStarter) Check(_ context.Context, site update.Site) error {
	return f.call(func() {
		f.open[site.CheckID()] = true
		f.checks++
	})
}

func (f *fakeStarter) Open(_ context.Context, id string) (bool, error) {
	var open bool
	err := f.call(func() { open = f.open[id] })
	return open, err
}

func (f *fakeStarter) Schedule(_ context.Context, site update.Site, plan Plan) error {
	err := f.call(func() {})
	if err == nil && f.refused != nil {
		return f.refused
	}
	if err == nil {
		if f.schedules == nil {
			f.schedules = map[string]Plan{}
		}
		f.schedules[site.ScheduleID()] = plan
	}
	return err
}

func (f *fakeStarter) Unschedule(_ context.Context, site update.Site) error {
	return f.call(func() { delete(f.schedules, site.ScheduleID()) })
}

func (f *fakeStarter) Healthy(context.Context) error { return f.call(func() {}) }

// end ends every open run, as a termination would.
func (f *fakeStarter) end() { maps.DeleteFunc(f.open, func(string, bool) bool { return true }) }

func (f *fakeStarter) down() {
	f.err = fmt.Errorf("start workflow: %w: connection refused", ErrUnavailable)
}

// fakeRecorder keeps Events as "reason: note".
type fakeRecorder struct{ seen []string }

func (f *fakeRecorder) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	f.seen = append(f.seen, reason+": "+fmt.Sprintf(note, args...))
}

// siteConverter knows that a site's conditions are a map list; the fake client would take them for one value, and one
// field manager's apply for the end of the other's.
type siteConverter struct{}

var siteSchema = func() typed.ParseableType {
	parser, err := typed.NewParser(`types:
- name: site
  map:
    fields:
    - name: status
      type:
        map:
          fields:
          - name: conditions
            type:
              list:
                elementRelationship: associative
                keys: [type]
                elementType: {namedType: any}
          elementType: {namedType: any}
    elementType: {namedType: any}
- name: any
  scalar: untyped
  list:
    elementRelationship: atomic
    elementType: {namedType: any}
  map:
    elementRelationship: separable
    elementType: {namedType: any}
`)
	if err != nil {
		panic(err)
	}
	return parser.Type("site")
}()

func (siteConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "DrupalSite" {
		return nil, fmt.Errorf("not a site: %q", kind)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return siteSchema.FromUnstructured(u.UnstructuredContent(), opts...)
	}
	return siteSchema.FromStructured(obj, opts...)
}

func (siteConverter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	content, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, errors.New("not an object")
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// untraced is where spans go in tests that do not look at them.
var untraced = noop.NewTracerProvider().Tracer("")
