package simsite_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/simsite"
)

// site is one pod with its database server in a temporary directory.
type site struct {
	t   *testing.T
	dir string
	env map[string]string
}

type result struct {
	code     int
	out, err string
}

func newSite(t *testing.T, release string) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // a short path, for messages that wrap
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return &site{t, dir, map[string]string{
		"SIMSITE_DIR": dir, "SIMSITE_RELEASE": release, "HOME": "/root", "POD_IP": "127.60.0.1", "SIMSITE_CHAIN": "2",
		"DB_NAME": "d10", "DB_HOST": "127.0.0.1", "DB_PORT": "33306", "DB_USER": "drupal", "DB_PASSWORD": "drupalpw",
		"SIMSITE_WEBROOT": dir, "SIMSITE_PACE": "0.01",
	}}
}

// sqlite moves the site to a database file.
func (s *site) sqlite() *site {
	s.env["DB_DRIVER"], s.env["DB_PATH"] = "sqlite", filepath.Join(s.dir, "site.db")
	delete(s.env, "DB_NAME")
	return s
}

func (s *site) pgsql() *site {
	s.env["DB_DRIVER"] = "pgsql"
	return s
}

func (s *site) on(release string) *site {
	env := maps.Clone(s.env)
	env["SIMSITE_RELEASE"] = release
	return &site{s.t, s.dir, env}
}

func (s *site) with(key, value string) *site {
	env := maps.Clone(s.env)
	env[key] = value
	return &site{s.t, s.dir, env}
}

// name is how `simsite db` knows the database.
func (s *site) name() string {
	if s.env["DB_DRIVER"] == "sqlite" {
		return s.env["DB_PATH"]
	}
	return s.env["DB_NAME"]
}

func (s *site) feed(stdin string, args ...string) result {
	s.t.Helper()
	var pairs []string
	for k, v := range s.env {
		pairs = append(pairs, k+"="+v)
	}
	var out, errs bytes.Buffer
	code := simsite.Run(args, pairs, strings.NewReader(stdin), &out, &errs)
	return result{code, out.String(), errs.String()}
}

func (s *site) run(args ...string) result {
	s.t.Helper()
	return s.feed("", args...)
}

// ok runs a call that must succeed and returns its output.
func (s *site) ok(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	require.Zero(s.t, r.code, "%v: %s%s", args, r.out, r.err)
	return r.out
}

// create makes the database; a level of 0 leaves it to the release.
func (s *site) create(args ...string) *site {
	s.t.Helper()
	s.ok(append([]string{"simsite", "db", "create", s.name(), "--password=drupalpw"}, args...)...)
	return s
}

func (s *site) state() simsite.State {
	s.t.Helper()
	var st simsite.State
	require.NoError(s.t, json.Unmarshal([]byte(s.ok("simsite", "db", "show", s.name())), &st))
	return st
}

func (s *site) events() []string {
	s.t.Helper()
	name := s.env["DB_NAME"]
	if name == "" {
		name = s.env["DB_PATH"]
	}
	list, err := simsite.Journal(s.dir, name)
	require.NoError(s.t, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Event)
	}
	return names
}

func TestAVisitorWritesOnlyWhileTheSiteIsOpen(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"mysql", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "10.3.1")
			if driver == "sqlite" {
				s.sqlite()
			}
			s.create("--install", "--password=drupalpw")
			s.ok("simsite", "db", "visit", s.name(), "a", "1")
			s.ok("drush", "maint:set", "1")
			require.Equal(t, 3, s.run("simsite", "db", "visit", s.name(), "b", "2").code, "closed by maintenance mode")
			s.ok("drush", "maint:set", "0")
			s.ok("simsite", "db", "down", s.name())
			require.Equal(t, 3, s.run("simsite", "db", "visit", s.name(), "c", "3").code, "the database is down")
			s.ok("simsite", "db", "up", s.name())
			s.ok("drush", "sql:drop", "-y")
			require.Equal(t, 3, s.run("simsite", "db", "visit", s.name(), "d", "4").code, "nothing is installed")
			require.Empty(t, s.state().Rows, "a refused visit writes nothing")
		})
	}
}
