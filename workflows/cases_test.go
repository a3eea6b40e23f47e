package workflows_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/drupdate/drupdate/internal/update"
)

// A worker that dies, or a cancellation, is noticed within the heartbeat.
func TestEveryLongStepHeartbeats(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
	seen := map[string]activity.Info{}
	_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
			seen[info.ActivityType.Name] = *info
		})
	})
	require.NoError(t, err)
	for _, step := range everyStep {
		info, ran := seen[step]
		require.True(t, ran, step)
		require.Positive(t, info.StartToCloseTimeout, step)
		if info.StartToCloseTimeout > 30*time.Second {
			require.Positive(t, info.HeartbeatTimeout, step)
			require.LessOrEqual(t, info.HeartbeatTimeout, 30*time.Second, step)
		}
	}
}

// While workers are being replaced an old one may be given a step that it does not know. The SDK's answer to that is an
// error of this type, and a newer worker gets the step.
func TestAWorkerThatDoesNotKnowAStepIsNoFailure(t *testing.T) {
	t.Parallel()
	for _, step := range everyStep {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
			w.before[step] = func() {
				w.failing[step] = temporal.NewApplicationError("unable to find activityType="+step, "ActivityNotRegisteredError")
				w.before[step] = func() { delete(w.failing, step) }
			}
			summary, err := w.run(t)
			require.NoError(t, err)
			require.Equal(t, update.PhaseSucceeded, summary.Phase)
			w.orderly(t)
		})
	}
}

// What a backup needs to be read is the image that made it; the code goes back only afterwards.
func TestTheBackupIsRestoredWithTheImageThatMadeIt(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1")}
	w.ops[update.OperationUpdate] = update.OperationResult{Outcome: update.Failed, Touched: true, Message: "hook threw"}
	var at []string
	note := func() { at = append(at, w.state.Workload.Release) }
	w.before["RunOperation"] = func() {
		note()
		w.before["RunOperation"] = func() {
			note()
			w.before["RunOperation"] = note
		}
	}
	_, err := w.run(t)
	require.Equal(t, update.PhaseRestored, phaseOf(t, err))
	var ran []string
	for i, op := range w.ran {
		ran = append(ran, fmt.Sprintf("%s with %s while the Deployment has %s", op.Kind, op.Release, at[i]))
	}
	require.Equal(t, []string{
		"update with r2 while the Deployment has r2", "restore with r2 while the Deployment has r2", "lift with r1 while the Deployment has r1",
	}, ran)
}

func TestCronJobsRestWhileTheDatabaseIsUpdated(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pending["r2"] = []update.Pending{some("m_update_1"), none()}
	var during string
	w.before["RunOperation"] = func() { during = w.cron }
	_, err := w.run(t)
	require.NoError(t, err)
	require.Equal(t, "suspended", during)
	require.Equal(t, "resumed", w.cron)
}

// A tag that was pushed again rolls nothing out, and the database is asked all the same.
func TestARetryOfWhatServesStillAsksTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.state.Release, w.state.Retry = "r1", "pushed again"
	w.pending["r1"] = []update.Pending{some("m_update_1"), none()}
	summary, err := w.run(t)
	require.NoError(t, err)
	require.Equal(t, update.PhaseSucceeded, summary.Phase)
	require.Empty(t, w.history, "the image is as it was")
	require.Len(t, w.ran, 1)
}

// What makes a workflow take another path when it is replayed: the wall clock, chance, goroutines, and the order of maps.
func TestWorkflowsHaveNoSourceOfChance(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(set, name, nil, 0)
			require.NoError(t, err)
			parsed = append(parsed, file)
		}
	}
	require.Greater(t, len(parsed), 5)
	require.Empty(t, chance(set, parsed))

	bad, err := parser.ParseFile(set, "bad.go", `package workflows
import ("time"; "math/rand")
type list map[string]int
func bad(l list) {
	go bad(l)
	c := make(chan int)
	select { case c <- 1: default: }
	for range l { _ = time.Now() }
	_ = rand.Int()
}`, 0)
	require.NoError(t, err)
	require.Len(t, chance(set, []*ast.File{bad}), 7, "the test itself")
}

// chance lists every place in the files that a replay may see differently.
func chance(set *token.FileSet, files []*ast.File) []string {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Error: func(error) {}, Importer: nothing{}} // Types of other packages are not needed.
	_, _ = config.Check("workflows", set, files, info)                 // Incomplete on purpose.
	var found []string
	note := func(n ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s: %s", set.Position(n.Pos()), what))
	}
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	for _, file := range files {
		for _, spec := range file.Imports {
			if slices.Contains([]string{`"math/rand"`, `"math/rand/v2"`, `"crypto/rand"`, `"os"`, `"net"`, `"sync"`}, spec.Path.Value) {
				note(spec, spec.Path.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				note(n, "a goroutine")
			case *ast.SelectStmt:
				note(n, "a select")
			case *ast.SendStmt:
				note(n, "a channel")
			case *ast.ChanType:
				note(n, "a channel")
			case *ast.RangeStmt:
				if t := info.Types[n.X].Type; t != nil {
					if _, isMap := t.Underlying().(*types.Map); isMap {
						note(n, "the order of a map")
					}
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					note(n, "the wall clock")
				}
			}
			return true
		})
	}
	return found
}

// nothing imports empty packages.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}
