package activities

import (
	"context"
	"fmt"

	"github.com/drupdate/drupdate/internal/update"
)

// FindBackup looks a backup up among those that the resource lists. That there is none is an answer.
func (a *Activities) FindBackup(ctx context.Context, q update.BackupQuery) (update.Backup, error) {
	site, err := a.site(ctx, q.Site)
	if err != nil {
		return update.Backup{}, err
	}
	for _, b := range site.Status.Backups {
		if b.Name == q.Name {
			return update.Backup{
				Name: b.Name, Release: b.Release, Origin: string(b.Origin), TakenAt: b.TakenAt.UTC(), Bytes: b.Bytes, SHA256: b.SHA256,
			}, nil
		}
	}
	return update.Backup{}, nil
}

// RemoveSchedule removes the schedule of a site that is gone, or wants none: the watcher may not have seen it. A site that
// wants backups by a schedule keeps it, whoever asks.
func (a *Activities) RemoveSchedule(ctx context.Context, s update.Site) (update.None, error) {
	site, err := a.lookup(ctx, s)
	if err != nil || (site != nil && site.SchedulesBackups()) || a.schedules == nil || s.UID == "" {
		return update.None{}, err
	}
	if err := a.schedules.Remove(ctx, s.ScheduleID()); err != nil {
		return update.None{}, fmt.Errorf("remove schedule %q: %w", s.ScheduleID(), err)
	}
	return update.None{}, nil
}
