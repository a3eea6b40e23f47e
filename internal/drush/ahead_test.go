package drush

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseUpdatesAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		result Result
		names  []string
		known  bool
	}{
		{"two", ok(`{"drupdate_ahead":["system_update_2","node_update_1"]}`+"\n", ""), []string{"node_update_1", "system_update_2"}, true},
		{"none", ok(`{"drupdate_ahead":[]}`+"\n", ""), []string{}, true},
		{"behind PHP's notices", ok("\nDeprecated: x in y on line 7\n"+`{"drupdate_ahead":["a_update_1"]}`+"\n", ""), []string{"a_update_1"}, true},
		{"nothing", ok("", ""), nil, false},
		{"something else", ok(`{"ahead":[]}`, ""), nil, false},
		{"null", ok(`{"drupdate_ahead":null}`, ""), nil, false},
		{"exit 1", Result{Stdout: `{"drupdate_ahead":[]}`, ExitCode: 1, Complete: true}, nil, false},
		{"cut off", Result{Stdout: `{"drupdate_ahead":[]}`}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			names, known := ParseUpdatesAhead(c.result)
			require.Equal(t, c.names, names)
			require.Equal(t, c.known, known)
		})
	}
}

// The script itself is run by PHP on a Drupal made of its four services that the script asks, and of modules on disk.
func TestTheScriptNamesWhatTheDatabaseIsAheadBy(t *testing.T) {
	t.Parallel()
	php, err := exec.LookPath("php")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("PHP is not installed")
	}
	require.NoError(t, err)
	for _, c := range []struct {
		name, schema, posts string
		want                []string
	}{
		{"the code's own updates", "['core_mod' => 10001, 'contrib' => 8101]", "['core_mod_post_update_kept']", []string{}},
		{"an update of a module is not in the code", "['core_mod' => 10002]", "[]", []string{"core_mod_update_10002"}},
		{"a version from before updates that were removed", "['removing' => 10300]", "[]", []string{}},
		{"a version after them", "['removing' => 10301]", "[]", []string{"removing_update_10301"}},
		{"a module that dropped all its updates proves nothing", "['bare' => 8105]", "[]", []string{}},
		{"a module that is not installed proves nothing", "['gone' => 9999]", "['gone_post_update_x']", []string{}},
		{"a post update of core is not in the code", "[]", "['core_mod_post_update_new']", []string{"core_mod_post_update_new"}},
		{"a post update that core declares as removed", "[]", "['core_mod_post_update_old']", []string{}},
		{"a post update that a contributed module dropped without a word", "[]", "['contrib_post_update_x']", []string{}},
		{"versions stored as text", "['core_mod' => '10002']", "[]", []string{"core_mod_update_10002"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join(t.TempDir(), "ask.php")
			// As php:eval does, which adds a semicolon.
			code := "<?php\nrequire $argv[1];\nDrupal::$schema = " + c.schema + ";\nDrupal::$posts = " + c.posts + ";\neval($argv[2] . ';');\n"
			require.NoError(t, os.WriteFile(script, []byte(code), 0o600))
			argv := Command{}.UpdatesAhead()
			out, err := exec.CommandContext(t.Context(), php, "-d", "display_errors=1", script, "testdata/drupal/drupal.php", argv[len(argv)-1]).CombinedOutput()
			// Loading a relative path needs the folder of this package, which go test starts in.
			require.NoError(t, err, string(out))
			names, known := ParseUpdatesAhead(ok(string(out), ""))
			require.True(t, known, string(out))
			require.Equal(t, c.want, names)
		})
	}
}
