//go:build fault

package e2e

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// latest is the row that an editor writes between a backup and its restore: in the database it tells whether the backup was
// put back, and it must be in the safety backup then.
const latest = "written-after-the-backup"

// rewind is what happens to a site after its update was judged: a backup is taken on demand, and put back amid faults.
type rewind struct {
	faults []planned

	// What was so before, which a restore that is refused leaves as it was.
	before end
	backup string
	// Visitors' rows of between from and to may be gone: they are not in the backup.
	from, to time.Time
	// fate is what it came to.
	fate string
}

// drawRewind draws the faults of a restore on demand. They strike like those of an update.
func drawRewind(random *rand.Rand) *rewind {
	rw := &rewind{}
	list := slices.DeleteFunc(localFaults(), func(f fault) bool { return f.name == "scale to zero" })
	for range pick(random, []int{1, 5, 2}) {
		f := list[pick(random, weights(list))]
		when, _ := oneOf(random, []trigger{
			{}, {phase: update.PhaseRewinding}, {event: "maint-on"}, {event: "dump"}, {event: "drop"}, {event: "restore"}, {event: "cr"}, {event: "maint-off"},
		})
		rw.faults = append(rw.faults, planned{fault: f, last: f.lasts(random), when: when})
	}
	return rw
}

func (rw *rewind) String() string {
	text := "restore on demand"
	for _, f := range rw.faults {
		text += ", " + f.String()
	}
	return text
}

// rewinds is the second part of a wave's story: backups in calm, restores amid faults, calm, and the judge again.
func (w *wave) rewinds(ctx context.Context) {
	list := slices.DeleteFunc(slices.Clone(w.rounds), func(r *round) bool { return r.rewind == nil || r.failedAlready() })
	if len(list) == 0 {
		return
	}
	each(list, func(r *round) {
		if err := r.prepareRewind(ctx); err != nil {
			r.note("no restore on demand: %v", err)
			r.rewind = nil
		}
	})
	list = slices.DeleteFunc(list, func(r *round) bool { return r.rewind == nil })
	each(list, func(r *round) {
		err := r.amid(ctx, r.rewind.faults, func() error {
			return r.begin(ctx, update.RestoreSiteWorkflow, update.RestoreRequest{Site: r.updateSite(), Backup: r.rewind.backup})
		})
		if err != nil {
			r.note("the restore: %v", err)
		}
	})
	if err := shared.whole(2 * time.Minute); err != nil {
		w.rounds[0].violated(0, "the system is not whole after the faults: %v", err)
	}
	each(list, func(r *round) {
		if r.failedAlready() || !r.settled(ctx) {
			return
		}
		r.rewind.to = time.Now()
		f, err := r.examine(ctx)
		if err != nil {
			r.violated(0, "examine: %v", err)
			return
		}
		r.rewind.fate = fateOf(f)
	})
}

// fateOf says in a few words what a restore on demand came to.
func fateOf(f *facts) string {
	switch {
	case f.site == nil:
		return "ended with their site"
	case f.content.Rows[latest] == "":
		return "made, the run ended with " + f.site.Status.Run.Phase
	}
	return "not made, the run ended with " + f.site.Status.Run.Phase
}

func (r *round) updateSite() update.Site { return update.Site{Namespace: r.ns, Name: r.name} }

// begin starts a workflow of the site's, as a person does.
func (r *round) begin(ctx context.Context, workflow string, request any) error {
	return retried(ctx, func(ctx context.Context) error {
		_, err := temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: r.workflow(), TaskQueue: update.TaskQueue, WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, workflow, request)
		return err
	})
}

// prepareRewind takes the backup in calm. A site that waits for a person, or is gone, has no restore on demand.
func (r *round) prepareRewind(ctx context.Context) error {
	site, err := r.site(ctx)
	if err != nil {
		return err
	}
	if needsPerson(site) || site.Status.Run.Phase == string(update.PhaseCodeFailed) {
		return errors.New("a person is needed first")
	}
	if err := r.begin(ctx, update.BackupSiteWorkflow, update.BackupRequest{Site: r.updateSite()}); err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if site, err = r.site(ctx); err != nil {
		return err
	}
	at := slices.IndexFunc(site.Status.Backups, func(b v1alpha1.BackupStatus) bool { return b.Origin == v1alpha1.BackupOfRequest })
	if at < 0 {
		r.violated(6, "a backup was asked for in calm, and none is listed: %+v", site.Status.Conditions)
		return errors.New("no backup")
	}
	taken := site.Status.Backups[at]
	r.rewind.backup, r.rewind.from = taken.Name, taken.TakenAt.Time
	reasons := reasonsOf(site)
	r.rewind.before = end{site.Status.Run.Phase, reasons[v1alpha1.ConditionCodeUpdateFailed] + reasons[v1alpha1.ConditionDBUpdatesFailed]}
	if code, said := r.simsite("", "simsite", "db", "set", r.databaseName(), latest, "yes"); code != 0 {
		return errors.New(said)
	}
	r.again()
	r.rewind.to = time.Now().Add(time.Hour) // until the restore is over
	r.note("the backup %s is asked back", taken.Name)
	return nil
}

// rewinding tells whether a run that ended in the phase put a backup back that a person chose.
func (r *round) rewinding(phase update.Phase) bool {
	if r.rewind == nil || r.rewind.backup == "" {
		return false
	}
	return phase == update.PhaseRewound || phase == update.PhaseNotRewound || phase == update.PhaseRestoreFailed
}

// rewindEnds adds how the newest run may have ended once a restore was asked for.
func (r *round) rewindEnds(may map[end]bool) {
	rw := r.rewind
	if rw == nil || rw.backup == "" {
		return
	}
	may[rw.before] = true
	for _, phase := range []update.Phase{update.PhaseRewound, update.PhaseNotRewound} {
		may[end{string(phase), rw.before.reason}] = true
	}
	if r.has(excuseDatabase) || r.has(excuseDisk) {
		may[end{string(update.PhaseRestoreFailed), update.ReasonRestoreFailed}] = true
	}
}

// rewound is the part of invariant 6 that is about a restore on demand: it was made as a whole or not at all, the resource
// says which, and what was there before is a backup.
func (v *verdict) rewound() {
	rw := v.round.rewind
	if rw == nil || rw.backup == "" || v.person() {
		return
	}
	back := v.facts.content.Rows[latest] == ""
	switch phase := update.Phase(v.facts.site.Status.Run.Phase); {
	case phase == update.PhaseRewound && !back:
		v.say(6, "the resource says that the backup was put back, and it was not")
	case phase == update.PhaseNotRewound && back:
		v.say(6, "the resource says that the backup was not put back, and it was")
	}
	if !back {
		return
	}
	kept := func(b backupFacts) bool { return b.content != nil && b.content.Rows[latest] != "" }
	if !slices.ContainsFunc(v.facts.backups, kept) {
		v.say(6, "what was in the database before the restore is in none of the backups %v", slices.Sorted(maps.Keys(v.round.seenBackups())))
	}
}

// spared tells whether a restore on demand may have taken a visitor's row away.
func (v *verdict) spared(at time.Time) bool {
	rw := v.round.rewind
	// The time of a backup is in whole seconds.
	return rw != nil && rw.backup != "" && v.facts.content.Rows[latest] == "" && at.After(rw.from.Add(-time.Second)) && at.Before(rw.to)
}
