package drush

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func ok(stdout, stderr string) Result { return Result{Stdout: stdout, Stderr: stderr, Complete: true} }

const none = " [success] No database updates required.\n"

func TestCommandLines(t *testing.T) {
	t.Parallel()
	c := Command{Prefix: []string{"php", "vendor/bin/drush.php"}, URI: "-https://x", Root: "--root"}
	require.Equal(t, []string{"php", "vendor/bin/drush.php", "--uri=-https://x", "--root=--root", "sql:query", " -- x\nSELECT 1"},
		c.Query("-- x\nSELECT 1"))
	require.Equal(t, []string{"drush", "updatedb:status", "--format=json"}, Command{}.UpdateStatus())
	require.Equal(t, []string{"drush", "maint:set", "0"}, Command{}.MaintenanceOff())
	require.Equal(t, []string{"php", "vendor/bin/drush.php"}, c.Prefix)
	for _, d := range []Driver{MySQL, Pgsql, SQLite} {
		require.Contains(t, strings.ToLower(strings.Join(c.TableCount(d), " ")), "count(*)")
	}
	first, second := c.Argv("a"), c.Argv("b")
	require.NotEqual(t, first, second, "two command lines must not share memory")
}

func TestParseUpdateStatus(t *testing.T) {
	t.Parallel()
	object := `{"node_update_9":{"module":"node","update_id":9,"type":"hook_update_n","description":"d"}}`
	node9 := []Update{{Module: "node", ID: "9", Type: HookUpdate, Description: "d"}}
	cases := []struct {
		name    string
		result  Result
		verdict Verdict
		pending []Update
		blocked []Update
	}{
		{name: "nothing printed and the positive words", result: ok("", none), verdict: UpdatesNone},
		{name: "nothing printed and the other positive words", result: ok("", " [success] No pending updates.\n"), verdict: UpdatesNone},
		{name: "nothing printed and no word", result: ok("", "")},
		{name: "a blank line hides an encoding error", result: ok("\n", "")},
		{name: "a blank line with the positive words", result: ok("\n", none), verdict: UpdatesNone},
		{name: "positive words on the wrong stream", result: ok(none, "")},
		{name: "an empty list", result: ok("[]\n", ""), verdict: UpdatesNone},
		{name: "an empty object", result: ok("{}", ""), verdict: UpdatesNone},
		{name: "null", result: ok("null\n", ""), verdict: UpdatesNone},
		{name: "an empty list that was cut off", result: Result{Stdout: "[]"}},
		{name: "an empty list with exit 1", result: Result{Stdout: "[]", ExitCode: 1, Complete: true}},
		{name: "positive words with exit 1", result: Result{Stderr: none, ExitCode: 1, Complete: true}},
		{name: "positive words without the end frame", result: Result{Stderr: none}},
		{name: "an object", result: ok(object, ""), verdict: UpdatesPending, pending: node9},
		{name: "an object beside the positive words", result: ok(object, none), verdict: UpdatesPending, pending: node9},
		{
			name:    "a deprecation in front of the object",
			result:  ok("\nDeprecated: Return type of A::b() in phar:///x on line 14\nWarning: [1] x in y\n"+object, ""),
			verdict: UpdatesPending, pending: node9,
		},
		{name: "another line in front of the object", result: ok("[14-Feb 10:00] something\n"+object, ""), verdict: UpdatesPending, pending: node9},
		{name: "a deprecation in front of an empty list", result: ok("PHP Deprecated:  x in y on line 1\n[]\n", ""), verdict: UpdatesNone},
		{name: "text in front of an empty list", result: ok("something\n[]\n", "")},
		{name: "half an object", result: ok(object[:len(object)-1], "")},
		{name: "half a list that ends in an empty one", result: ok("[\n{\"module\":\"a\",\"x\":\n[]\n", "")},
		{name: "a list of numbers", result: ok("[0]", "")},
		{name: "rows without a module", result: ok(`{"a":{"update_id":1}}`, "")},
		{
			name:    "the list of Drush 8 names no type",
			result:  ok(`[{"module":"system","update_id":8401,"description":"x"},{"module":"a","update_id":"8001"}]`, ""),
			verdict: UpdatesPending,
			pending: []Update{{Module: "a", ID: "8001", Type: HookUpdate}, {Module: "system", ID: "8401", Type: HookUpdate, Description: "x"}},
		},
		{
			name:    "numbers sort as numbers",
			result:  ok(`{"a":{"module":"m","update_id":10001,"type":"hook_update_n"},"b":{"module":"m","update_id":"9002","type":"hook_update_n"},"c":{"module":"m","update_id":"x","type":"post-update"}}`, ""),
			verdict: UpdatesPending,
			pending: []Update{{Module: "m", ID: "9002", Type: HookUpdate}, {Module: "m", ID: "10001", Type: HookUpdate}, {Module: "m", ID: "x", Type: PostUpdate}},
		},
		{
			name:    "entity updates are never applied",
			result:  ok(`{"e":{"module":"node","update_id":"","type":"entity-update","description":"y"}}`, ""),
			verdict: UpdatesNone, blocked: []Update{{Module: "node", Type: "entity-update", Description: "y"}},
		},
		{
			name:    "entity updates, and then a list that was not expected",
			result:  ok(`{"e":{"module":"node","update_id":"","type":"entity-update"}}`+"\n"+object, ""),
			blocked: []Update{{Module: "node", Type: "entity-update"}},
		},
		{
			name:    "entity updates after a line of who knows what",
			result:  ok("something\n"+`{"e":{"module":"node","update_id":"","type":"entity-update"}}`, ""),
			blocked: []Update{{Module: "node", Type: "entity-update"}},
		},
		{
			name:    "blocked rows beside a pending one",
			result:  ok(`[{"module":"node","update_id":9,"type":"hook_update_n","description":"d"},{"module":"old","update_id":null,"type":"hook_update_n"}]`, ""),
			verdict: UpdatesPending, pending: node9, blocked: []Update{{Module: "old", Type: HookUpdate}},
		},
		{name: "a type of the future", result: ok(`{"e":{"module":"n","update_id":"1","type":"deploy"}}`, ""), blocked: []Update{{Module: "n", ID: "1", Type: "deploy"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := ParseUpdateStatus(c.result)
			require.NotEmpty(t, got.Reason)
			got.Reason = ""
			require.Equal(t, UpdateStatus{Verdict: c.verdict, Pending: c.pending, Blocked: c.blocked}, got)
		})
	}
}

func TestParseInstallTask(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		result Result
		want   InstallTask
	}{
		{"mysql done", ok("s:4:\"done\";\n\n", ""), TaskDone},
		{"postgresql prints bytes", ok("\\x733a343a22646f6e65223b\n\n", ""), TaskDone},
		{"postgresql half", ok("\\x733a31393a22696e7374616c6c5f626173655f73797374656d223b\n", ""), TaskHalf},
		{"postgresql hides the missing table", ok("\n", ""), TaskNoRow},
		{"postgresql shows the missing table", ok("", `> ERROR:  relation "key_value" does not exist`), TaskNoTable},
		{"postgresql is down", Result{Complete: true, ExitCode: 1, Stderr: `psql: error: connection to server at "db" (10.0.0.1), port 5432 failed: Connection refused`}, TaskUnreachable},
		{"postgresql refuses", Result{Complete: true, ExitCode: 1, Stderr: `psql: error: connection to server at "db" (10.0.0.1), port 5432 failed: FATAL:  password authentication failed for user "x"`}, TaskRefused},
		{"postgresql has no such role", Result{Complete: true, ExitCode: 1, Stderr: `psql: error: connection to server failed: FATAL:  role "x" does not exist`}, TaskRefused},
		{"postgresql has no such database", Result{Complete: true, ExitCode: 1, Stderr: `psql: error: connection to server failed: FATAL:  database "x" does not exist`}, TaskUnknownDatabase},
		{"mysql has no such database", Result{Complete: true, ExitCode: 1, Stderr: "ERROR 1049 (42000): Unknown database 'x'"}, TaskUnknownDatabase},
		{"sqlite without the table", Result{Complete: true, ExitCode: 1, Stderr: "Parse error near line 1: no such table: key_value"}, TaskNoTable},
		{"sqlite without the directory", Result{Complete: true, ExitCode: 1, Stderr: "Error: unable to open database \"/x\": unable to open database file"}, TaskUnreachable},
		{"another missing table", Result{Complete: true, ExitCode: 1, Stderr: "Error: no such table: users"}, TaskUnknown},
		{"garbage", ok("hello", ""), TaskUnknown},
		{"done, but cut off", Result{Stdout: "s:4:\"done\";\n\n"}, TaskUnknown},
		{"done with exit 1", Result{Complete: true, ExitCode: 1, Stdout: "s:4:\"done\";\n"}, TaskUnknown},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, reason := ParseInstallTask(c.result)
			require.Equal(t, c.want.String(), got.String())
			require.NotEmpty(t, reason)
		})
	}
}

