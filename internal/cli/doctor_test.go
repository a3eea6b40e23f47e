package cli

import (
	"errors"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

func TestTheRightsThatAreCheckedAreThoseOfTheManifests(t *testing.T) {
	t.Parallel()
	for _, role := range []string{roleWatcher, roleWorker} {
		raw, err := os.ReadFile("../../deploy/rbac/" + role + ".yaml")
		require.NoError(t, err)
		var granted []string
		for document := range strings.SplitSeq(string(raw), "\n---\n") {
			var found rbacv1.ClusterRole
			require.NoError(t, yaml.Unmarshal([]byte(document), &found))
			if found.Kind != "ClusterRole" {
				continue
			}
			for _, rule := range found.Rules {
				for _, resource := range rule.Resources {
					granted = append(granted, rule.APIGroups[0]+"/"+resource+" "+strings.Join(rule.Verbs, ","))
				}
			}
		}
		var checked []string
		for _, r := range rights[role] {
			checked = append(checked, r.group+"/"+r.resource+" "+strings.Join(r.verbs, ","))
		}
		slices.Sort(granted)
		slices.Sort(checked)
		require.Equal(t, granted, checked)
	}
}

func TestAClockIsWrongOnlyIfNoMomentOfTheCallFits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 2, 0, 0, 500e6, time.UTC)
	for _, c := range []struct {
		name string
		date time.Time
		want result
	}{
		{"the same second", now, resultOK},
		{"within the slack", now.Add(4 * time.Second), resultOK},
		{"ahead", now.Add(time.Minute), resultBad},
		{"behind", now.Add(-time.Minute), resultBad},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var clock serverClock
			clock.compare(c.date.Format(http.TimeFormat), now, now.Add(100*time.Millisecond))
			require.Equal(t, c.want, clock.finding().Result)
		})
	}
	require.Equal(t, resultWarn, new(serverClock).finding().Result)
}

func TestASchemaThatLacksAFieldIsFound(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../deploy/crd/drupdate.dev_drupalsites.yaml")
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &crd))
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	require.Empty(t, status.lacks("status", reflect.TypeFor[v1alpha1.DrupalSiteStatus]()))
	delete(status.Properties, "observedAbort")
	delete(status.Properties["run"].Properties, "operation")
	delete(status.Properties["backups"].Items.Properties, "sha256")
	require.ElementsMatch(t, []string{"status.observedAbort", "status.run.operation", "status.backups[].sha256"},
		status.lacks("status", reflect.TypeFor[v1alpha1.DrupalSiteStatus]()))
}

func TestSearchAttributesThatAreAbsentOrOfAnotherType(t *testing.T) {
	t.Parallel()
	absent, mistyped := missingAttributes(map[string]enumspb.IndexedValueType{
		"DrupalSite": enumspb.INDEXED_VALUE_TYPE_KEYWORD, "DrupalPhase": enumspb.INDEXED_VALUE_TYPE_TEXT,
	})
	require.Equal(t, []string{"DrupalNamespace", "DrupalTarget"}, absent)
	require.Equal(t, []string{"DrupalPhase"}, mistyped)
}

func TestErrorsAreOneSentence(t *testing.T) {
	t.Parallel()
	s := &session{}
	invalid := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "long", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
		{Field: "spec.release", Message: `Invalid value: "a b": release must be an image tag`},
	}}}}
	require.EqualError(t, s.explain(invalid), "spec.release: release must be an image tag")
	require.EqualError(t, s.explain(errors.New("one\ntwo")), "one two")
	require.NoError(t, s.explain(nil))
	require.Equal(t, ExitUsage, ExitCode(Usage(errors.New("x"))))
	require.Equal(t, ExitFailed, ExitCode(errors.New("x")))
	require.Equal(t, ExitDone, ExitCode(nil))
	require.NoError(t, Usage(nil))
}

func TestAWatcherIsKnownByItsLease(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	lease := func(namespace, holder string, renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.LeaseWatcher},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: renewed}},
		}
	}
	forbidden := apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no"))
	for _, c := range []struct {
		name   string
		leases []runtime.Object
		fail   func(namespace string) error
		want   result
		detail string
	}{
		{"held", []runtime.Object{lease("ops", "watcher-1_ab", now.Add(-2*time.Second))}, nil, resultOK, "watcher-1 works in the namespace ops, heard of 2s ago"},
		{"held by a clock that is ahead", []runtime.Object{lease("ops", "watcher-1_ab", now.Add(3*time.Second))}, nil, resultOK, "watcher-1 works in the namespace ops, heard of 0s ago"},
		{"moved to another namespace", []runtime.Object{lease("a", "", now.Add(-time.Hour)), lease("b", "watcher-2_cd", now)}, nil, resultOK, "watcher-2 works in the namespace b, heard of 0s ago"},
		{"given back", []runtime.Object{lease("ops", "", now.Add(-20*time.Second))}, nil, resultBad, "no watcher works: the last one was heard of 20s ago, in the namespace ops"},
		{"handed over", []runtime.Object{lease("ops", "", now.Add(-time.Second))}, nil, resultWarn, "one gave its Lease back 1s ago, in the namespace ops; if there is another, it takes over within seconds: ask again"},
		{"killed", []runtime.Object{lease("ops", "watcher-1_ab", now.Add(-3*time.Minute))}, nil, resultBad, "no watcher works: the last one was heard of 3m ago, in the namespace ops"},
		{"none", nil, nil, resultWarn, "no watcher has ever held a Lease here: there is none, or it runs without --leader-elect and cannot be seen from here"},
		{
			"seen only where it usually is",
			[]runtime.Object{lease(systemNamespace, "watcher-1_ab", now)},
			func(namespace string) error {
				if namespace == "" {
					return forbidden
				}
				return nil
			}, resultOK, "watcher-1 works in the namespace drupdate-system, heard of 0s ago",
		},
		{"not to be seen", nil, func(string) error { return forbidden }, resultSkip, "you may not read Leases, which tell whether a watcher works"},
		{"an error is not an absence", nil, func(string) error { return errors.New("etcd is slow") }, resultWarn, "its Lease could not be read: etcd is slow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			core := fake.NewClientset(c.leases...)
			core.PrependReactor("list", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if c.fail == nil {
					return false, nil, nil
				}
				err := c.fail(a.GetNamespace())
				return err != nil, nil, err
			})
			found := findWatcher(t.Context(), core, now)
			require.Equal(t, c.want, found.Result)
			require.Equal(t, c.detail, found.Detail)
			require.Equal(t, c.want == resultBad || len(c.leases) == 0 && c.want == resultWarn && c.fail == nil, found.Mend != "")
		})
	}
}

// A worker that is gone is remembered by Temporal for minutes.
func TestAPollerThatPollsNoMoreIsNone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	polled := func(identity string, ago time.Duration) *taskqueuepb.PollerInfo {
		return &taskqueuepb.PollerInfo{Identity: identity, LastAccessTime: timestamppb.New(now.Add(-ago))}
	}
	all := []*taskqueuepb.PollerInfo{polled("polls", 59*time.Second), polled("gone", 2*time.Minute), polled("ahead", -time.Second), {Identity: "without a time"}}
	var left []string
	for _, p := range polling(all, now) {
		left = append(left, p.GetIdentity())
	}
	require.Equal(t, []string{"polls", "ahead", "without a time"}, left)
}
