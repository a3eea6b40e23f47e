package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

func watchCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	c := &cobra.Command{
		Use:   "watch [SITE]",
		Short: "Watch the sites until interrupted",
		Long: "Watch the sites until interrupted.\n\n" +
			"On a terminal it is a table that stays where it is; otherwise a line for each change: time, site, state, releases, message.",
		Args:              between(0, "SITE"),
		ValidArgsFunction: s.completeSites,
	}
	s.clusterFlags(c)
	s.everywhereFlag(c.Flags())
	c.RunE = s.does(func(ctx context.Context, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		return s.watch(ctx, name)
	})
	return c
}

func (s *session) watch(ctx context.Context, name string) error {
	// A plain read first: its errors are told at once, a watch would try for ever.
	if name != "" {
		c, err := s.kube()
		if err != nil {
			return err
		}
		if _, err := s.site(ctx, c, name); err != nil {
			return err
		}
	} else if _, err := s.sites(ctx); err != nil {
		return err
	}
	ns, err := s.scope()
	if err != nil {
		return err
	}
	f, err := s.follow(ctx, ns, name)
	if err == nil && s.out.live {
		err = s.watchScreen(ctx, f)
	} else if err == nil {
		err = s.watchLines(ctx, f)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was interrupted, as announced
	}
	return err
}

// watchScreen draws the table again whenever something changes, and once a second for the times in it.
func (s *session) watchScreen(ctx context.Context, f *follower) error {
	drawn := &screen{out: s.out}
	defer drawn.close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		sites, err := f.sites(ctx)
		if err != nil {
			return err
		}
		drawn.draw(s.watchLinesOf(sites, f.fault()))
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
		case <-tick.C:
		}
	}
}

// watchLinesOf is the screen of watch: a summary, and as many sites as there is room for, those in order dropped first.
func (s *session) watchLinesOf(sites []v1alpha1.DrupalSite, trouble error) []string {
	lines := []string{s.summary(sites), ""}
	if trouble != nil {
		lines[1] = s.out.paint(cut("! "+trouble.Error(), max(20, s.out.width())), red)
	}
	if len(sites) == 0 {
		return append(lines, s.noSites())
	}
	_, height := s.out.size()
	room := height - len(lines) - 3 // the table's head, a line that tells what is left out, and the cursor's
	shown, hidden := sites, 0
	if height > 0 && len(sites) > room {
		shown = mostTelling(sites, max(room, 1))
		hidden = len(sites) - len(shown)
	}
	lines = append(lines, s.siteTable(shown).lines(s.out)...)
	if hidden > 0 {
		lines = append(lines, s.out.paint(fmt.Sprintf("… and %d more", hidden), faint))
	}
	return lines
}

// mostTelling are at most n sites, in order: those that need somebody before those that are busy before the others.
func mostTelling(sites []v1alpha1.DrupalSite, n int) []v1alpha1.DrupalSite {
	keep := map[int]bool{}
	for _, h := range []health{person, failed, busy, waiting, good} {
		for i := range sites {
			if len(keep) < n && judge(&sites[i]).health == h {
				keep[i] = true
			}
		}
	}
	var shown []v1alpha1.DrupalSite
	for i := range sites {
		if keep[i] {
			shown = append(shown, sites[i])
		}
	}
	return shown
}

// summary counts the sites by health.
func (s *session) summary(sites []v1alpha1.DrupalSite) string {
	counts := map[health]int{}
	for i := range sites {
		counts[judge(&sites[i]).health]++
	}
	parts := []string{update.Count(len(sites), "site")}
	for _, h := range []struct {
		health health
		text   string
	}{{good, "in order"}, {busy, "updating"}, {waiting, "waiting"}, {failed, "failed"}, {person, "need a person"}} {
		if n := counts[h.health]; n > 0 {
			_, look := h.health.sign()
			parts = append(parts, s.out.paint(fmt.Sprintf("%d %s", n, h.text), look))
		}
	}
	return s.out.paint(s.now().Format(time.TimeOnly), faint) + "  " + strings.Join(parts, " · ")
}

