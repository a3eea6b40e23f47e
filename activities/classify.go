package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drupdate/drupdate/internal/drush"
	"github.com/drupdate/drupdate/internal/kubeerr"
	"github.com/drupdate/drupdate/internal/update"
)

// maxMessage is the length of every message that leaves an activity, in bytes.
const maxMessage = 1024

// maxWords is the length of what is kept of a container's last words, in bytes.
const maxWords = 512

// kubeletCuts is the length in bytes to which the kubelet cuts the end of a log that stands in for a termination message.
const kubeletCuts = 2048

// transientType is the type of errors that Temporal retries.
const transientType = "Transient"

// permanentError is a failure that a retry cannot mend. Its kind is one of the failure types of package update.
type permanentError struct {
	kind string
	err  error
}

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// permanent makes a permanent failure of a type from package update.
func permanent(kind, format string, args ...any) error {
	return &permanentError{kind: kind, err: fmt.Errorf(format, args...)}
}

// classify is the one place that knows what an error means to Temporal: permanent ones become non-retryable with
// their type, a cancellation stays what it is, and all others are retried. Messages lose secrets and line breaks.
func classify(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return ctx.Err()
	}
	text := clean(op + ": " + err.Error())
	if kind := failureType(err); kind != "" {
		return temporal.NewNonRetryableApplicationError(text, kind, nil)
	}
	options := temporal.ApplicationErrorOptions{}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		options.NextRetryDelay = time.Duration(seconds) * time.Second
	}
	return temporal.NewApplicationErrorWithOptions(text, transientType, options)
}

// failureType returns the failure type of a permanent error, and "" for a transient one.
func failureType(err error) string {
	var own *permanentError
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &own):
		return own.kind
	case errors.As(err, &app) && app.NonRetryable():
		return app.Type()
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), namespaceMissing(err):
		return update.FailureSiteGone
	case apierrors.IsForbidden(err) && quotaExceeded(err):
		return "" // Quota comes back.
	case apierrors.IsForbidden(err):
		return update.FailureForbidden
	case kubeerr.Replaced(err):
		return "" // Whoever looks again sees the new object, and says what that means.
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return update.FailureInvalid
	}
	return "" // Conflicts, throttling, 5xx, time-outs, network, and whatever nobody has met yet.
}

func namespaceMissing(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

func quotaExceeded(err error) bool { return strings.Contains(err.Error(), "exceeded quota") }

// clean makes text fit for a message: one line, no secrets, at most 1 KiB of valid UTF-8.
func clean(text string) string {
	return cut(oneLine(text), maxMessage)
}

// oneLine makes text valid UTF-8 on one line, without secrets.
func oneLine(text string) string {
	return drush.Redact(strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " "))
}

// cut shortens text to at most n bytes without splitting a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
