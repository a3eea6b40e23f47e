package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/drupdate/drupdate/internal/kubeerr"
)

// errNoCRD is the sentence for a cluster without the resource.
var errNoCRD = errors.New("the cluster does not know DrupalSites: install the CRD (kubectl apply --server-side -k deploy/crd)")

// explain makes one sentence of an error, with the way out where there is one.
func (s *session) explain(err error) error {
	if err == nil || ExitCode(err) == ExitUsage {
		return err
	}
	var status *apierrors.StatusError
	var refused *url.Error
	switch {
	case apimeta.IsNoMatchError(err):
		return errNoCRD
	case errors.As(err, &status) && apierrors.IsForbidden(err):
		return fmt.Errorf("the cluster refuses: %s", clean(status.ErrStatus.Message))
	case errors.As(err, &status) && apierrors.IsUnauthorized(err):
		return errors.New("the cluster does not know you: log in again, or choose another --context")
	case errors.As(err, &status) && apierrors.IsInvalid(err):
		return errors.New(invalid(status))
	case errors.As(err, &refused):
		return fmt.Errorf("the cluster at %s cannot be reached (%s): check --context, --kubeconfig and KUBECONFIG", host(refused.URL), cause(refused))
	}
	return oneLine(err)
}

// invalid is what the API server says of the fields, without the repetition around it.
func invalid(status *apierrors.StatusError) string {
	if kubeerr.Replaced(status) {
		return "it was deleted and made anew meanwhile: look again"
	}
	var parts []string
	if status.ErrStatus.Details != nil {
		for _, c := range status.ErrStatus.Details.Causes {
			message := c.Message
			if _, rule, found := strings.Cut(message, `: Invalid value: `); found {
				_, message, _ = strings.Cut(rule, ": ")
			} else if _, rule, found := strings.Cut(message, `Invalid value: `); found {
				_, message, _ = strings.Cut(rule, ": ")
			}
			parts = append(parts, strings.TrimSpace(c.Field+": "+message))
		}
	}
	if len(parts) == 0 {
		return clean(status.ErrStatus.Message)
	}
	return clean(strings.Join(parts, "; "))
}

// temporalFault makes one sentence of what came of a call to Temporal.
func (s *session) temporalFault(err error) error {
	if err == nil {
		return nil
	}
	options, optionsErr := s.cfg.Temporal()
	if optionsErr != nil {
		return optionsErr
	}
	var missing *serviceerror.NamespaceNotFound
	var denied *serviceerror.PermissionDenied
	var away *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	where := address(options)
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("Temporal at %s has no namespace %q: %s setup temporal makes it, or TEMPORAL_NAMESPACE names another", where, namespaceOf(options), s.program()) //nolint:staticcheck // a name
	case errors.As(err, &denied):
		return fmt.Errorf("Temporal at %s refuses: %s", where, clean(denied.Error())) //nolint:staticcheck // a name
	case errors.As(err, &away), errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("Temporal at %s cannot be reached (%s): set TEMPORAL_ADDRESS, or TEMPORAL_PROFILE", where, cause(err)) //nolint:staticcheck // a name
	}
	return oneLine(err)
}

func (s *session) program() string { return s.cmd.Root().CommandPath() }

func address(o client.Options) string {
	if o.HostPort == "" {
		return client.DefaultHostPort
	}
	return o.HostPort
}

func namespaceOf(o client.Options) string {
	if o.Namespace == "" {
		return client.DefaultNamespace
	}
	return o.Namespace
}

func host(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Host
	}
	return raw
}

// cause is the innermost reason that tells something.
func cause(err error) string {
	var op *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &name):
		return name.Err
	case errors.As(err, &op):
		return strings.TrimPrefix(clean(op.Err.Error()), "connect: ")
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	text := clean(err.Error())
	for _, known := range []string{"connection refused", "no such host", "i/o timeout", "certificate", "deadline exceeded"} {
		if strings.Contains(text, known) {
			return strings.ReplaceAll(known, "deadline exceeded", "no answer in time")
		}
	}
	return text
}

// oneLine keeps an error's text on one line.
func oneLine(err error) error {
	if err == nil || !strings.ContainsAny(err.Error(), "\r\n") {
		return err
	}
	return &lined{err}
}

type lined struct{ error }

func (l *lined) Error() string { return clean(l.error.Error()) }
func (l *lined) Unwrap() error { return l.error }
