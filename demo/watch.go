package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// watch shows the table until every site has ended, and tells which did not end as announced.
func (s *stack) watch(ctx context.Context, players []*player) error {
	screen := &screen{live: term.IsTerminal(int(os.Stdout.Fd())), shown: map[string]string{}}
	started := time.Now()
	ends := map[string]*v1alpha1.DrupalSite{}
	for {
		for _, p := range players {
			if ends[p.name] != nil {
				continue
			}
			site, err := s.site(ctx, p)
			if err != nil {
				return fmt.Errorf("look at the site %q: %w", p.name, err)
			}
			p.look(site, time.Since(started))
			if p.ended(site) {
				ends[p.name] = site
			}
		}
		screen.draw(players)
		for _, r := range roles() {
			if err := s.alive(r.name); err != nil {
				return err
			}
		}
		if len(ends) == len(players) {
			return s.verdict(ctx, players, ends)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d sites have not ended: %w", len(players)-len(ends), len(players), ctx.Err())
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (s *stack) verdict(ctx context.Context, players []*player, ends map[string]*v1alpha1.DrupalSite) error {
	var wrong []error
	for _, p := range players {
		var answers string
		err := poll(ctx, 20*time.Second, func() (err error) {
			answers, err = s.answers(ctx, p)
			return err
		})
		if err != nil {
			answers = err.Error()
		}
		if difference := p.asAnnounced(ends[p.name], answers); difference != "" {
			wrong = append(wrong, errors.New(difference))
		}
	}
	fmt.Println()
	if len(wrong) == 0 {
		fmt.Printf("All %d sites ended as announced; each front page answers 200 from the release shown.\n", len(players))
	}
	return errors.Join(wrong...)
}

// screen redraws the table on a terminal; elsewhere it prints a line for each change.
type screen struct {
	live  bool
	drawn bool
	shown map[string]string
}

func (s *screen) draw(players []*player) {
	if !s.drawn {
		fmt.Println(header())
	}
	if s.live && s.drawn {
		fmt.Printf("\x1b[%dA", len(players))
	}
	for _, p := range players {
		switch {
		case s.live:
			fmt.Printf("\x1b[2K%s\n", p.view)
		case s.shown[p.name] != p.view.phase+p.view.outcome:
			s.shown[p.name] = p.view.phase + p.view.outcome
			fmt.Println(p.view)
		}
	}
	s.drawn = true
}
