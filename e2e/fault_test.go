//go:build fault

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// tally counts what happened to faults over all waves.
type tally struct {
	mu     sync.Mutex
	fired  map[string]int
	missed map[string]int
	broken map[string]int
	// restores counts what restores on demand came to.
	restores map[string]int
	// reminded counts what the garbage collector of Kubernetes forgot.
	reminded int
	rounds   int
	failed   []string
}

// wave is a number of sites that are updated side by side, on one stack.
type wave struct {
	plan   wavePlan
	rounds []*round

	mu     sync.Mutex
	phases map[string]string
	// reminded are the sites for whose sake the garbage collector was started anew.
	reminded []string
}

// TestFaults lets things go wrong during real updates, and looks afterwards whether any site was left worse than it was
// found. SEED is the seed of the first wave, ROUNDS the number of sites in all, SITES that of one wave; no wave begins
// when the time FOR is over.
func TestFaults(t *testing.T) {
	seed, rounds, sites := number(t, "SEED", 1), number(t, "ROUNDS", 8), number(t, "SITES", 8)
	begun, limit := time.Now(), timeLimit(t, "FOR")
	sum := &tally{fired: map[string]int{}, missed: map[string]int{}, broken: map[string]int{}, restores: map[string]int{}}
	for left := rounds; left > 0 && (limit == 0 || time.Since(begun) < limit); left -= sites {
		w := newWave(draw(uint64(seed), sites), min(left, sites))
		seed++
		t.Run(fmt.Sprintf("seed %d", w.plan.seed), func(t *testing.T) {
			w.run(t, sum)
		})
		fmt.Printf("--- %d rounds, %d with violations, %s\n", sum.rounds, len(sum.failed), time.Since(begun).Round(time.Second))
	}
	sum.print(time.Since(begun))
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, and must be a number above 0", name, text)
	}
	return n
}

// timeLimit is zero where none is given.
func timeLimit(t *testing.T, name string) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	limit, err := time.ParseDuration(text)
	if err != nil || limit <= 0 {
		t.Fatalf("%s is %q, and must be a time such as 2h30m", name, text)
	}
	return limit
}

func newWave(p wavePlan, sites int) *wave {
	w := &wave{plan: p, phases: map[string]string{}}
	for _, one := range p.sites[:sites] {
		w.rounds = append(w.rounds, newRound(w, one))
	}
	return w
}

func (w *wave) describe() {
	global := "nothing"
	if g := w.plan.global; g != nil {
		global = fmt.Sprintf("%s (%.1f s) after %.1f s", g.name, g.last.Seconds(), w.plan.at.Seconds())
	}
	fmt.Printf("=== seed %d, %s: to all: %s\n", w.plan.seed, time.Now().Format(time.TimeOnly), global)
	for _, r := range w.rounds {
		fmt.Println("    " + r.plan.String())
	}
}

// each runs something for every round, side by side.
func (w *wave) each(do func(*round)) { each(w.rounds, do) }

func each(rounds []*round, do func(*round)) {
	var group sync.WaitGroup
	for _, r := range rounds {
		group.Go(func() { do(r) })
	}
	group.Wait()
}

// run is the story of a wave: set up in calm, update amid faults, wait for calm, judge, mend, judge again.
func (w *wave) run(t *testing.T, sum *tally) {
	w.describe()
	begun := time.Now()
	stage := func(name string) {
		fmt.Printf("    %s %s\n", time.Since(begun).Round(time.Second), name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	defer w.tearDown()
	if err := shared.whole(2 * time.Minute); err != nil {
		t.Errorf("the system is not whole at the beginning: %v", err)
	}
	w.each(func(r *round) {
		if err := r.set(ctx); err != nil {
			r.violated(0, "set up: %v", err)
		}
	})
	stage("set up")
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { w.watchPhases(watching) })
	for _, r := range w.rounds {
		watchers.Go(func() { r.watch(watching) })
	}
	w.strike(ctx)
	stage("all updates and faults are over")
	w.each(func(r *round) { r.conclude(ctx) })
	stage("judged and mended")
	w.rewinds(ctx)
	stop()
	watchers.Wait()
	stage("restored on demand and judged")
	w.report(t, sum)
}

// strike updates every site amid the wave's own fault and those of the sites, and returns when all of them are over.
func (w *wave) strike(ctx context.Context) {
	var group sync.WaitGroup
	if g := w.plan.global; g != nil {
		group.Go(func() {
			pause(w.plan.at)
			w.rounds[0].strike(ctx, *g)
		})
	}
	group.Go(func() {
		w.each(func(r *round) {
			if err := r.run(ctx); err != nil {
				r.note("the update: %v", err)
			}
		})
	})
	group.Wait()
	if err := shared.whole(2 * time.Minute); err != nil {
		w.rounds[0].violated(0, "the system is not whole after the faults: %v", err)
	}
}

// conclude judges a round when no fault of the wave is left, and does what is left for a person.
func (r *round) conclude(ctx context.Context) {
	if r.failedAlready() || !r.settled(ctx) {
		return
	}
	f, err := r.examine(ctx)
	if err != nil {
		r.violated(0, "examine: %v", err)
		return
	}
	if r.failedAlready() {
		return
	}
	if err := r.afterwards(ctx, f); err != nil {
		r.violated(8, "%v", err)
	}
}

func (r *round) failedAlready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.broken) > 0
}

