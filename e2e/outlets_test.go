//go:build e2e && !fault

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/drupdate/drupdate/internal/webhook"
)

// webhookSecret signs what the product sends to the hook; hookToken is the secret part of its address.
const (
	webhookSecret = "s3cret-of-the-webhook"
	hookToken     = "t0ken-of-the-webhook"
)

// What the product under test sends out: notifications and traces.
var (
	told  = &hook{seen: map[string][]delivery{}}
	spans = &spanStore{}
)

// outlets starts a collector of traces and a webhook, and returns the flags that lead the product to them.
func outlets() (tracesTo, hookTo []string, err error) {
	secret := filepath.Join(state, "webhook-secret")
	if err := os.WriteFile(secret, []byte(webhookSecret+"\n"), 0o600); err != nil {
		return nil, nil, err
	}
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	traces, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: told, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(web) }()
	rpc := grpc.NewServer()
	collector.RegisterTraceServiceServer(rpc, spans)
	go func() { _ = rpc.Serve(traces) }()
	return []string{"--otlp-endpoint=http://" + traces.Addr().String()},
		[]string{"--webhook-url=http://" + web.Addr().String() + "/" + hookToken, "--webhook-secret-file=" + secret}, nil
}

// delivery is one request to the webhook.
type delivery struct {
	Type    string `json:"type"`
	Subject string `json:"subject"`
	Data    struct {
		Release string `json:"release"`
		Phase   string `json:"phase"`
		Reason  string `json:"reason"`
	} `json:"data"`
	body   string
	signed bool
}

// hook is a webhook that refuses the first request for each event.
type hook struct {
	mu   sync.Mutex
	seen map[string][]delivery
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var event struct {
		ID string `json:"id"`
		delivery
	}
	if err := json.Unmarshal(raw, &event); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	event.body = string(raw)
	event.signed = r.Header.Get(webhook.HeaderSignature) == webhook.Sign([]byte(webhookSecret), r.Header.Get(webhook.HeaderTimestamp), raw)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[event.ID] = append(h.seen[event.ID], event.delivery)
	if len(h.seen[event.ID]) == 1 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// of are the deliveries about a site, by event.
func (h *hook) of(site string) map[string][]delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := map[string][]delivery{}
	for id, list := range h.seen {
		if list[0].Subject == site {
			found[id] = append([]delivery(nil), list...)
		}
	}
	return found
}

// span is one span of a trace.
type span struct {
	trace, name string
	attributes  map[string]string
}

// spanStore is a collector that keeps what it gets.
type spanStore struct {
	collector.UnimplementedTraceServiceServer
	mu  sync.Mutex
	all []span
}

// Export implements the collector.
func (s *spanStore) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, one := range scope.GetSpans() {
				attributes := map[string]string{}
				for _, a := range one.GetAttributes() {
					attributes[a.GetKey()] = a.GetValue().GetStringValue()
				}
				s.all = append(s.all, span{trace: string(one.GetTraceId()), name: one.GetName(), attributes: attributes})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// names are the names of the spans of every trace that began with the watcher's request about a namespace.
func (s *spanStore) names(namespace string) map[string]map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	traces := map[string]map[string]bool{}
	for _, one := range s.all {
		if one.name == "request update" && one.attributes["drupdate.namespace"] == namespace {
			traces[one.trace] = map[string]bool{}
		}
	}
	for _, one := range s.all {
		if names, ours := traces[one.trace]; ours {
			names[one.name] = true
		}
	}
	return traces
}
