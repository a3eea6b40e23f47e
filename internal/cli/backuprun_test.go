package cli

import (
	"errors"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func testSession() *session {
	s := newSession(Config{Temporal: func() (client.Options, error) { return client.Options{}, nil }})
	s.cmd = &cobra.Command{Use: "drupdate"}
	return s
}

func TestARestoreIsRefusedBeforeThereIsARun(t *testing.T) {
	t.Parallel()
	site := newSite(func(s *v1alpha1.DrupalSite) {
		s.Status.Backups = []v1alpha1.BackupStatus{{Name: "fits", Release: "10.3.6"}, {Name: "older", Release: "10.3.1"}}
	})
	s := testSession()
	require.NoError(t, s.refuseRestore(site, update.RestoreRequest{Backup: "fits"}))
	require.NoError(t, s.refuseRestore(site, update.RestoreRequest{Backup: "older", OtherRelease: true}))
	require.EqualError(t, s.refuseRestore(site, update.RestoreRequest{Backup: "nothing"}), `shops/blog has no backup "nothing": see drupdate backup list blog`)
	require.EqualError(t, s.refuseRestore(site, update.RestoreRequest{Backup: "older"}),
		"the backup older is of 10.3.1 and shops/blog serves 10.3.6, so that the code may not fit the database; "+
			"to put it back all the same: drupdate backup restore blog older --other-release")
}

func TestBackupsThatANewerOneTookThePlaceOfAreNamed(t *testing.T) {
	t.Parallel()
	with := func(names ...string) *v1alpha1.DrupalSite {
		return newSite(func(s *v1alpha1.DrupalSite) {
			for _, name := range names {
				s.Status.Backups = append(s.Status.Backups, v1alpha1.BackupStatus{Name: name})
			}
		})
	}
	require.Equal(t, []string{"first"}, noLongerKept(with("third", "second", "first"), with("fourth", "third", "second")))
	require.Empty(t, noLongerKept(with("first"), with("second", "first")))
}

// value answers a query.
type value struct{ progress update.Progress }

func (v value) HasValue() bool { return true }

func (v value) Get(to any) error {
	*to.(*update.Progress) = v.progress //nolint:forcetypeassert // the one query there is
	return nil
}

func TestARunThatOnlyWaitsMakesRoomForABackup(t *testing.T) {
	t.Parallel()
	taken := serviceerror.NewWorkflowExecutionAlreadyStarted("taken", "", "")
	unknown := serviceerror.NewInvalidArgument("no mapping defined for search attribute DrupalSite")
	for _, tc := range []struct {
		name   string
		starts []error
		phase  update.Phase
		asked  int
		says   string
	}{
		{"nobody has the id", []error{nil}, "", 0, ""},
		{"a server without our search attributes", []error{unknown, nil}, "", 0, ""},
		{"a run waits for its window", []error{taken, nil}, update.PhaseWaiting, 1, ""},
		{"a run has written its end", []error{taken, nil}, update.PhaseSuperseded, 0, ""},
		{"a run works", []error{taken}, update.PhaseRollingOut, 0, "another run of shops/blog is open (RollingOut): wait until it has ended, see drupdate status blog"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := &mocks.Client{}
			for _, err := range tc.starts {
				m.On("ExecuteWorkflow", mock.Anything, mock.MatchedBy(func(o client.StartWorkflowOptions) bool {
					return o.ID == "site/shops/blog" && o.WorkflowExecutionErrorWhenAlreadyStarted
				}), update.BackupSiteWorkflow, mock.Anything).Return(&mocks.WorkflowRun{}, err).Once()
			}
			m.On("QueryWorkflow", mock.Anything, "site/shops/blog", "", update.QueryState).Return(value{update.Progress{Phase: tc.phase}}, nil).Maybe()
			m.On("SignalWorkflow", mock.Anything, "site/shops/blog", "", update.SignalYield, nil).Return(nil).Maybe()
			_, err := testSession().start(t.Context(), m, newSite(), siteRun{workflow: update.BackupSiteWorkflow, request: update.BackupRequest{}})
			if tc.says != "" {
				require.EqualError(t, err, tc.says)
			} else {
				require.NoError(t, err)
			}
			m.AssertNumberOfCalls(t, "SignalWorkflow", tc.asked)
			m.AssertNumberOfCalls(t, "ExecuteWorkflow", len(tc.starts))
		})
	}
}

func TestWhatARunCameToIsRead(t *testing.T) {
	t.Parallel()
	came := update.Done{Outcome: update.Succeeded, Message: "The backup b was taken."}
	input, err := converter.GetDefaultDataConverter().ToPayloads(update.Request{After: &came})
	require.NoError(t, err)
	nothing, err := converter.GetDefaultDataConverter().ToPayloads(update.Request{})
	require.NoError(t, err)
	for _, tc := range []struct {
		name string
		err  error
		want update.Done
		says string
	}{
		{"it went on as an update", &workflow.ContinueAsNewError{Input: input}, came, ""},
		{"it went on and does not say", &workflow.ContinueAsNewError{Input: nothing}, update.Done{}, "does not say what it came to"},
		{
			"it failed", sdktemporal.NewNonRetryableApplicationError("The restore was refused: no.", update.FailureRefused, nil),
			update.Done{Outcome: update.Failed, Failure: update.FailureRefused, Message: "The restore was refused: no."},
			"",
		},
		{"it was cancelled", sdktemporal.NewCanceledError(), update.Done{}, "cancelled before it began"},
		{"Temporal is away", errors.New("down"), update.Done{}, "down"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			run := &mocks.WorkflowRun{}
			run.On("GetWithOptions", mock.Anything, mock.Anything, client.WorkflowRunGetOptions{DisableFollowingRuns: true}).Return(tc.err)
			got, err := testSession().done(t.Context(), run, patience{wait: true})
			if tc.says != "" {
				require.ErrorContains(t, err, tc.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestASentenceOfARunBecomesTheEndOfAnother(t *testing.T) {
	t.Parallel()
	require.Equal(t, "the backup failed: no space", lower("The backup failed: no space."))
	require.Equal(t, "nothing is known of it", lower(""))
}
