package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// finding is what one check of doctor came to. Programs read it: fields are added, and never renamed or retyped.
type finding struct {
	Check  string `json:"check"`
	Result result `json:"result"`
	Detail string `json:"detail"`
	// Mend is what to do about it; empty where all is well.
	Mend string `json:"mend,omitempty"`
}

type result string

const (
	resultOK   result = "ok"
	resultWarn result = "warning"
	resultBad  result = "bad"
	// resultSkip: it could not be looked at, because of an earlier finding.
	resultSkip result = "skipped"
)

func (r result) sign() (string, style) {
	switch r {
	case resultOK:
		return "✓", green
	case resultWarn:
		return "·", yellow
	case resultBad:
		return "✗", alarm
	default:
		return "-", faint
	}
}

func well(check, format string, args ...any) finding {
	return finding{Check: check, Result: resultOK, Detail: fmt.Sprintf(format, args...)}
}

func wrong(check string, err error, mend string) finding {
	return finding{Check: check, Result: resultBad, Detail: clean(err.Error()), Mend: mend}
}

func skipped(check, why string) finding {
	return finding{Check: check, Result: resultSkip, Detail: why}
}

// Roles that rights are checked for.
const (
	rolePerson  = "person"
	roleWatcher = "watcher"
	roleWorker  = "worker"
)

func doctorCommand(cfg Config) *cobra.Command {
	s := newSession(cfg)
	var role string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what keeps drupdate from working, and how to mend it",
		Long: "Check cluster, clock, CRD, rights, the watcher, Temporal, its namespace, its search attributes and the workers: one line each. It changes nothing.\n\n" +
			"The rights are those of who asks. Those of drupdate's own accounts are checked with --role and --as:\n" +
			"  --role watcher --as system:serviceaccount:" + systemNamespace + ":drupdate-watcher\n\n" +
			"It fails if something is wrong; a warning is not.",
		Args: exactly(),
	}
	s.clusterFlags(c)
	s.everywhereFlag(c.Flags())
	s.queueFlag(c.Flags())
	s.outputFlag(c, asJSON, asYAML)
	c.Flags().StringVar(&role, "role", rolePerson, "whose rights are needed: person, watcher or worker")
	s.complete(c, "role", func(context.Context) []string { return []string{rolePerson, roleWatcher, roleWorker} })
	c.RunE = s.does(func(ctx context.Context, _ []string) error {
		if rights[role] == nil {
			return Usage(fmt.Errorf("--role is person, watcher or worker, not %q", role))
		}
		return s.doctor(ctx, role)
	})
	return c
}

func (s *session) doctor(ctx context.Context, role string) error {
	found := append(s.checkCluster(ctx, role), s.checkTemporal(ctx)...)
	if s.structured() {
		if err := s.print(list[finding]{found}); err != nil {
			return err
		}
	} else {
		s.findings(found)
	}
	bad := 0
	for _, f := range found {
		if f.Result == resultBad {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d checks found something wrong", bad, len(found))
	}
	return nil
}

// findings writes one line each, and what mends it below.
func (s *session) findings(found []finding) {
	t := &table{}
	for _, f := range found {
		sign, look := f.Result.sign()
		name := cell{text: f.Check}
		detail := cell{text: f.Detail}
		if f.Result == resultSkip {
			name.style, detail.style = faint, faint
		}
		t.add(cell{sign, look}, name, detail)
		if f.Mend != "" {
			t.add(text(""), text(""), cell{"→ " + f.Mend, blue})
		}
	}
	s.wrapped(t)
}
