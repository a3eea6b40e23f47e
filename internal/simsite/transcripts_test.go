package simsite_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/simsite"
)

type transcript struct {
	Scene  string             `json:"scene"`
	Argv   []string           `json:"argv"`
	Env    map[string]*string `json:"env"`
	Exit   int                `json:"exit"`
	Stdout string             `json:"stdout"`
	Stderr string             `json:"stderr"`
}

func transcripts(t *testing.T) map[string]transcript {
	t.Helper()
	f, err := os.Open("testdata/transcripts.jsonl")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	list := map[string]transcript{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		var tr transcript
		if json.Unmarshal(in.Bytes(), &tr) == nil { // web requests have no exit code
			list[tr.Scene] = tr
		}
	}
	require.NoError(t, in.Err())
	return list
}

// given is the world in which a scene is played.
type given struct {
	scene   string
	release string           // 10.3.6 when empty
	db      []string         // options of `simsite db create`; nil installs the release, with nothing pending
	updates []simsite.Update // replace those of the release
	before  [][]string       // calls that lead to the scene
	stdin   string
	args    []string          // args replace a recorded shell line
	files   map[string]string // files are there before the call
}

// play sets the scene and makes the recorded call in it.
func (g given) play(t *testing.T, tr transcript) result {
	t.Helper()
	if g.release == "" {
		g.release = "10.3.6"
	}
	s := newSite(t, g.release)
	down, missing := s.adopt(tr.Env)
	if g.db == nil {
		g.db = []string{"--install"}
	}
	password := s.env["DB_PASSWORD"]
	if s.env["DB_PATH"] != "/no/such/dir/site.db" && !missing {
		s.create(g.db...)
	}
	if g.updates != nil {
		raw, err := json.Marshal(g.updates)
		require.NoError(t, err)
		s.env["SIMSITE_UPDATES"] = string(raw)
	}
	s.env["DB_PASSWORD"] = "drupalpw"
	for _, args := range g.before {
		s.run(s.local(args)...)
	}
	s.env["DB_PASSWORD"] = password
	if down {
		s.ok("simsite", "db", "down", s.name())
	}
	for name, text := range g.files {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
	}
	if g.args != nil {
		tr.Argv = g.args
	}
	r := s.feed(g.stdin, s.local(tr.Argv)...)
	r.out, r.err = s.recorded(r.out), s.recorded(r.err)
	return r
}

// adopt takes the environment of the recording over.
func (s *site) adopt(env map[string]*string) (down, missing bool) {
	for k, v := range env {
		switch {
		case v == nil:
			delete(s.env, k)
		case k == "DB_PATH" && strings.HasPrefix(*v, "/run-dir"):
			s.env[k] = s.local([]string{*v})[0]
		default:
			s.env[k] = *v
		}
	}
	if s.env["DB_DRIVER"] == "sqlite" {
		delete(s.env, "DB_NAME")
	}
	down = s.env["DB_PORT"] == "33399" || s.env["DB_PORT"] == "33499"
	return down, s.env["DB_NAME"] == "nosuchdb"
}

// local puts the recorded paths into the temporary directory; recorded is the inverse.
func (s *site) local(args []string) []string {
	var list []string
	for _, a := range args {
		a = strings.ReplaceAll(a, "/run-dir/sqlite", s.dir)
		list = append(list, strings.ReplaceAll(a, "/run-dir/backup", s.dir))
	}
	return list
}

func (s *site) recorded(text string) string {
	text = strings.ReplaceAll(text, filepath.Join(s.dir, "site.db"), "/run-dir/sqlite/site.db")
	return strings.ReplaceAll(text, s.dir, "/run-dir/backup")
}

var (
	rulerRE  = regexp.MustCompile(`-{3,}`)
	spacesRE = regexp.MustCompile(`[ ]+`)
	breakRE  = regexp.MustCompile(`\s+// `)
	loginRE  = regexp.MustCompile(`/user/reset/1/\d+/[^/]+/`)
	traceRE  = regexp.MustCompile(`(?m)^(> )?#\d+ .*\n`)
	wrapRE   = regexp.MustCompile(`[ ]+\n[ ]+`)
)

// normal takes out what varies: padding, the place of a wrap, one-time hashes, stack frames.
func normal(text string) string {
	text = wrapRE.ReplaceAllString(text, "")
	text = traceRE.ReplaceAllString(text, "")
	text = rulerRE.ReplaceAllString(text, "---")
	text = spacesRE.ReplaceAllString(text, " ")
	text = breakRE.ReplaceAllString(text, " ")
	return loginRE.ReplaceAllString(text, "/user/reset/1/N/HASH/")
}

func TestAnswersAreThoseOfTheTranscripts(t *testing.T) {
	t.Parallel()
	recorded := transcripts(t)
	require.Greater(t, len(scenes()), 90)
	for _, g := range scenes() {
		t.Run(g.scene, func(t *testing.T) {
			t.Parallel()
			tr, ok := recorded[g.scene]
			require.True(t, ok, "no such scene")
			r := g.play(t, tr)
			require.Equal(t, normal(tr.Stdout), normal(r.out))
			require.Equal(t, normal(tr.Stderr), normal(r.err))
			require.Equal(t, tr.Exit, r.code)
		})
	}
}
