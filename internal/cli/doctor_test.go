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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
