package codec

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"

	"go.temporal.io/sdk/converter"
)

// maxBody limits a request: Temporal's own limit of a page of history is 4 MB, and base64 makes it larger.
const maxBody = 16 << 20

// ServerConfig is what a codec server is told.
type ServerConfig struct {
	// Addr is the address to listen on.
	Addr string
	// Origins are the Web UIs whose pages may ask, each as "scheme://host[:port]".
	Origins []string
	// Token reads what callers have to show as a bearer token, for each request anew. Nil means that none is needed, and then
	// Addr must be a loopback address.
	Token func() (string, error)
}

// Validate lists every problem in one error, or returns nil.
func (c ServerConfig) Validate() error {
	var problems []error
	for _, origin := range c.Origins {
		if u, err := url.Parse(origin); err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			problems = append(problems, fmt.Errorf("--ui-origin: %q is no origin: use scheme://host or scheme://host:port", origin))
		}
	}
	host, _, err := net.SplitHostPort(c.Addr)
	switch {
	case err != nil:
		problems = append(problems, fmt.Errorf("--addr: %q is no address: use host:port", c.Addr))
	case c.Token == nil && !loopback(host):
		problems = append(problems, fmt.Errorf("--addr: %q can be reached from elsewhere, and whoever asks is told what was encrypted: set --token-file", c.Addr))
	}
	return errors.Join(problems...)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// Handler answers POST /decode and POST /encode in Temporal's remote codec protocol, for the Web UI and the temporal
// command. A page of another origin is sent away, whatever it shows.
func (c ServerConfig) Handler(codec Codec) http.Handler {
	mux := http.NewServeMux()
	endpoints := c.authorized(converter.NewPayloadCodecHTTPHandler(codec))
	for _, path := range []string{"/decode", "/encode"} {
		mux.Handle("POST "+path, endpoints)
		mux.HandleFunc("OPTIONS "+path, preflight)
	}
	return c.sameOrigin(mux)
}

// sameOrigin is the CORS rule. Browsers send Origin with every POST to another origin; programs send none.
func (c ServerConfig) sameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Vary", "Origin")
		if origin := r.Header.Get("Origin"); origin != "" {
			if !slices.Contains(c.Origins, origin) {
				http.Error(w, "pages of this origin may not ask: see --ui-origin", http.StatusForbidden)
				return
			}
			w.Header().Set("Access-Control-Allow-Origin", origin)
		}
		next.ServeHTTP(w, r)
	})
}

// preflight answers the question of a browser. A page of a public site that asks a loopback address has to be allowed
// that as well.
func preflight(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Namespace")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		w.Header().Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
}

// authorized compares hashes, which are of one length, in constant time.
func (c ServerConfig) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.Token != nil {
			token, err := c.Token()
			if err != nil || token == "" {
				http.Error(w, "the server's bearer token cannot be read", http.StatusServiceUnavailable)
				return
			}
			want, got := sha256.Sum256([]byte("Bearer "+token)), sha256.Sum256([]byte(r.Header.Get("Authorization")))
			if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}
