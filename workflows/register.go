package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drupdate/drupdate/internal/update"
)

// Register registers every workflow under its name from the contract, so that a rename in Go cannot orphan an open run.
func Register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(UpdateSite, workflow.RegisterOptions{Name: update.UpdateSiteWorkflow})
	r.RegisterWorkflowWithOptions(CheckSite, workflow.RegisterOptions{Name: update.CheckSiteWorkflow})
	r.RegisterWorkflowWithOptions(BackupSite, workflow.RegisterOptions{Name: update.BackupSiteWorkflow})
	r.RegisterWorkflowWithOptions(RestoreSite, workflow.RegisterOptions{Name: update.RestoreSiteWorkflow})
	r.RegisterWorkflowWithOptions(ScheduledBackup, workflow.RegisterOptions{Name: update.ScheduledBackupWorkflow})
	r.RegisterWorkflowWithOptions(Notify, workflow.RegisterOptions{Name: update.NotifyWorkflow})
}