func TestParseTableCount(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		result Result
		want   Tables
	}{
		{"a number", ok("76\n\n", ""), Tables{76, true}},
		{"zero", ok("0\n", ""), Tables{0, true}},
		{"the table of psql", ok(" count \n-------\n     0\n(1 row)\n\n", ""), Tables{0, true}},
		{"nothing", ok("\n", ""), Tables{}},
		{"two numbers", ok("0\n0\n", ""), Tables{}},
		{"words", ok("0 tables\n", ""), Tables{}},
		{"a sign", ok("-1\n", ""), Tables{}},
		{"cut off", Result{Stdout: "0\n"}, Tables{}},
		{"exit 1", Result{Stdout: "0\n", ExitCode: 1, Complete: true}, Tables{}},
		{"a deprecation in front", ok("PHP Deprecated:  x\n0\n", ""), Tables{0, true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, known := ParseTableCount(c.result)
			require.Equal(t, c.want, Tables{n, known})
		})
	}
}

func TestOnlyProofMakesADatabaseEmpty(t *testing.T) {
	t.Parallel()
	for task := TaskUnknown; task <= TaskUnknownDatabase; task++ {
		for _, healthy := range []bool{false, true} {
			for _, tables := range []Tables{{}, {0, true}, {5, true}} {
				got := Classify(Bootstrap{Healthy: healthy}, task, tables)
				empty := !healthy && (task == TaskNoTable || task == TaskNoRow) && tables == Tables{0, true}
				require.Equal(t, empty, got == Empty, "%v %v %v", task, healthy, tables)
				require.Equal(t, healthy && task == TaskDone, got == Installed, "%v %v %v", task, healthy, tables)
				require.Equal(t, task == TaskHalf, got == HalfInstalled, "%v %v %v", task, healthy, tables)
			}
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		`PGPASSWORD=hunter2 pg_dump`:              `PGPASSWORD=[redacted] pg_dump`,
		`mysql://drupal:p%40ss@db/drupal`:         `mysql://drupal:[redacted]@db/drupal`,
		`{"db-password": "a\"b", "db-name": "d"}`: `{"db-password": "[redacted]", "db-name": "d"}`,
		`drush si --account-pass=abc -y`:          `drush si --account-pass=[redacted] -y`,
		`password='a b' host=x`:                   `password=[redacted] host=x`,
		`[password] => geheim`:                    `[password] => [redacted]`,
		`#0 x.php(9): PDO->__construct('mysql:host=db;d...', 'drupal', 'it\'s (me)', Array)`: `#0 x.php(9): PDO->__construct([redacted])`,
		`mysqli_connect("db", "drupal", "hunter2"`:                                           `mysqli_connect([redacted]`,
		`PDO::connect('pgsql:host=db', 'drupal', 'hunt`:                                      `PDO::connect([redacted]`,
		`PDOException: SQLSTATE[HY000] [2002] in PDO->query()`:                               `PDOException: SQLSTATE[HY000] [2002] in PDO->query([redacted])`,
		`(using password: YES)`:                                                              `(using password: YES)`,
		`Access denied for user 'drupal'@'localhost'`:                                        `Access denied for user 'drupal'@'localhost'`,
		`https://example.org:8080/a`:                                                         `https://example.org:8080/a`,
	}
	for in, want := range cases {
		got := Redact(in)
		require.Equal(t, want, got)
		require.Equal(t, got, Redact(got), "twice is once")
	}
	require.Equal(t, "[redacted] and [redacted]", Redact("abc and abcdef", "abc", "", "abcdef"))
}

func TestExcerptIsBoundedAndKeepsBothEnds(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", Excerpt("short"))
	long := "first " + strings.Repeat("ü", MaxExcerpt) + " last"
	got := Excerpt(long)
	require.LessOrEqual(t, len(got), MaxExcerpt)
	require.True(t, utf8.ValidString(got))
	require.True(t, strings.HasPrefix(got, "first ") && strings.HasSuffix(got, " last"))
	require.Contains(t, got, "bytes left out")
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "[notice] Eleven done.", LastLine(">  [notice] Update started: x\n>  [notice] Eleven done.\r\n\n \n"))
	require.Empty(t, LastLine("\n"))
	require.LessOrEqual(t, len(LastLine(strings.Repeat("x", 9999))), MaxMessage)
}

