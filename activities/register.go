package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/drupdate/drupdate/internal/update"
)

// Register registers every activity of the contract under its name.
func Register(r worker.ActivityRegistry, a *Activities) {
	bind(r, update.Inspect, a.Inspect)
	bind(r, update.WriteReport, a.WriteReport)
	bind(r, update.SetRelease, a.SetRelease)
	bind(r, update.WaitRollout, a.WaitRollout)
	bind(r, update.RebuildCaches, a.RebuildCaches)
	bind(r, update.PendingUpdates, a.PendingUpdates)
	bind(r, update.CheckInstalled, a.CheckInstalled)
	bind(r, update.VerifySite, a.VerifySite)
	bind(r, update.SuspendCron, a.SuspendCron)
	bind(r, update.ResumeCron, a.ResumeCron)
	bind(r, update.RunOperation, a.RunOperation)
	bind(r, update.SendNotification, a.SendNotification)
}

// bind registers fn under the operation's name; a wrong type does not build. Every result passes classify here.
func bind[In, Out any](r worker.ActivityRegistry, op update.Op[In, Out], fn func(context.Context, In) (Out, error)) {
	classified := func(ctx context.Context, in In) (Out, error) {
		out, err := fn(ctx, in)
		return out, classify(ctx, string(op), err)
	}
	r.RegisterActivityWithOptions(classified, activity.RegisterOptions{Name: string(op)})
}
