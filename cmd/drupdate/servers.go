package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// off is the address of a server that is not wanted.
const off = "0"

// checkTimeout limits one readiness check.
const checkTimeout = 3 * time.Second

// errNotSynced is what the watcher says before it has seen the cluster.
var errNotSynced = errors.New("the caches are not filled yet")

// check returns nil when a part is ready.
type check func(ctx context.Context) error

// addServers adds the servers of metrics and of health. An address that cannot be had is a problem at once.
func (p *process) addServers() error {
	metrics, err := metricsserver.NewServer(metricsserver.Options{BindAddress: p.cfg.metricsAddr}, p.kube, nil)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	if metrics != nil {
		p.parts = append(p.parts, metrics.Start)
	}
	if p.cfg.healthAddr == off {
		return nil
	}
	listener, err := net.Listen("tcp", p.cfg.healthAddr)
	if err != nil {
		return fmt.Errorf("serve health: %w", err)
	}
	p.parts = append(p.parts, func(ctx context.Context) error {
		return serveHTTP(ctx, "health", listener, healthHandler(ctx, p.checks))
	})
	return nil
}

// serveHTTP serves until ctx ends.
func serveHTTP(ctx context.Context, what string, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve says below what came of it.
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", what, err)
	}
	return nil
}

// healthHandler answers /healthz while the process lives, and /readyz while every check is content.
func healthHandler(process context.Context, checks map[string]check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		var problems []string
		if process.Err() != nil {
			problems = append(problems, "stopping")
		}
		for name, ready := range checks {
			if err := ready(ctx); err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", name, err))
			}
		}
		slices.Sort(problems)
		answer(w, problems)
	})
	return mux
}

func answer(w http.ResponseWriter, problems []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "ok"
	if len(problems) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = strings.Join(problems, "\n")
	}
	_, _ = fmt.Fprintln(w, text) // The one who asked has gone.
}
