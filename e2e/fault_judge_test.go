//go:build fault

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/simsite"
	"github.com/drupdate/drupdate/internal/update"
)

// verdict is the judge's work: what does not hold.
type verdict struct {
	round *round
	facts *facts
	found []violation
	// reasons are those of the conditions that hold.
	reasons map[string]string
}

// judge compares the facts with the invariants. It is pure: equal facts give equal verdicts.
func judge(r *round, f *facts) []violation {
	v := &verdict{round: r, facts: f}
	v.updatedb()
	v.runs()
	if f.site == nil {
		v.gone()
		return v.found
	}
	v.reasons = reasonsOf(f.site)
	v.maintenance()
	v.fit()
	v.conditions()
	v.ending()
	v.serves()
	v.backups()
	v.rows()
	v.rewound()
	v.leftBehind()
	return v.found
}

func (v *verdict) say(invariant int, format string, args ...any) {
	v.found = append(v.found, violation{invariant, fmt.Sprintf(format, args...)})
}

// person tells whether a condition says that a person has to act on the database.
func (v *verdict) person() bool {
	reason := v.reasons[v1alpha1.ConditionDBUpdatesFailed]
	return reason == update.ReasonFrozen || reason == update.ReasonRestoreFailed
}

// updatedb is invariant 1: at most one updatedb for each verified backup, and never two at once.
func (v *verdict) updatedb() {
	events := v.facts.events[min(v.round.offset, len(v.facts.events)):]
	last := -1
	for i, e := range events {
		if e.Event != "updatedb-start" {
			continue
		}
		since := events[last+1 : i]
		if !e.Maintenance {
			v.say(1, "updatedb of %s was started while the site was open", e.Release)
		}
		if !slices.ContainsFunc(since, func(d simsite.Event) bool { return d.Event == "dump" && d.Exit == 0 }) {
			v.say(1, "updatedb of %s was started without a backup of its own", e.Release)
		}
		if last >= 0 {
			v.again(events[last], since, e)
		}
		last = i
	}
}

// again judges an updatedb that follows another one.
func (v *verdict) again(first simsite.Event, since []simsite.Event, second simsite.Event) {
	restored := slices.ContainsFunc(since, func(e simsite.Event) bool { return e.Event == "restore" && e.Exit == 0 }) ||
		v.copiedBack(first.Time, second.Time)
	ended := slices.IndexFunc(since, func(e simsite.Event) bool {
		return e.Event == "updatedb-end" && e.PID == first.PID && e.Pod == first.Pod
	})
	switch {
	case restored:
	case ended < 0:
		v.say(1, "updatedb of %s was started while that of %s had not ended", second.Release, first.Release)
	case since[ended].Exit != 0 && !strings.Contains(first.Release, "exit1-applied"), strings.Contains(first.Release, "exit0-not-applied"):
		v.say(1, "updatedb of %s was started on what a failed updatedb of %s had left", second.Release, first.Release)
	}
}

// copiedBack tells whether a backup of SQLite was restored between two moments: that is a copy of a file, of which only the
// note on the volume tells. What it gave is compared with the content of the database, as after any restore.
func (v *verdict) copiedBack(from, to time.Time) bool {
	return v.round.driver == "sqlite" && slices.ContainsFunc(v.facts.backups, func(b backupFacts) bool {
		return b.restored.After(from) && b.restored.Before(to)
	})
}

// maintenance is invariant 2.
func (v *verdict) maintenance() {
	if v.person() {
		return
	}
	if on := v.facts.content.Maintenance; on != v.round.maintenance {
		v.say(2, "maintenance mode is %t, and was %t before", on, v.round.maintenance)
	}
}

// level is what a database has to which every update of a release was applied.
func level(tag string) (schema int, posts []string) {
	schema = 10000
	release, _ := simsite.FindRelease(tag)
	for _, u := range release.Updates {
		if n, err := strconv.Atoi(u.ID); err == nil {
			schema = max(schema, n)
		} else {
			posts = append(posts, u.ID)
		}
	}
	slices.Sort(posts)
	return schema, posts
}

const updatesModule = "study_upd"

