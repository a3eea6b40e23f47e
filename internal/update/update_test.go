package update_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func TestBackupNamesAreDerivedAndDiffer(t *testing.T) {
	t.Parallel()
	site := update.Site{Namespace: "prod", Name: "blog"}
	run := "0198a7f2-3c1d-7e55-9d1b-0a2b3c4d5e6f"
	require.Equal(t, "blog-10.3.6-0198a7f2", update.BackupName(site, "10.3.6", update.OperationID(run, 1)))
	require.Equal(t, "blog-10.3.6-0198a7f2-2", update.BackupName(site, "10.3.6", update.OperationID(run, 2)))
	require.Equal(t, "blog-initial-0198a7f2", update.BackupName(site, "", run))
	require.Equal(t, "blog-10.3.6-0198a7f2-4d5e6f", update.RequestedBackupName(site, "10.3.6", run))
	require.NotEqual(t, update.RequestedBackupName(site, "10.3.6", run), update.RequestedBackupName(site, "10.3.6", "0198a7f2-3c1d-7e55-9d1b-0a2b3c000000"),
		"two of one minute")
}

func TestTheContractSpeaksOfTheConditionsOfTheResource(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{
		v1alpha1.ConditionInitialized:      update.ConditionInitialized,
		v1alpha1.ConditionUpdating:         update.ConditionUpdating,
		v1alpha1.ConditionCodeUpdateFailed: update.ConditionCodeUpdateFailed,
		v1alpha1.ConditionDBUpdatesPending: update.ConditionDBUpdatesPending,
		v1alpha1.ConditionDBUpdatesFailed:  update.ConditionDBUpdatesFailed,
		v1alpha1.ConditionBackupFailed:     update.ConditionBackupFailed,
		v1alpha1.ReasonInstalled:           update.ReasonInstalled,
		v1alpha1.ReasonNotInstalled:        update.ReasonNotInstalled,
		v1alpha1.ReasonHalfInstalled:       update.ReasonHalfInstalled,
		v1alpha1.ReasonInstallFailed:       update.ReasonInstallFailed,
		v1alpha1.ReasonProbeFailed:         update.ReasonProbeFailed,
		v1alpha1.ReasonUpdatesPending:      update.ReasonUpdatesPending,
		v1alpha1.ReasonUpdatesConfirmed:    update.ReasonUpdatesConfirmed,
	}, map[string]string{
		update.ConditionInitialized: "Initialized", update.ConditionUpdating: "Updating",
		update.ConditionCodeUpdateFailed: "CodeUpdateFailed", update.ConditionDBUpdatesPending: "DBUpdatesPending",
		update.ConditionDBUpdatesFailed: "DBUpdatesFailed",
		update.ConditionBackupFailed:    "BackupFailed",
		update.ReasonInstalled:          "Installed", update.ReasonNotInstalled: "NotInstalled", update.ReasonHalfInstalled: "HalfInstalled",
		update.ReasonInstallFailed: "InstallFailed", update.ReasonProbeFailed: "ProbeFailed",
		update.ReasonUpdatesPending: "UpdatesPending", update.ReasonUpdatesConfirmed: "UpdatesConfirmed",
	})
}

func TestOneOfAThingIsNotMany(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"0 updates", "1 update", "2 updates"}, []string{update.Count(0, "update"), update.Count(1, "update"), update.Count(2, "update")})
}
