//go:build fault

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/simsite"
	"github.com/drupdate/drupdate/internal/update"
)

// nature is what becomes of an update to a release by the release's own doing.
type nature string

const (
	succeeds      nature = "succeeds"
	failsCode     nature = "fails in its code"
	failsBackup   nature = "fails before updatedb"
	failsDatabase nature = "fails in updatedb"
	failsRestore  nature = "fails in updatedb and in the restore"
)

// scenario is a target, and what an update to it comes to while nothing else goes wrong.
type scenario struct {
	name, release string
	nature        nature
	// reasons are the reasons of CodeUpdateFailed that the release itself may earn.
	reasons []string
	weight  int
}

func scenarios() []scenario {
	// Kubernetes says it when no run looked for minutes: its own deadline goes on meanwhile.
	const deadline = "ProgressDeadlineExceeded"
	return []scenario{
		{"good", "10.3.2", succeeds, nil, 5},
		{"slow start", "10.4.0-slow-start", succeeds, nil, 2},
		{"database updates", "10.3.6", succeeds, nil, 6},
		{"slow database updates", "10.4.0-slow-update", succeeds, nil, 9},
		{"updatedb exits 1 though all is applied", "10.4.0-exit1-applied", succeeds, nil, 3},
		{"polluted output", "10.4.0-polluted", succeeds, nil, 3},
		{"cr fails once", "10.4.0-cr-fails-once", succeeds, nil, 2},
		{"cr fails always", "10.4.0-cr-broken", failsCode, []string{update.ReasonCacheRebuildFailed}, 2},
		{"crash loop", "10.4.0-crashloop", failsCode, []string{"CrashLoopBackOff", update.ReasonRolloutTimeout, deadline}, 1},
		{"image missing", "10.4.0-missing", failsCode, []string{"ImagePullBackOff", "ErrImagePull", update.ReasonRolloutTimeout, deadline}, 1},
		{"hangs", "10.4.0-hangs", failsCode, []string{update.ReasonRolloutTimeout, deadline}, 1},
		{"status says nothing", "10.4.0-status-fails", failsCode, []string{update.ReasonDatabaseUnknown}, 1},
		{"hook fails, flag put back", "10.4.0-hook-exception", failsDatabase, nil, 5},
		{"hook fails fatally", "10.4.0-hook-error", failsDatabase, nil, 3},
		{"exit 0 and not applied", "10.4.0-exit0-not-applied", failsDatabase, nil, 2},
		{"hook hangs", "10.4.0-update-hangs", failsDatabase, nil, 1},
		{"dump fails", "10.4.0-dump-fails", failsBackup, nil, 2},
		{"dump is cut short", "10.4.0-dump-truncated", failsBackup, nil, 2},
		{"restore fails", "10.4.0-restore-fails", failsRestore, nil, 1},
	}
}

// followUp is newer than every other release, so that the way to it is always an update.
func followUp() scenario { return scenario{"the newest", "10.3.8", succeeds, nil, 1} }

// trigger is the moment of a fault: the first time that the site's run is in a phase, its database journals an event,
// or its backup volume has a file; and a while after it.
type trigger struct {
	phase  update.Phase
	event  string
	file   string
	jitter time.Duration
}

func (t trigger) String() string {
	what := "the start"
	switch {
	case t.phase != "":
		what = "phase " + string(t.phase)
	case t.event != "":
		what = "event " + t.event
	case t.file != "":
		what = "file ." + t.file
	}
	return fmt.Sprintf("%s + %d ms", what, t.jitter.Milliseconds())
}

// planned is a fault, its moment, and how long it lasts.
type planned struct {
	fault
	when trigger
	last time.Duration
}

func (p planned) String() string {
	return fmt.Sprintf("%s (%.1f s) at %s", p.name, p.last.Seconds(), p.when)
}

// plan is what is drawn for one site.
type plan struct {
	seed        uint64
	index       int
	scenario    scenario
	policy      v1alpha1.DatabaseFailurePolicy
	driver      string
	replicas    int32
	maintenance bool
	cron        bool
	// pace stretches what Drush takes.
	pace float64
	// follow asks for the newest release after all is over: the site must still be able to move.
	follow bool
	faults []planned
	// rewind is the restore on demand that follows, if one does.
	rewind *rewind
}

func (p plan) String() string {
	faults := make([]string, 0, len(p.faults))
	for _, f := range p.faults {
		faults = append(faults, f.String())
	}
	if len(faults) == 0 {
		faults = []string{"no fault of its own"}
	}
	extra := ""
	if p.maintenance {
		extra += " maintenance"
	}
	if p.cron {
		extra += " cron"
	}
	if p.follow {
		extra += " follow"
	}
	if p.rewind != nil {
		faults = append(faults, "then "+p.rewind.String())
	}
	return fmt.Sprintf("%d/%d %s (%s) %s %s ×%d pace %.2f%s: %s",
		p.seed, p.index, p.scenario.name, p.scenario.release, p.policy, p.driver, p.replicas, p.pace, extra, strings.Join(faults, "; "))
}

// wavePlan is what a seed draws.
type wavePlan struct {
	seed   uint64
	global *planned
	at     time.Duration
	sites  []plan
}

// draw makes the wave of a seed: always the same for the same seed and number of sites.
func draw(seed uint64, sites int) wavePlan {
	w := wavePlan{seed: seed}
	random := rand.New(rand.NewPCG(seed, 0x6472757064617465))
	if random.IntN(5) > 0 {
		global := globalFaults()[pick(random, weights(globalFaults()))]
		w.global = &planned{fault: global, last: global.lasts(random)}
		w.at = between(random, 0, 25*time.Second)
	}
	for i := range sites {
		// Each site has a source of its own, so that fewer sites draw the same.
		w.sites = append(w.sites, drawSite(rand.New(rand.NewPCG(seed, uint64(i)+1)), seed, i))
	}
	return w
}

