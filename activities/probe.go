package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/drupdate/drupdate/internal/neterr"
)

// probeTimeout limits one request of the prober.
const probeTimeout = 15 * time.Second

// HTTPProber asks a site for its page over HTTP. It reads no more of the answer than its status: the page may be
// anything, and the address is its owner's. Any status below 500 is health: a login page is one.
type HTTPProber struct{ client *http.Client }

// NewHTTPProber makes a prober that follows at most three redirects and waits 15 seconds at most.
func NewHTTPProber() *HTTPProber {
	return &HTTPProber{client: &http.Client{
		Timeout: probeTimeout,
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > 3 {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}}
}

// Probe implements Prober.
func (p *HTTPProber) Probe(ctx context.Context, uri string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		return fmt.Errorf("probe %q: the address is not valid", uri)
	}
	request.Header.Set("User-Agent", "drupdate")
	request.Header.Set("Cache-Control", "no-cache")
	response, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("probe %q: no answer: %s", uri, unreachable(err))
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, response.Body, 1<<16) // Only so that the connection can be used again.
		_ = response.Body.Close()                         // Nothing was written.
	}()
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("probe %q: it answers with status %d", uri, response.StatusCode)
	}
	return nil
}

// unreachable says why there was no answer, without addresses and ports, which are others each time.
func unreachable(err error) string {
	if why := neterr.Why(err); why != "" {
		return why
	}
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	return err.Error()
}