// fits says how a database differs from what the code of a release needs, or nothing.
func fits(s *simsite.State, tag string) string {
	schema, posts := level(tag)
	switch {
	case s.InstallTask != "done":
		return fmt.Sprintf("its installation is %q", s.InstallTask)
	case s.Schema[updatesModule] != schema:
		return fmt.Sprintf("its schema is %d and that of %s %d", s.Schema[updatesModule], tag, schema)
	case !slices.Equal(s.Posts, posts):
		return fmt.Sprintf("its post updates are %v and those of %s %v", s.Posts, tag, posts)
	case slices.Contains(s.Tables, "study_upd_partial"):
		return "it has the table of a half-applied update"
	}
	return ""
}

// running are the releases that pods answer from.
func (v *verdict) running() []string {
	found := map[string]bool{}
	for _, a := range v.facts.answers {
		if a.ready {
			found[a.release] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// fit is invariant 3: code and schema.
func (v *verdict) fit() {
	if v.person() {
		return
	}
	releases := v.running()
	if d := v.facts.deployment; len(releases) == 0 && d != nil {
		releases = []string{d.Spec.Template.Annotations[v1alpha1.AnnotationRelease]}
	}
	for _, tag := range releases {
		if why := fits(v.facts.content, tag); why != "" {
			v.say(3, "the code is %s, and the database does not fit: %s", tag, why)
		}
		release, _ := simsite.FindRelease(tag)
		if built := v.facts.content.BuiltWith; built != release.Core && v.facts.site.Status.Run.Phase != string(update.PhaseRollbackFailed) {
			v.say(3, "the code is %s, and the caches are of %s", tag, built)
		}
	}
}

// conditions is invariant 4: what the conditions and the releases say is so.
func (v *verdict) conditions() {
	site := v.facts.site
	available := v.facts.deployment != nil && v.facts.deployment.Status.AvailableReplicas > 0
	if ready := apimeta.IsStatusConditionTrue(site.Status.Conditions, v1alpha1.ConditionReady); ready != available {
		v.say(4, "Ready is %t, and that a pod is available %t", ready, available)
	}
	if !apimeta.IsStatusConditionTrue(site.Status.Conditions, v1alpha1.ConditionInitialized) {
		v.say(4, "Initialized is not True, and Drupal is installed")
	}
	for _, c := range []string{v1alpha1.ConditionPaused, v1alpha1.ConditionOrchestratorUnavailable} {
		if v.reasons[c] != "" {
			v.say(4, "%s says %s, and it is not so", c, v.reasons[c])
		}
	}
	if mark := site.Annotations[v1alpha1.AnnotationUpdateInProgress]; mark != "" {
		v.say(4, "the annotation updateInProgress is %q, and no run is open", mark)
	}
	v.updating()
	v.pending()
	v.releases()
}

func (v *verdict) updating() {
	c := apimeta.FindStatusCondition(v.facts.site.Status.Conditions, v1alpha1.ConditionUpdating)
	switch {
	case c == nil || c.Status != metav1.ConditionFalse:
		v.say(4, "Updating is %+v, and no run is open", c)
	case c.Reason != v.facts.site.Status.Run.Phase:
		v.say(4, "Updating says %s, and the run ended with %s", c.Reason, v.facts.site.Status.Run.Phase)
	}
}

// pending compares DBUpdatesPending with what is really pending, for the code that runs or for the one that failed.
func (v *verdict) pending() {
	site := v.facts.site
	says := v.reasons[v1alpha1.ConditionDBUpdatesPending]
	truth := false
	for _, tag := range v.running() {
		truth = truth || behind(v.facts.content, tag)
	}
	failed := v.reasons[v1alpha1.ConditionDBUpdatesFailed] != ""
	if says == update.ReasonOutcomeUnknown && v.person() {
		return // it claims nothing
	}
	switch {
	case says != "" && !truth && !(failed && behind(v.facts.content, site.Status.Release.Failed)):
		v.say(4, "DBUpdatesPending says %s, and nothing is pending", says)
	case says == "" && truth && !failed:
		v.say(4, "updates are pending, and no condition says so")
	}
}

// behind tells whether the database lacks updates of the release.
func behind(s *simsite.State, tag string) bool {
	schema, posts := level(tag)
	lacks := s.Schema[updatesModule] < schema
	for _, p := range posts {
		lacks = lacks || !slices.Contains(s.Posts, p)
	}
	return lacks
}

// releases compares status.release with what runs.
func (v *verdict) releases() {
	st := v.facts.site.Status.Release
	d := v.facts.deployment
	if d == nil {
		v.say(4, "the Deployment does not exist")
		return
	}
	if got := d.Spec.Template.Annotations[v1alpha1.AnnotationRelease]; got != st.Serving {
		v.say(4, "status.release.serving is %s, and the Deployment is annotated with %s", st.Serving, got)
	}
	if got, want := d.Spec.Template.Spec.Containers[0].Image, v.facts.site.ImageFor(st.Serving); got != want {
		v.say(4, "status.release.serving is %s, and the Deployment's image is %s", st.Serving, got)
	}
	for _, tag := range v.running() {
		if tag != st.Serving {
			v.say(4, "status.release.serving is %s, and a pod answers from %s", st.Serving, tag)
		}
	}
}

// end is a way in which an update may end: a phase, and the reason of the condition that goes with it.
type end struct{ phase, reason string }

// mayEnd lists how the update to a release may end, by its own doing and by the faults that struck.
func (r *round) mayEnd(sc scenario) map[end]bool {
	may := map[end]bool{}
	add := func(phase update.Phase, reasons ...string) {
		for _, reason := range reasons {
			may[end{string(phase), reason}] = true
		}
	}
	database := func(reasons ...string) { // a database update that failed once it had begun
		if r.policy == v1alpha1.FreezeSite {
			add(update.PhaseFrozen, update.ReasonFrozen)
			return
		}
		add(update.PhaseRestored, reasons...)
	}
	switch sc.nature {
	case succeeds:
		add(update.PhaseSucceeded, "")
	case failsCode:
		add(update.PhaseRolledBack, sc.reasons...)
	case failsBackup:
		add(update.PhaseRestored, update.ReasonUntouched)
	case failsDatabase:
		database(update.ReasonRestored)
	case failsRestore:
		if database(); r.policy == v1alpha1.RestoreDatabase {
			add(update.PhaseRestoreFailed, update.ReasonRestoreFailed)
		}
	}
	if r.has(excuseAborted) {
		add(update.PhaseAborted, update.ReasonAborted)
	}
	release, _ := simsite.FindRelease(sc.release)
	if len(release.Updates) > 0 {
		r.databaseEnds(sc, add, database)
	}
	if r.has(excuseDatabase) {
		code := []string{update.ReasonCacheRebuildFailed, update.ReasonDatabaseUnknown, update.ReasonVerifyFailed, update.ReasonRolloutTimeout}
		add(update.PhaseRolledBack, code...)
		add(update.PhaseCodeFailed, update.ReasonVerifyFailed)
		add(update.PhaseRollbackFailed, update.ReasonRollbackFailed)
	}
	r.rewindEnds(may)
	return may
}

// databaseEnds adds how an update with a database step may end after faults that strike in it.
func (r *round) databaseEnds(sc scenario, add func(update.Phase, ...string), database func(...string)) {
	if r.has(excuseLostUpdate) {
		database(update.ReasonRestored)
		add(update.PhaseRestored, update.ReasonUntouched) // it had not begun: whatever the policy, there is nothing to keep
	}
	if sc.nature == failsRestore && r.has(excuseLostUpdate) {
		add(update.PhaseRestoreFailed, update.ReasonRestoreFailed)
	}
	if r.has(excuseDatabase) || r.has(excuseDisk) {
		database(update.ReasonRestored)
		add(update.PhaseRestored, update.ReasonUntouched)
		add(update.PhaseRestoreFailed, update.ReasonRestoreFailed)
	}
}

// ending is the other half of invariant 4: failures are claimed only after such failures, and a good target is reached.
func (v *verdict) ending() {
	st := v.facts.site.Status
	code, db := v.reasons[v1alpha1.ConditionCodeUpdateFailed], v.reasons[v1alpha1.ConditionDBUpdatesFailed]
	if code != "" && db != "" {
		v.say(4, "both CodeUpdateFailed (%s) and DBUpdatesFailed (%s) are there", code, db)
	}
	got := end{st.Run.Phase, code + db}
	sc, ok := v.subject()
	if !ok {
		v.say(4, "the newest run was about %s, which nobody asked for", st.Release.Target)
		return
	}
	if !v.round.mayEnd(sc)[got] {
		v.say(4, "the update to %s (%s) ended with %s, reason %q: %s", sc.release, sc.nature, got.phase, got.reason, st.Run.Message)
	}
	wanted := v.round.wanted()
	if sc.release != wanted.release && !v.person() && code != update.ReasonRollbackFailed {
		v.say(8, "%s is wanted, and the newest run was about %s", wanted.release, sc.release)
	}
	if v.round.rewinding(update.Phase(got.phase)) {
		return // of the releases it says nothing
	}
	if got.phase != string(update.PhaseSucceeded) && st.Release.Failed != st.Release.Target {
		v.say(4, "the run ended with %s, and status.release is %+v", got.phase, st.Release)
	}
	if got.phase == string(update.PhaseSucceeded) && st.Release != (v1alpha1.ReleaseStatus{Serving: sc.release, Failsafe: sc.release, Target: sc.release}) {
		v.say(4, "the run ended well, and status.release is %+v", st.Release)
	}
}

// subject is the scenario of the release that the newest run was about.
func (v *verdict) subject() (scenario, bool) {
	v.round.mu.Lock()
	defer v.round.mu.Unlock()
	for _, sc := range slices.Backward(v.round.asked) {
		if sc.release == v.facts.site.Status.Release.Target {
			return sc, true
		}
	}
	return scenario{}, false
}

// serves is invariant 5.
func (v *verdict) serves() {
	failed := v.facts.site.Status.Run.Phase
	if v.person() || failed == string(update.PhaseRollbackFailed) || failed == string(update.PhaseCodeFailed) {
		return
	}
	want := 200
	if v.round.maintenance {
		want = 503
	}
	ready := 0
	for name, a := range v.facts.answers {
		if !a.ready {
			continue
		}
		ready++
		// A page that was in the cache before maintenance mode is served from it.
		if a.code != want && !(v.round.maintenance && a.code == 200) {
			v.say(5, "the pod %s answers %d", name, a.code)
		}
	}
	if ready == 0 {
		v.say(5, "no pod is ready to serve")
	}
}

// backups is invariant 6.
func (v *verdict) backups() {
	there := map[string]backupFacts{}
	for _, b := range v.facts.backups {
		there[b.name] = b
		if b.problem != "" {
			v.say(6, "the backup %s cannot be restored: %s", b.name, b.problem)
			continue
		}
		v.backupHolds(b)
	}
	for name, was := range v.round.seenBackups() {
		b, ok := there[name]
		switch {
		case ok && was.started && b.sha != was.sha:
			v.say(6, "the backup %s has another checksum than when it was made", name)
		case !ok && was.started && v.person():
			v.say(6, "the backup %s is gone, and a failed update refers to it", name)
		}
	}
	for _, b := range v.facts.backups {
		if b.needed() && v.person() && !v.named(b.name) {
			v.say(6, "a person needs the backup %s, and neither status.backups nor the condition names it", b.name)
		}
	}
	for _, b := range v.facts.site.Status.Backups {
		if one, ok := there[b.Name]; ok && one.sha != b.SHA256 {
			v.say(6, "status.backups gives another checksum for %s than the volume", b.Name)
		}
	}
}

func (v *verdict) named(backup string) bool {
	c := apimeta.FindStatusCondition(v.facts.site.Status.Conditions, v1alpha1.ConditionDBUpdatesFailed)
	return c != nil && strings.Contains(c.Message, backup) ||
		slices.ContainsFunc(v.facts.site.Status.Backups, func(b v1alpha1.BackupStatus) bool { return b.Name == backup })
}

// backupHolds compares a backup with what the database must have held when it was taken.
func (v *verdict) backupHolds(b backupFacts) {
	from := ""
	for _, sc := range v.round.asked {
		if strings.Contains(b.name, "-"+sc.release+"-") {
			from = sc.release
		}
	}
	if from == "" {
		v.say(6, "the backup %s is of no release that this site ever had", b.name)
		return
	}
	if why := fits(b.content, from); why != "" {
		v.say(6, "the backup %s is of %s, and does not fit: %s", b.name, from, why)
	}
	if b.content.Rows["owner"] != "content" {
		v.say(6, "the backup %s lacks the owner's content", b.name)
	}
	for key, at := range v.facts.visits {
		if at.Before(b.taken) && b.content.Rows[key] == "" && !v.spared(at) {
			v.say(6, "the backup %s lacks the row %s, which was written %s before it", b.name, key, b.taken.Sub(at).Round(time.Millisecond))
		}
	}
}

// rows is the rest of invariant 6: the database holds what its owner and its visitors wrote, and every update once.
func (v *verdict) rows() {
	rows := v.facts.content.Rows
	if v.reasons[v1alpha1.ConditionDBUpdatesFailed] == update.ReasonRestoreFailed {
		if slices.ContainsFunc(v.facts.backups, func(b backupFacts) bool { return b.needed() && b.problem == "" }) {
			return // the backup, which was looked at, is what holds them
		}
	}
	if rows["owner"] != "content" {
		v.say(6, "the database has lost its owner's content")
	}
	lost := 0
	for key, at := range v.facts.visits {
		if rows[key] == "" && !v.spared(at) {
			lost++
		}
	}
	if lost > 0 {
		v.say(6, "the database has lost %d rows that visitors wrote", lost)
	}
	for key, times := range rows {
		if strings.HasPrefix(key, updatesModule+"_") && times != "1" {
			v.say(1, "the update %s was applied %s times", key, times)
		}
	}
}

// leftBehind is invariant 7.
func (v *verdict) leftBehind() {
	for _, j := range v.facts.jobs {
		if !jobOver(&j) {
			v.say(7, "the Job %s still runs", j.Name)
		}
		if j.Spec.TTLSecondsAfterFinished == nil {
			v.say(7, "nothing will ever clean up the Job %s", j.Name)
		}
	}
	for _, p := range v.facts.pods {
		over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.Labels[batchv1.JobNameLabel] != "" && !over {
			v.say(7, "the pod %s of a Job still runs", p.Name)
		}
	}
	for _, name := range v.facts.litter {
		v.say(7, "the file %s is left behind, though another operation has ended well since", name)
	}
	if v.facts.locked {
		v.say(7, "the lock on the backup volume is held")
	}
	if v.person() {
		return
	}
	for _, c := range v.facts.crons {
		before, ours := cronJobs()[c.Name]
		if suspended := c.Spec.Suspend != nil && *c.Spec.Suspend; ours && suspended != before {
			v.say(7, "the CronJob %s is suspended: %t, and was %t", c.Name, suspended, before)
		}
		for key := range c.Annotations {
			if strings.HasPrefix(key, "drupdate.dev/") {
				v.say(7, "the CronJob %s still has the annotation %s", c.Name, key)
			}
		}
	}
}

// runs is the part of invariant 8 that Temporal tells: every run is closed, none by a fault of the workflow's code.
func (v *verdict) runs() {
	for _, run := range v.facts.runs {
		if run.status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			v.say(8, "the run %s is open", run.id)
		}
		for _, fault := range run.faults {
			v.say(8, "run %s: %s", run.id, fault)
		}
	}
	if v.facts.site == nil {
		return
	}
	recorded := v.facts.site.Status.Run
	if recorded == nil {
		v.say(8, "status.run is empty")
		v.facts.site.Status.Run = &v1alpha1.RunStatus{}
		return
	}
	at := slices.IndexFunc(v.facts.runs, func(run runFacts) bool { return run.id == recorded.RunID })
	if at < 0 {
		return // visibility is behind
	}
	failed := v.facts.runs[at].status == enums.WORKFLOW_EXECUTION_STATUS_FAILED
	completed := v.facts.runs[at].status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	switch update.Phase(recorded.Phase) {
	case update.PhaseSucceeded, update.PhaseSuspended, update.PhaseSuperseded, update.PhaseRewound:
		if failed {
			v.say(4, "the run failed in Temporal, and the resource says %s", recorded.Phase)
		}
	case update.PhaseAborted:
	default:
		if completed {
			v.say(4, "the run completed in Temporal, and the resource says %s", recorded.Phase)
		}
	}
}

// gone judges what is left of a deleted site.
func (v *verdict) gone() {
	if !v.round.has(excuseDeleted) {
		v.say(4, "the site is gone, and nobody deleted it")
	}
	for _, name := range v.facts.left {
		v.say(7, "of the deleted site is left: %s", name)
	}
}

func (r *round) seenBackups() map[string]backupSeen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seen)
}

func sumOf(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