func TestMessagesAreOneCleanLine(t *testing.T) {
	t.Parallel()
	got := FirstError(" [error]  bad\x1b[31m \xff password=geheim " + strings.Repeat("ä", 600) + "\n")
	require.True(t, utf8.ValidString(got))
	require.LessOrEqual(t, len(got), MaxMessage)
	require.NotContains(t, got, "\x1b")
	require.NotContains(t, got, "geheim")
}

func TestResultReason(t *testing.T) {
	t.Parallel()
	require.Equal(t, "the answer is incomplete: no answer within 30s", Result{Note: "no answer within 30s"}.Reason())
	require.Equal(t, "exit code 7 without a message", Result{Complete: true, ExitCode: 7}.Reason())
	require.Equal(t, []string{"Unknown", "Succeeded", "Failed"}, []string{Unknown.String(), Succeeded.String(), Failed.String()})
}

func TestCacheRebuildNeedsItsWords(t *testing.T) {
	t.Parallel()
	got, _ := ParseCacheRebuild(ok("", ""))
	require.Equal(t, Unknown, got)
	got, _ = ParseCacheRebuild(Result{Stderr: "[success] Cache rebuild complete."})
	require.Equal(t, Unknown, got)
}

func TestParseDriver(t *testing.T) {
	t.Parallel()
	d, known := ParseDriver(ok("pgsql\n", ""))
	require.Equal(t, Pgsql, d)
	require.True(t, known)
	_, known = ParseDriver(ok("oracle\n", ""))
	require.False(t, known)
	_, known = ParseDriver(ok("\n", ""))
	require.False(t, known)
}

