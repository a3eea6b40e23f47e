package simsite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/simsite"
)

// failed is a site whose update went half way after a backup; path is where the backup is.
func failed(t *testing.T, s *site, backup func(s *site, path string)) (*site, simsite.State, string) {
	t.Helper()
	s.create("--install")
	s.ok("simsite", "db", "set", s.name(), "node/1", "it's; \"quoted\"\nand long")
	before := s.state()
	path := filepath.Join(s.dir, "backup")
	backup(s, path)
	bad := s.on("10.4.0-hook-exception")
	require.Equal(t, 1, bad.run("drush", "updatedb", "-y").code)
	require.NotEqual(t, before, s.state())
	return s, before, path
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}

func TestMySQLRoundTrip(t *testing.T) {
	t.Parallel()
	s, before, path := failed(t, newSite(t, "10.3.1"), func(s *site, path string) {
		s.ok("drush", "sql:dump", "--result-file="+path)
	})
	dump := read(t, path)
	require.Regexp(t, `-- Dump completed on \S+ \S+\n$`, dump)
	require.Zero(t, s.feed(dump, "drush", "sql:cli").code)
	require.Contains(t, s.state().Tables, "study_upd_partial", "a restore without a drop keeps the partial writes")
	s.ok("drush", "sql:drop", "-y")
	require.Empty(t, s.state().Tables)
	require.Equal(t, "0\n\n", s.ok("drush", "sql:query", "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"))
	s.ok("drush", "sql:query", "--file="+path)
	require.Equal(t, before, s.state())
}

func TestMySQLCutDumpDoesNotRestore(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").create("--install")
	path := filepath.Join(s.dir, "cut.sql")
	s.on("10.4.0-dump-truncated").ok("drush", "sql:dump", "--result-file="+path)
	require.NotContains(t, read(t, path), "-- Dump completed")
	s.ok("drush", "sql:drop", "-y")
	require.Equal(t, 1, s.feed(read(t, path), "drush", "sql:cli").code)
	require.Equal(t, "[]\n", s.ok("drush", "status", "--fields=bootstrap", "--format=json"))
}

func TestFailedDumpLeavesAnEmptyArchive(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.4.0-dump-fails").create("--install")
	path := filepath.Join(s.dir, "x.sql")
	require.Equal(t, 1, s.run("drush", "sql:dump", "--gzip", "--result-file="+path).code)
	require.Len(t, read(t, path+".gz"), 20)
}

func TestPostgresRoundTrip(t *testing.T) {
	t.Parallel()
	s, before, path := failed(t, newSite(t, "10.3.1").pgsql(), func(s *site, path string) {
		s.ok("drush", "sql:dump", "--extra-dump=-Fc -n public --no-owner -x", "--result-file="+path)
		require.True(t, bytes.HasPrefix([]byte(read(s.t, path)), []byte("PGDMP")))
		require.Contains(s.t, s.ok("pg_restore", "--list", path), "TABLE public key_value")
	})
	sql := path + ".sql"
	s.ok("pg_restore", "--clean", "--if-exists", "--no-owner", "-x", "-f", sql, path)
	s.ok("drush", "sql:drop", "-y")
	require.Equal(t, "0\n\n", s.ok("drush", "sql:query", "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = current_schema()"))
	require.Zero(t, s.feed("\\set ON_ERROR_STOP on\nBEGIN;\n"+read(t, sql)+"\nCOMMIT;\n", "drush", "sql:cli").code)
	require.Equal(t, before, s.state())
}

func TestPostgresTransactionIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").pgsql().create("--install")
	before := s.state()
	const broken = "BEGIN;\nDROP TABLE public.users;\nCREATE TABLE public.key_value (x int);\nCOMMIT;\n"
	require.Zero(t, s.feed(broken, "drush", "sql:cli").code, "without ON_ERROR_STOP errors are silent")
	require.Equal(t, before, s.state())
	r := s.feed("\\set ON_ERROR_STOP on\n"+broken, "drush", "sql:cli")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, `relation "key_value" already exists`)
	require.Equal(t, before, s.state())
	require.Equal(t, 3, s.feed("nonsense;\n", "psql", "-v", "ON_ERROR_STOP=1").code)
}

func TestPostgresCutArchiveIsNoticed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").pgsql().create("--install")
	path := filepath.Join(s.dir, "cut")
	s.on("10.4.0-dump-truncated").ok("pg_dump", "-Fc", "-n", "public", "--no-owner", "-x", "-f", path, "d10")
	require.Equal(t, 1, s.run("pg_restore", "--list", path).code)
}

func TestPostgresPlainDumpDoesNotRestoreStrictly(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").pgsql().create("--install")
	path := filepath.Join(s.dir, "plain.sql")
	s.ok("drush", "sql:dump", "--result-file="+path)
	s.ok("drush", "sql:drop", "-y")
	strict := "--extra=-v ON_ERROR_STOP=1 --single-transaction"
	require.Equal(t, 1, s.feed(read(t, path), "drush", "sql:cli", strict).code)
	require.Zero(t, s.feed(read(t, path), "drush", "sql:cli").code)
}

func TestSQLiteRoundTrip(t *testing.T) {
	t.Parallel()
	s, before, path := failed(t, newSite(t, "10.3.1").sqlite(), func(s *site, path string) {
		s.ok("sqlite3", s.env["DB_PATH"], ".backup '"+path+"'")
		require.Equal(s.t, "ok\n", s.ok("sqlite3", path, "PRAGMA integrity_check"))
		s.ok("drush", "sql:dump", "--result-file="+path+".sql")
	})
	s.ok("drush", "sql:drop", "-y")
	require.Equal(t, "0\n\n", s.ok("drush", "sql:query", "SELECT COUNT(*) FROM sqlite_master WHERE type='table'"))
	r := s.feed(read(t, path+".sql"), "drush", "sql:cli")
	require.Equal(t, 1, r.code, "a dump of SQLite cannot be restored")
	require.Contains(t, r.err, "no such collation sequence: NOCASE_UTF8")
	require.NoError(t, os.WriteFile(s.env["DB_PATH"], []byte(read(t, path)), 0o600))
	require.Equal(t, before, s.state())
}

func TestSQLiteCutCopyIsNoticed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").sqlite().create("--install")
	path := filepath.Join(s.dir, "cut")
	s.on("10.4.0-dump-truncated").ok("sqlite3", s.env["DB_PATH"], ".backup '"+path+"'")
	require.Equal(t, 1, s.run("sqlite3", path, "PRAGMA integrity_check").code)
}

func TestRestoreFailsAlsoWithTheOldCode(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1").create("--install")
	path := filepath.Join(s.dir, "b.sql")
	s.ok("drush", "sql:dump", "--result-file="+path)
	require.Equal(t, 1, s.on("10.4.0-restore-fails").run("drush", "updatedb", "-y").code)
	s.ok("drush", "sql:drop", "-y")
	require.Equal(t, 1, s.feed(read(t, path), "drush", "sql:cli").code)
	require.Equal(t, 1, s.run("drush", "sql:query", "--file="+path).code)
	s.ok("simsite", "db", "repair", "d10")
	s.ok("drush", "sql:query", "--file="+path)
}
