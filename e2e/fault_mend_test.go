//go:build fault

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drupdate/drupdate/api/v1alpha1"
	"github.com/drupdate/drupdate/internal/update"
)

// afterwards is what follows when everything was judged: a person mends what waits for one, and a site that did not
// get what it was asked for, or is to show that it can, moves to the newest release.
func (r *round) afterwards(ctx context.Context, f *facts) error {
	if f.site == nil {
		return nil
	}
	if needsPerson(f.site) || f.site.Status.Run.Phase == string(update.PhaseCodeFailed) {
		if err := r.mend(ctx, f); err != nil {
			return fmt.Errorf("mend the site: %w", err)
		}
	}
	if !r.follow || r.wanted().release == followUp().release {
		return nil
	}
	r.note("the newest release is asked for")
	r.again()
	if err := r.want(ctx, followUp()); err != nil {
		return err
	}
	if !r.settled(ctx) {
		return nil
	}
	_, err := r.examine(ctx)
	return err
}

// again begins a new chapter: what was excused so far is no excuse any more.
func (r *round) again() {
	events, _ := r.journal() // an unreadable journal is noticed when it is judged
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excuses, r.offset = map[excuse]bool{}, len(events)
}

// mend does what docs/operations.md tells a person to do: restore the backup by hand where updatedb began and did not
// end, ask for the release that the database belongs to, and say by a retry that the site is in order again.
func (r *round) mend(ctx context.Context, f *facts) error {
	r.note("a person mends the site")
	if code, said := r.simsite("", "simsite", "db", "repair", r.databaseName()); code != 0 {
		return errors.New(said)
	}
	if err := r.restoreByHand(f); err != nil {
		return err
	}
	content, err := r.content()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(r.asked, func(sc scenario) bool { return fits(content, sc.release) == "" })
	if at < 0 {
		return fmt.Errorf("the database fits none of the releases: schema %v, post updates %v, tables %v", content.Schema[updatesModule], content.Posts, content.Tables)
	}
	sc := r.asked[at]
	sc.nature, sc.reasons = succeeds, nil // the database is that of the release: there is nothing left that could fail
	r.again()
	r.mu.Lock()
	r.asked = append(r.asked, sc)
	r.mu.Unlock()
	r.note("a retry asks for %s", sc.release)
	err = retried(ctx, func(ctx context.Context) error {
		return cluster.Patch(ctx, r.object(), merge(`{"metadata":{"annotations":{%q:"%d"}},"spec":{"release":%q}}`,
			v1alpha1.AnnotationRetry, time.Now().UnixNano(), sc.release))
	})
	if err != nil || !r.settled(ctx) {
		return err
	}
	if code, said := r.simsite("", "simsite", "db", "maint", r.databaseName(), map[bool]string{false: "0", true: "1"}[r.maintenance]); code != 0 {
		return errors.New(said)
	}
	_, err = r.examine(ctx)
	return err
}

// restoreByHand puts the backup of a half-finished update back, with the site's own tools.
func (r *round) restoreByHand(f *facts) error {
	at := slices.IndexFunc(f.backups, backupFacts.needed)
	if at < 0 {
		return nil
	}
	b := f.backups[at]
	if b.problem != "" {
		return fmt.Errorf("the backup %s: %s", b.name, b.problem)
	}
	dir, err := r.volume(r.name + "-backups")
	if err != nil {
		return err
	}
	r.note("the backup %s is restored by hand", b.name)
	path := filepath.Join(dir, b.file)
	if r.driver == "sqlite" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.databaseName(), raw, 0o666); err != nil {
			return err
		}
	} else {
		if code, said := r.simsite("", "drush", "sql:drop", "-y"); code != 0 {
			return errors.New(said)
		}
		if err := r.feed(path, r.database()); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, b.name+".restored"), []byte("by hand\n"), 0o644)
}
