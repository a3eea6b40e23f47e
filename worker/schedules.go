package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// scheduleTimeout limits one call about a schedule.
const scheduleTimeout = 5 * time.Second

// Schedules removes schedules from Temporal.
type Schedules struct{ client client.Client }

// NewSchedules makes one of a Temporal client.
func NewSchedules(c client.Client) *Schedules { return &Schedules{client: c} }

// Remove implements activities.Schedules. A schedule that is not there is removed.
func (s *Schedules) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	err := s.client.ScheduleClient().GetHandle(ctx, id).Delete(ctx)
	var missing *serviceerror.NotFound
	if err == nil || errors.As(err, &missing) {
		return nil
	}
	return fmt.Errorf("delete schedule: %w", err)
}
