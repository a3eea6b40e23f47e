package watcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/drupdate/drupdate/internal/update"
)

// catchUp is how late a scheduled backup may begin, after an outage of Temporal: later than that it waits for its next time.
const catchUp = 10 * time.Minute

// Plan is when the backups of a site are taken.
type Plan struct {
	// Cron is an expression of five fields, Zone the IANA name of its time zone.
	Cron, Zone string
}

// String is the plan as the resource's status has it; empty for none.
func (p Plan) String() string {
	if p.Cron == "" {
		return ""
	}
	return p.Zone + " " + p.Cron
}

// Schedule implements Starter. What an operator did to the schedule, such as pausing it, stays.
func (s *TemporalStarter) Schedule(ctx context.Context, site update.Site, plan Plan) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.tagged(attributes(site, ""), func(found temporal.SearchAttributes) error {
		options := s.scheduleOptions(site, plan, found)
		_, err := s.client.ScheduleClient().Create(ctx, options)
		if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return s.client.ScheduleClient().GetHandle(ctx, options.ID).Update(ctx, client.ScheduleUpdateOptions{
				DoUpdate: func(now client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
					changed := now.Description.Schedule
					changed.Spec, changed.Action = &options.Spec, options.Action
					changed.Policy = &client.SchedulePolicies{Overlap: options.Overlap, CatchupWindow: options.CatchupWindow}
					return &client.ScheduleUpdate{Schedule: &changed}, nil
				},
			})
		}
		return err
	})
	if err != nil {
		return classify("schedule", site.ScheduleID(), err)
	}
	return nil
}

// scheduleOptions skip a backup whose predecessor has not begun yet: one that waits for the site's id waits alone.
func (s *TemporalStarter) scheduleOptions(site update.Site, plan Plan, found temporal.SearchAttributes) client.ScheduleOptions {
	return client.ScheduleOptions{
		ID:   site.ScheduleID(),
		Spec: client.ScheduleSpec{CronExpressions: []string{plan.Cron}, TimeZoneName: plan.Zone},
		Action: &client.ScheduleWorkflowAction{
			ID: site.ScheduledID(), Workflow: update.ScheduledBackupWorkflow, TaskQueue: s.taskQueue,
			Args:                  []any{update.BackupRequest{Site: site, Scheduled: true}},
			TypedSearchAttributes: found,
			StaticSummary:         fmt.Sprintf("scheduled backup of %s", site),
		},
		Overlap:       enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		CatchupWindow: catchUp,
	}
}

// Unschedule implements Starter.
func (s *TemporalStarter) Unschedule(ctx context.Context, site update.Site) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.client.ScheduleClient().GetHandle(ctx, site.ScheduleID()).Delete(ctx)
	if err == nil || missing(err) {
		return nil
	}
	return classify("unschedule", site.ScheduleID(), err)
}

func missing(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}
