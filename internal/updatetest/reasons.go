// Package updatetest reads the contract for tests of those who must know all of it.
package updatetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Reasons are the values of all constants of failures.go that are reasons of a condition. The caller's package is one of
// internal: a test runs in its folder.
func Reasons(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../update/failures.go", nil, 0)
	require.NoError(t, err)
	var reasons []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		require.True(t, ok, spec.Names[0].Name)
		value, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		reasons = append(reasons, value)
		return true
	})
	require.Greater(t, len(reasons), 12)
	return reasons
}
