package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// A test that requirements.md names exists.
func TestRequirementsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("requirements.md")
	require.NoError(t, err)
	var code []byte
	for _, pattern := range []string{"../e2e/*_test.go", "../workflows/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			code = append(code, source...)
		}
	}
	names := regexp.MustCompile(`Test[A-Za-z]+`).FindAllString(string(raw), -1)
	require.Greater(t, len(names), 15)
	for _, name := range names {
		require.Contains(t, string(code), "func "+name+"(")
	}
}
