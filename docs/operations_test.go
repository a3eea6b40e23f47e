// Package docs holds documents; its tests hold them to the code.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A condition, reason, phase or failure type that an operator can meet is explained in operations.md.
func TestOperationsNamesEveryConditionReasonPhaseAndFailure(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("operations.md")
	require.NoError(t, err)
	var found int
	var absent []string
	for name, value := range constants(t, "../api/v1alpha1", "../internal/update") {
		for _, kind := range []string{"Condition", "Reason", "Phase", "Failure"} {
			if !strings.HasPrefix(name, kind) {
				continue
			}
			found++
			if !strings.Contains(string(raw), "`"+value+"`") {
				absent = append(absent, name+" "+value)
			}
		}
	}
	require.Empty(t, absent)
	require.Greater(t, found, 40)
}

// What a rollout failed for comes from constants of package activities that are not exported.
func TestOperationsNamesEveryReasonOfAFailedRollout(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("operations.md")
	require.NoError(t, err)
	var absent []string
	for name, value := range constants(t, "../activities") {
		if strings.HasPrefix(name, "reason") && !strings.Contains(string(raw), "`"+value+"`") {
			absent = append(absent, name+" "+value)
		}
	}
	require.Empty(t, absent)
}

// constants are the string constants that the Go files of folders declare at their top level, by name.
func constants(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			for _, decl := range file.Decls {
				collect(found, decl)
			}
		}
	}
	return found
}

func collect(found map[string]string, decl ast.Decl) {
	general, ok := decl.(*ast.GenDecl)
	if !ok || general.Tok != token.CONST {
		return
	}
	for _, spec := range general.Specs {
		values := spec.(*ast.ValueSpec)
		for i, name := range values.Names {
			if i >= len(values.Values) {
				continue
			}
			literal, ok := values.Values[i].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			if text, err := strconv.Unquote(literal.Value); err == nil {
				found[name.Name] = text
			}
		}
	}
}
