package simsite_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binary builds the program once a test.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "simsite")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/simsite")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func (s *site) pairs() []string {
	var list []string
	for k, v := range s.env {
		list = append(list, k+"="+v)
	}
	return list
}

// serve runs the web server of the site; stop ends it and gives its exit code.
func (s *site) serve(bin string) (url string, stop func() int) {
	s.t.Helper()
	l, err := new(net.ListenConfig).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(s.t, err)
	require.NoError(s.t, l.Close())
	cmd := exec.CommandContext(s.t.Context(), bin, "web")
	cmd.Env = append(s.with("PORT", port).with("POD_IP", "").pairs(), "GOCOVERDIR=")
	require.NoError(s.t, cmd.Start())
	url = "http://127.0.0.1:" + port
	require.Eventually(s.t, func() bool { return fetch(s.t.Context(), url+"/_simsite/release").code == 200 }, 10*time.Second, 20*time.Millisecond)
	return url, func() int {
		require.NoError(s.t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
}

func fetch(ctx context.Context, url string) result {
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return result{err: err.Error()}
	}
	resp, err := client.Do(req)
	if err != nil {
		return result{err: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body) // the code is what matters
	return result{resp.StatusCode, string(body), resp.Header.Get("Location")}
}

func TestWebFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.2").create("--install")
	url, stop := s.serve(binary(t))
	code := func(path string) int { return fetch(t.Context(), url+path).code }
	require.Equal(t, "10.3.2\n", fetch(t.Context(), url+"/_simsite/release").out)
	require.Equal(t, 200, code("/"))
	s.ok("drush", "maint:set", "1")
	require.Equal(t, 200, code("/"), "the page cache knows no maintenance")
	require.Equal(t, 503, code("/node?x=1"))
	s.ok("drush", "cache:clear", "bin", "page")
	require.Equal(t, []int{503, 200, 200, 200}, []int{code("/"), code("/user/login"), code("/user/password"), code("/core/misc/drupal.js")})
	s.ok("drush", "maint:set", "0")
	require.Equal(t, 200, code("/"))
	s.ok("simsite", "db", "down", "d10")
	require.Equal(t, []int{500, 500}, []int{code("/"), code("/user/login")})
	s.ok("simsite", "db", "up", "d10")
	s.ok("drush", "sql:drop", "-y")
	r := fetch(t.Context(), url+"/")
	require.Equal(t, []any{302, "/core/install.php"}, []any{r.code, r.err})
	require.Zero(t, stop())
}

func TestWebOfABrokenContainerAnswers500(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.2").create("--install").on("10.4.0-broken-container")
	url, stop := s.serve(binary(t))
	require.Equal(t, 500, fetch(t.Context(), url+"/").code)
	require.Zero(t, stop())
}

func TestTermToTheTopLeavesTheUpdateRunning(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	drush := filepath.Join(filepath.Dir(bin), "drush")
	require.NoError(t, os.Symlink(bin, drush))
	s := newSite(t, "10.3.1").create("--install").on("10.4.0-update-hangs")
	cmd := exec.CommandContext(t.Context(), drush, "updatedb", "-y")
	cmd.Env, cmd.SysProcAttr = s.with("SIMSITE_CHAIN", "").pairs(), &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	group := cmd.Process.Pid
	t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	hung := func() bool { return strings.Contains(strings.Join(s.events(), " "), "hook-hang") }
	require.Eventually(t, hung, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, syscall.SIGTERM, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	require.NoError(t, syscall.Kill(-group, 0), "the orphan lives")
	st := s.state()
	require.True(t, st.Maintenance)
	require.Equal(t, 10001, st.Schema["study_upd"])
	require.Contains(t, st.Tables, "study_upd_partial")
	require.NotContains(t, s.events(), "updatedb-end")
}

func TestListsNameProgramsAndReleases(t *testing.T) {
	t.Parallel()
	s := newSite(t, "10.3.1")
	require.Contains(t, strings.Split(s.ok("simsite", "names"), "\n"), "pg_restore")
	list := s.ok("simsite", "releases")
	require.Contains(t, list, "10.3.6\tgood needs-updates\n")
	require.NotContains(t, list, "10.4.0-missing")
	require.Equal(t, 27, strings.Count(list, "\n"))
}