// watchLines writes a line for each change.
func (s *session) watchLines(ctx context.Context, f *follower) error {
	shown := map[string]string{}
	for {
		sites, err := f.sites(ctx)
		if err != nil {
			return err
		}
		present := map[string]bool{}
		for i := range sites {
			site := &sites[i]
			name := site.Namespace + "/" + site.Name
			present[name] = true
			if line := changeLine(site); shown[name] != line {
				shown[name] = line
				s.out.say("%s %s %s", s.stamp(), name, line)
			}
		}
		for name := range shown {
			if !present[name] {
				delete(shown, name)
				s.out.say("%s %s Deleted", s.stamp(), name)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
		}
	}
}

func (s *session) stamp() string { return s.now().UTC().Format(time.RFC3339) }

// changeLine is what is told of a site when it changes, without its name.
func changeLine(site *v1alpha1.DrupalSite) string {
	v := judge(site)
	releases := short(site.Status.Release.Serving)
	if site.Spec.Release != site.Status.Release.Serving {
		releases += "→" + short(site.Spec.Release)
	}
	return fmt.Sprintf("%s %s %s", v.state, releases, clean(v.message))
}

// screen is lines that are drawn over the ones before.
type screen struct {
	out   *terminal
	drawn int
}

func (d *screen) draw(lines []string) {
	var b strings.Builder
	if d.drawn == 0 {
		b.WriteString("\x1b[?25l") // no cursor that jumps about
	} else {
		fmt.Fprintf(&b, "\x1b[%dA", d.drawn)
	}
	for _, line := range lines {
		b.WriteString("\r" + line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	d.drawn = len(lines)
	_, _ = d.out.Write([]byte(b.String())) // Nobody is left to be told.
}

func (d *screen) close() {
	if d.drawn > 0 {
		_, _ = d.out.Write([]byte("\x1b[?25h")) // Nobody is left to be told.
	}
}

// await follows one site until done says so, and writes a line for each state that it passes. It returns the site as it
// was then, or nil if it was deleted. A closed wake has done asked once more; it may be nil.
func (s *session) await(ctx context.Context, key kube.ObjectKey, wake <-chan struct{}, done func(*v1alpha1.DrupalSite) bool) (*v1alpha1.DrupalSite, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := s.follow(ctx, key.Namespace, key.Name)
	if err != nil {
		return nil, err
	}
	last := ""
	for {
		site := &v1alpha1.DrupalSite{}
		switch err := f.cache.Get(ctx, key, site); {
		case apierrors.IsNotFound(err):
			return nil, nil //nolint:nilnil // absence is an answer
		case err != nil:
			return nil, err
		}
		if v := judge(site); v.state+v.message != last {
			last = v.state + v.message
			s.step(v)
		}
		if done(site) {
			return site, nil
		}
		select {
		case <-ctx.Done():
			return site, ctx.Err()
		case <-f.changed:
		case <-wake:
			wake = nil
		}
	}
}

// step writes one state that a site passes.
func (s *session) step(v verdict) {
	sign, look := v.health.sign()
	const states = 20
	first := fmt.Sprintf("%s  %s %-*s", s.now().Format(time.TimeOnly), sign, states, v.state)
	room := s.out.width() - len([]rune(first)) - 1
	if s.out.width() == 0 {
		room = 0
	}
	for i, line := range wrap(clean(v.message), room) {
		head := strings.Repeat(" ", len([]rune(first)))
		if i == 0 {
			head = s.out.paint(s.now().Format(time.TimeOnly), faint) + "  " + s.out.paint(fmt.Sprintf("%s %-*s", sign, states, v.state), look)
		}
		s.out.say("%s %s", head, line)
	}
}