// examine judges the site. What the world needs a moment for may take it; what stays is a violation.
func (r *round) examine(ctx context.Context) (*facts, error) {
	deadline := time.Now().Add(25 * time.Second)
	for {
		f, err := r.gather(ctx)
		if err == nil {
			found := judge(r, f)
			if len(found) == 0 || time.Now().After(deadline) {
				for _, v := range found {
					r.violated(v.invariant, "%s", v.text)
				}
				return f, nil
			}
		}
		if time.Now().After(deadline) {
			return nil, err
		}
		pause(time.Second)
	}
}

// watchPhases keeps the phases of all runs, for the triggers.
func (w *wave) watchPhases(ctx context.Context) {
	for ctx.Err() == nil {
		list := &v1alpha1.DrupalSiteList{}
		look, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := cluster.List(look, list)
		cancel()
		if err == nil {
			w.mu.Lock()
			for _, site := range list.Items {
				if site.Status.Run != nil {
					w.phases[site.Namespace] = site.Status.Run.Phase
				}
			}
			w.mu.Unlock()
		}
		pause(150 * time.Millisecond)
	}
}

func (w *wave) phase(ns string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.phases[ns]
}

func (w *wave) tearDown() {
	for _, r := range w.rounds {
		if r.ns == "" {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) //nolint:forbidigo // the test is over
		err := retried(ctx, func(ctx context.Context) error {
			return cluster.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.ns}})
		})
		cancel()
		if err != nil {
			fmt.Printf("    the namespace %s stays: %v\n", r.ns, err)
		}
		if err := r.unmount(); err != nil {
			fmt.Printf("    %v\n", err)
		}
	}
}

// report counts, and fails the test with everything that a person needs to understand a violation.
func (w *wave) report(t *testing.T, sum *tally) {
	sum.mu.Lock()
	defer sum.mu.Unlock()
	shared.mu.Lock()
	deaths := shared.deaths
	shared.deaths = nil
	shared.mu.Unlock()
	for _, death := range deaths {
		fmt.Printf("    %s\n", death)
	}
	for _, one := range w.reminded {
		sum.reminded++
		fmt.Printf("    Kubernetes left something behind, until its controller manager was started anew: %s\n", one)
	}
	for _, r := range w.rounds {
		sum.rounds++
		ours := slices.Collect(maps.Keys(r.fired))
		if g := w.plan.global; g != nil && w.rounds[0] != r {
			ours = append(ours, g.name)
		}
		for name := range r.fired {
			sum.fired[name]++
		}
		for _, name := range r.missed {
			sum.missed[name]++
		}
		if r.rewind != nil && r.rewind.fate != "" {
			sum.restores[r.rewind.fate]++
		}
		if len(r.broken) == 0 {
			continue
		}
		for _, name := range ours {
			sum.broken[name]++
		}
		sum.failed = append(sum.failed, fmt.Sprintf("%d/%d: %s", r.seed, r.index, r.broken[0]))
		t.Error(r.dump())
	}
}

// print is the table at the end.
func (sum *tally) print(total time.Duration) {
	names := map[string]bool{}
	for _, list := range [][]fault{globalFaults(), localFaults()} {
		for _, f := range list {
			names[f.name] = true
		}
	}
	fmt.Printf("\n%-26s %6s %7s %11s\n", "fault", "struck", "missed", "violations")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Printf("%-26s %6d %7d %11d\n", name, sum.fired[name], sum.missed[name], sum.broken[name])
	}
	for _, fate := range slices.Sorted(maps.Keys(sum.restores)) {
		fmt.Printf("restores on demand: %3d %s\n", sum.restores[fate], fate)
	}
	if sum.reminded > 0 {
		fmt.Printf("restarts of the controller manager, for what it forgot: %d\n", sum.reminded)
	}
	fmt.Printf("%d rounds, %d with violations, %s\n", sum.rounds, len(sum.failed), total.Round(time.Second))
	for _, f := range sum.failed {
		fmt.Println("  " + strings.ReplaceAll(f, "\n", " "))
	}
}