func TestMissingCodeIsFoundByItsKeyAlone(t *testing.T) {
	t.Parallel()
	lacks := "{\n    \"invalid_module\": {\n        \"title\": \"Invalid module\",\n        \"severity\": \"Error\"\n    }\n}\n"
	require.True(t, ParseMissingCode(ok(lacks, "")))
	require.True(t, ParseMissingCode(ok("\nDeprecated: x in y on line 1\n"+`{"a":{},"invalid_theme":{}}`, "")))
	require.False(t, ParseMissingCode(Result{Stdout: lacks}), "cut off")
	require.False(t, ParseMissingCode(Result{Stdout: lacks, ExitCode: 1, Complete: true}))
	require.False(t, ParseMissingCode(recorded(t, "core-requirements errors only json")))
	require.False(t, ParseMissingCode(ok(`{"trusted_host_patterns":{"description":"\"invalid_module\":"}}`, "")))
	require.False(t, ParseMissingCode(ok(`{"invalid_module":`, "")))
}

func TestComplaintsAboutPermissionsSpoilNoAnswer(t *testing.T) {
	t.Parallel()
	complaint := "PHP Warning:  file_put_contents(/home/x/.drush/cache/a): Failed to open stream: Permission denied in /x.php on line 9\n"
	require.Equal(t, UpdatesNone, ParseUpdateStatus(ok("", complaint+none)).Verdict)
	require.Equal(t, UpdatesUnknown, ParseUpdateStatus(ok("", complaint)).Verdict)
	require.Equal(t, UpdatesPending, ParseUpdateStatus(ok(`{"a":{"module":"m","update_id":1,"type":"hook_update_n"}}`, complaint)).Verdict)
	outcome, _ := ParseCacheRebuild(ok("", complaint+" [success] Cache rebuild complete.\n"))
	require.Equal(t, Succeeded, outcome)
	on, known := ParseMaintenance(ok(complaint+"1\n", complaint))
	require.True(t, on && known)
	require.True(t, ParseBootstrap(ok(complaint+`{"bootstrap":"Successful","db-status":"Connected"}`, complaint)).Healthy)
}

func TestDrushMayRunAsAnotherUser(t *testing.T) {
	t.Parallel()
	c := Command{Prefix: []string{"setpriv", "--reuid=www-data", "--regid=www-data", "--clear-groups", "drush"}, URI: "https://x"}
	require.Equal(t, []string{
		"setpriv", "--reuid=www-data", "--regid=www-data", "--clear-groups", "drush", "--uri=https://x", "cache:rebuild",
	}, c.CacheRebuild())
}