func drawSite(random *rand.Rand, seed uint64, index int) plan {
	list := scenarios()
	var w []int
	for _, s := range list {
		w = append(w, s.weight)
	}
	p := plan{
		seed: seed, index: index, scenario: list[pick(random, w)], policy: v1alpha1.RestoreDatabase,
		driver: []string{"mysql", "pgsql", "sqlite"}[pick(random, []int{6, 2, 2})], replicas: 1,
		maintenance: random.IntN(6) == 0, cron: random.IntN(3) == 0, pace: 0.05 + 0.25*random.Float64(), follow: random.IntN(3) == 0,
	}
	if random.IntN(4) == 0 {
		p.policy = v1alpha1.FreezeSite
	}
	if random.IntN(4) == 0 {
		p.replicas = 2
	}
	for range pick(random, []int{2, 5, 3}) {
		f := localFaults()[pick(random, weights(localFaults()))]
		if when, ok := f.moment(random, p); ok {
			p.faults = append(p.faults, planned{fault: f, last: f.lasts(random), when: when})
		}
	}
	if random.IntN(5) < 2 {
		p.rewind = drawRewind(random)
	}
	return p
}

func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(random.Int64N(int64(high-low)+1))
}

func weights(list []fault) []int {
	var w []int
	for _, f := range list {
		w = append(w, f.weight)
	}
	return w
}

// pick draws an index by weight.
func pick(random *rand.Rand, weights []int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := random.IntN(sum)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// moments are the moments that an update of a kind comes to by its own doing.
func moments(sc scenario, policy v1alpha1.DatabaseFailurePolicy) []trigger {
	list := []trigger{{}, {phase: update.PhaseRollingOut}}
	if sc.nature == failsCode {
		return append(list, trigger{phase: update.PhaseRollingBack}, trigger{phase: update.PhaseRollingBack})
	}
	list = append(list, trigger{phase: update.PhaseRebuildingCaches}, trigger{phase: update.PhaseCheckingDatabase}, trigger{event: "cr"})
	list = append(list, operationMoments(sc, policy)...)
	if sc.nature == succeeds {
		return append(list, trigger{phase: update.PhaseVerifying})
	}
	if sc.nature == failsBackup {
		return append(list, trigger{phase: update.PhaseRollingBack})
	}
	return list
}

// operationMoments are those of moments at which a Job runs.
func operationMoments(sc scenario, policy v1alpha1.DatabaseFailurePolicy) []trigger {
	release, _ := simsite.FindRelease(sc.release)
	if len(release.Updates) == 0 || sc.nature == failsCode {
		return nil
	}
	list := []trigger{{phase: update.PhaseUpdatingDatabase}, {event: "maint-on"}, {event: "dump"}, {file: "maintenance"}}
	if sc.nature == failsBackup {
		return append(list, trigger{event: "maint-off"})
	}
	list = append(list, trigger{file: "meta"}, trigger{file: "started"}, trigger{event: "updatedb-start"}, trigger{event: "hook"}, trigger{event: "updatedb-end"})
	switch {
	case sc.nature == succeeds:
		list = append(list, trigger{file: "opened"}, trigger{event: "maint-off"}, trigger{file: "finished"})
	case policy == v1alpha1.RestoreDatabase:
		list = append(list, trigger{phase: update.PhaseRestoring}, trigger{event: "drop"}, trigger{event: "restore"}, trigger{file: "restored"}, trigger{file: "lifted"})
	}
	return list
}

// anywhere draws a moment of an update.
func anywhere(random *rand.Rand, p plan) (trigger, bool) {
	return oneOf(random, moments(p.scenario, p.policy))
}

// oneOf draws a moment of a list and a while after it: mostly a short one, since the steps of a script are short.
func oneOf(random *rand.Rand, list []trigger) (trigger, bool) {
	if len(list) == 0 {
		return trigger{}, false
	}
	t := list[random.IntN(len(list))]
	t.jitter = between(random, 0, 3*time.Second)
	if random.IntN(2) == 0 {
		t.jitter /= 6
	}
	return t, true
}

// inOperation draws a moment while a Job runs, if one ever does.
func inOperation(random *rand.Rand, p plan) (trigger, bool) {
	return oneOf(random, operationMoments(p.scenario, p.policy))
}

// beforeDatabase draws a moment before the point of no return.
func beforeDatabase(random *rand.Rand, _ plan) (trigger, bool) {
	return oneOf(random, []trigger{{}, {phase: update.PhaseRollingOut}, {phase: update.PhaseRebuildingCaches}, {phase: update.PhaseCheckingDatabase}, {event: "cr"}})
}

// TestADrawIsRepeated holds what `make fault SEED=n` promises: the same wave, also of fewer sites.
func TestADrawIsRepeated(t *testing.T) {
	first, again, fewer := draw(7, 8), draw(7, 8), draw(7, 3)
	require.NotEqual(t, draw(8, 8).sites[0].String(), first.sites[0].String())
	for i, p := range first.sites {
		require.Equal(t, p.String(), again.sites[i].String())
		if i < len(fewer.sites) {
			require.Equal(t, p.String(), fewer.sites[i].String())
		}
	}
	require.Equal(t, first.at, again.at)
}
