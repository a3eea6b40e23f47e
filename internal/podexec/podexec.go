package podexec

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/drupdate/drupdate/internal/drush"
)

// Defaults of a Request.
const (
	// DefaultTimeout is how long a question may take when the request does not say.
	DefaultTimeout = 2 * time.Minute
	// DefaultMaxBytes is how much of each stream is kept when the request does not say.
	DefaultMaxBytes = 1 << 20
)

// Errors of Run. Both are wrapped with the cause.
var (
	// ErrNotStarted means that nothing shows that the command ran; asking again is safe and sensible.
	ErrNotStarted = errors.New("the command did not start")
	// ErrNoShell means that the container has no "sh", so that no question can ever be asked there.
	ErrNoShell = errors.New("the container has no shell \"sh\"")
)

// Request is one question to one container.
type Request struct {
	Namespace, Pod, Container string
	// Argv is the command. A program that does not exist answers with exit code 127.
	Argv []string
	// Timeout is the deadline of the whole call, negotiation included. Zero means DefaultTimeout.
	Timeout time.Duration
	// MaxBytes is how much of each stream is kept; the middle is dropped. Zero means DefaultMaxBytes.
	MaxBytes int
}

// Executor runs questions in pods. It is safe for concurrent use.
type Executor struct {
	// stream runs one exec session. It may ignore its context; Run does not wait for it then.
	stream func(ctx context.Context, r Request, argv []string, options remotecommand.StreamOptions) error
}

// New returns an Executor for the cluster that config and client reach. The config is copied.
func New(config *rest.Config, client kubernetes.Interface) *Executor {
	config = rest.CopyConfig(config)
	return &Executor{stream: func(ctx context.Context, r Request, argv []string, options remotecommand.StreamOptions) error {
		executor, err := newExecutor(config, execURL(client, r, argv))
		if err != nil {
			return err
		}
		return executor.StreamWithContext(ctx, options)
	}}
}

// execURL builds the request's address. There is no stdin and no terminal, and no option to have them.
func execURL(client kubernetes.Interface, r Request, argv []string) *url.URL {
	return client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(r.Namespace).Name(r.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: r.Container, Command: argv, Stdout: true, Stderr: true}, scheme.ParameterCodec).
		URL()
}

// newExecutor prefers WebSocket and falls back to SPDY by the rule of kubectl.
func newExecutor(config *rest.Config, address *url.URL) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", address)
	if err != nil {
		return nil, fmt.Errorf("spdy executor: %w", err)
	}
	// WebSocket must be a GET: RFC 6455, section 4.1.
	websocket, err := remotecommand.NewWebSocketExecutor(config, "GET", address.String())
	if err != nil {
		return nil, fmt.Errorf("websocket executor: %w", err)
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// Run asks one question. The result is complete only when the wrapper's end frames arrived on both streams with
// matching counts, whatever the client library returned; else its Note says why. The error is nil when the command
// started, save that the end of ctx is returned as it is. Calling it again asks again.
func (e *Executor) Run(ctx context.Context, r Request) (drush.Result, error) {
	nonce, err := newNonce()
	if err != nil {
		return drush.Result{}, err
	}
	if len(r.Argv) == 0 {
		return drush.Result{}, errors.New("empty command")
	}
	stdout, stderr := r.capture(), r.capture()
	cause := e.session(ctx, r, nonce, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
	result, started := judge(nonce, stdout, stderr)
	switch {
	case result.Complete:
		return result, nil
	case started || cause == nil:
		if cause != nil {
			result.Note += ": " + cause.Error()
		}
		return result, context.Cause(ctx)
	case noShell.MatchString(cause.Error()):
		return result, fmt.Errorf("%w: %w", ErrNoShell, cause)
	}
	return result, fmt.Errorf("%w: %w", ErrNotStarted, cause)
}

// noShell matches what container runtimes say when the program to start is missing.
var noShell = regexp.MustCompile(`"(/bin/)?sh":? (executable file not found|stat .*no such file)|exec: "sh"|` +
	`exec failed: .*"sh": .*not found|cannot exec in a container without|sh: no such file or directory`)

func (r Request) capture() *capture {
	if r.MaxBytes <= 0 {
		return newCapture(DefaultMaxBytes)
	}
	return newCapture(r.MaxBytes)
}

// session runs the stream with a deadline of its own: the client library may ignore the context's.
func (e *Executor) session(ctx context.Context, r Request, nonce string, options remotecommand.StreamOptions) error {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	late := fmt.Errorf("no answer within %s: %w", timeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.stream(ctx, r, wrap(nonce, r.Argv), options) }()
	select {
	case err := <-done:
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func newNonce() (string, error) {
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", fmt.Errorf("nonce: %w", err)
	}
	return "drupdate-" + hex.EncodeToString(raw[:]), nil
}
