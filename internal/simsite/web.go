package simsite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const page = `<!DOCTYPE html>
<html lang="en" dir="ltr"><head><meta charset="utf-8" />
<meta name="Generator" content="Drupal 10 (https://www.drupal.org)" /></head><body>%s</body></html>
`

// web serves the site until SIGTERM or SIGINT.
func (c *call) web() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	switch {
	case c.rel.is(crashLoop):
		return c.fail(1, "AH00526: Syntax error on line 1 of /etc/apache2/apache2.conf: simulated\n")
	case c.rel.is(hangs):
		<-ctx.Done()
		return 0
	case c.rel.is(slowStart):
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(c.pace(5 * time.Second)):
		}
	}
	addr := net.JoinHostPort(c.get("POD_IP", "127.0.0.1"), c.get("PORT", "8080"))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return c.fail(1, "simsite: %v\n", err)
	}
	c.print("simsite %s serves on %s\n", c.rel.Tag, listener.Addr())
	return c.serve(ctx, listener)
}

func (c *call) serve(ctx context.Context, listener net.Listener) int {
	server := &http.Server{Handler: c.handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return c.fail(1, "simsite: %v\n", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return c.fail(1, "simsite: %v\n", err)
	}
	return 0
}

// handler reads the state of the database on each request.
func (c *call) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_simsite/release" {
			_, _ = fmt.Fprintln(w, c.rel.Tag)
			return
		}
		code, cached := c.answer(r)
		w.Header().Set("Cache-Control", "must-revalidate, no-cache, private")
		if cached != "" {
			w.Header().Set("X-Drupal-Cache", cached)
		}
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		switch code {
		case http.StatusFound:
			w.Header().Set("Location", "/core/install.php")
			w.WriteHeader(code)
		case http.StatusInternalServerError:
			w.Header().Set("Cache-Control", "no-cache, private")
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, "The website encountered an unexpected error. Try again later.<br />")
		default:
			w.Header().Set("X-Generator", "Drupal 10 (https://www.drupal.org)")
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, page, http.StatusText(code))
		}
	})
}

// answer decides on the status; cached is HIT or MISS for a page that the page cache keeps.
func (c *call) answer(r *http.Request) (code int, cached string) {
	if strings.HasPrefix(r.URL.Path, "/core/misc/") || r.URL.Path == "/robots.txt" {
		return http.StatusOK, ""
	}
	s, e := c.load()
	switch {
	case e != nil || c.rel.is(brokenService):
		return http.StatusInternalServerError, ""
	case !s.healthy():
		return http.StatusFound, ""
	case r.URL.Path == "/user/login" || r.URL.Path == "/user/password":
		return http.StatusOK, "MISS"
	case r.URL.Path == "/" && r.URL.RawQuery == "" && s.PageCacheWarm:
		return http.StatusOK, "HIT"
	case s.Maintenance:
		return http.StatusServiceUnavailable, ""
	case r.URL.Path != "/" && r.URL.Path != "/node":
		return http.StatusNotFound, "MISS"
	}
	if r.URL.Path == "/" && r.URL.RawQuery == "" {
		_ = c.change(func(s *State) { s.PageCacheWarm = !s.Maintenance }) // a page that is not kept is built again
	}
	return http.StatusOK, "MISS"
}
