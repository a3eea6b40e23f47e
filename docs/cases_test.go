package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// situations are the ids of all that cases.md must answer for.
const situations = `A01 A02 A04 A05 A07 A08 A10 A11 A13 A14 A16 A17 A19 A20 A22 A23 A25 A26
B01 B02 B04 B05 B07 B08 B10 B11 B13 B14 B16 B17 B19
C01 C02 C04 C05 C07 C08 C10 C11 C13 C14 C16 C17 C19 C20 C22
D01 D02 D04 D05 D07 D08 D10 D11 D13 D14 D16 D17
E01 E02 E04 E05 E07 E08 E10 E11 E13 E14 E16 E17 E19 E20 E22 E23
F01 F02 F04 F05 F07 F08 F10 F11 F13 F14 F16 F17 F19 F20 F22 F23`

// Each situation of cases.md is shown by a test that exists, or by a line of limits.md.
func TestEverySituationHasATestOrALimit(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("cases.md")
	require.NoError(t, err)
	var ids []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]\d\d) \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(string(raw), -1) {
		ids = append(ids, row[1])
		require.Less(t, len(row[2]), 100, row[1])
		for shown := range strings.SplitSeq(row[3], "<br>") {
			if limit, ok := strings.CutPrefix(shown, "limits: "); ok {
				require.True(t, hasLimit(t, limit), "%s: limits.md has no line that begins with %q", row[1], limit)
				continue
			}
			folder, name, ok := strings.Cut(strings.Trim(shown, "`"), ": ")
			require.True(t, ok, "%s: %s", row[1], shown)
			require.True(t, hasTest(t, folder, name), "%s: %s has no test %q", row[1], folder, name)
		}
	}
	require.Equal(t, strings.Fields(situations), ids)
	require.False(t, hasTest(t, "docs", "TestThatIsNotThere") || hasTest(t, "workflows", "TestUpdateSite/no such subtest") || hasLimit(t, "No such limit"))
}

func hasLimit(t *testing.T, text string) bool {
	t.Helper()
	raw, err := os.ReadFile("limits.md")
	require.NoError(t, err)
	return strings.Contains(string(raw), "\n- "+text)
}

// hasTest tells whether a package has a test, and whether the file of that test has the name of its subtest as a string.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	require.NoError(t, err)
	function, subtest, nested := strings.Cut(name, "/")
	for _, file := range files {
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(code), "\nfunc "+function+"(") {
			return !nested || strings.Contains(string(code), strconv.Quote(subtest))
		}
	}
	return false
}
