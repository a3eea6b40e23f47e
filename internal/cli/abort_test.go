package cli

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/mocks"
	sdktemporal "go.temporal.io/sdk/temporal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func TestTheEndOfAnAbortedRunIsTold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		phase      update.Phase
		reason     string
		says, fail string
	}{
		{"given up", update.PhaseAborted, "", "The run of shops/blog is given up; the site serves 10.3.6.\n", ""},
		{"it was faster", update.PhaseSucceeded, "", "The run of shops/blog came to its end before it could be given up; the site serves 10.3.6.\n", ""},
		{"there was none", "", "", "No run of shops/blog is open; the site serves 10.3.6.\n", ""},
		{"the way back failed", update.PhaseRestoreFailed, update.ReasonRestoreFailed, "", "the run of shops/blog ended, and the site needs a person (RestoreFailed)"},
		{"the database step failed, and freezes", update.PhaseFrozen, update.ReasonFrozen, "", "the run of shops/blog ended, and the site needs a person (Frozen)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := &bytes.Buffer{}
			s := testSession()
			s.cmd.SetErr(&bytes.Buffer{})
			s.out = newTerminal(out, func(string) (string, bool) { return "", false })
			before, after := newSite(), newSite()
			if tc.phase != "" {
				after.Status.Run = &v1alpha1.RunStatus{RunID: "two", Phase: string(tc.phase), FinishedAt: at(9)}
			}
			if tc.reason != "" {
				with(v1alpha1.ConditionDBUpdatesFailed, metav1.ConditionTrue, tc.reason, "It failed.")(after)
			}
			err := s.givenUp(before, after)
			if tc.fail != "" {
				require.EqualError(t, err, tc.fail)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.says, out.String())
		})
	}
}

// A run that waits, or has only just begun, has not marked the site: only Temporal tells when it is over.
func TestARunIsOverWhenTemporalSaysSo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer error
		over   bool
	}{
		"it succeeded":         {nil, true},
		"it failed":            {&sdktemporal.WorkflowExecutionError{}, true},
		"its history is gone":  {serviceerror.NewNotFound("workflow not found"), true},
		"Temporal is away":     {serviceerror.NewUnavailable("down"), false},
		"something else fails": {errors.New("odd"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := &mocks.WorkflowRun{}
			run.On("Get", mock.Anything, nil).Return(tc.answer)
			err := testSession().closes(t.Context(), run)
			require.Equal(t, tc.over, err == nil, "%v", err)
		})
	}
}
