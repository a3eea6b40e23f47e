package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/drupdate/drupdate/internal/update"
)

// Register registers every activity of the contract under its name.
func Register(r worker.ActivityRegistry, a *Activities) {
	bind(r, a, update.Inspect, a.Inspect)
	bind(r, a, update.WriteReport, a.WriteReport)
	bind(r, a, update.SetRelease, a.SetRelease)
	bind(r, a, update.WaitRollout, a.WaitRollout)
	bind(r, a, update.RebuildCaches, a.RebuildCaches)
	bind(r, a, update.PendingUpdates, a.PendingUpdates)
	bind(r, a, update.CheckInstalled, a.CheckInstalled)
	bind(r, a, update.VerifySite, a.VerifySite)
	bind(r, a, update.SuspendCron, a.SuspendCron)
	bind(r, a, update.ResumeCron, a.ResumeCron)
	bind(r, a, update.RunOperation, a.RunOperation)
	bind(r, a, update.FindBackup, a.FindBackup)
	bind(r, a, update.RemoveSchedule, a.RemoveSchedule)
	bind(r, a, update.SendNotification, a.SendNotification)
}

// bind registers fn under the operation's name; a wrong type does not build. Every result is classified here.
func bind[In, Out any](r worker.ActivityRegistry, a *Activities, op update.Op[In, Out], fn func(context.Context, In) (Out, error)) {
	classified := func(ctx context.Context, in In) (Out, error) {
		out, err := fn(ctx, in)
		return out, a.classified(ctx, string(op), err)
	}
	r.RegisterActivityWithOptions(classified, activity.RegisterOptions{Name: string(op)})
}
