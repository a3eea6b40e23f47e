package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drupdate/drupdate/internal/update"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

func terminating() error {
	err := apierrors.NewForbidden(deployments, "blog", errors.New("the namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		kind string // empty means transient
	}{
		{"a failure of our own keeps its type", permanent(update.FailureContainerMissing, "no container"), update.FailureContainerMissing},
		{"a failure of our own keeps its type when wrapped", fmt.Errorf("outer: %w", permanent(update.FailureSiteGone, "gone")), update.FailureSiteGone},
		{"forbidden", apierrors.NewForbidden(deployments, "blog", errors.New("no")), update.FailureForbidden},
		{"forbidden, wrapped", fmt.Errorf("apply: %w", apierrors.NewForbidden(deployments, "blog", errors.New("no"))), update.FailureForbidden},
		{"forbidden by a namespace that ends", terminating(), update.FailureSiteGone},
		{"forbidden by a quota that may be freed", apierrors.NewForbidden(deployments, "blog", errors.New("exceeded quota: small")), ""},
		{"a namespace that is gone", apierrors.NewNotFound(corev1.Resource("namespaces"), "sites"), update.FailureSiteGone},
		{"another object that is gone", apierrors.NewNotFound(deployments, "blog"), ""},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "blog", nil), update.FailureInvalid},
		{"another object of the name, by now", apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "blog", field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), "a", "field is immutable"),
		}), ""},
		{"bad request", apierrors.NewBadRequest("what?"), update.FailureInvalid},
		{"conflict", apierrors.NewConflict(deployments, "blog", errors.New("modified")), ""},
		{"throttled", apierrors.NewTooManyRequests("slow down", 7), ""},
		{"internal error", apierrors.NewInternalError(errors.New("etcd")), ""},
		{"unavailable", apierrors.NewServiceUnavailable("later"), ""},
		{"time-out of the server", apierrors.NewTimeoutError("late", 1), ""},
		{"unauthorised, as while tokens are renewed", apierrors.NewUnauthorized("token"), ""},
		{"deadline", context.DeadlineExceeded, ""},
		{"cancelled, but not by us", context.Canceled, ""},
		{"network", errors.New("dial tcp: connection refused"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			requireFailure(t, classify(t.Context(), "Step", c.err), c.kind)
		})
	}
}

func TestClassifyKeepsACancellation(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, context.Canceled, classify(ctx, "Step", fmt.Errorf("look: %w", context.Canceled)))
	require.NoError(t, classify(ctx, "Step", nil))
}

func TestClassifyWaitsAsLongAsTheServerAsks(t *testing.T) {
	t.Parallel()
	var app *temporal.ApplicationError
	require.ErrorAs(t, classify(t.Context(), "Step", apierrors.NewTooManyRequests("slow down", 7)), &app)
	require.Equal(t, 7*time.Second, app.NextRetryDelay())
}

func TestMessagesAreOneShortLineWithoutSecrets(t *testing.T) {
	t.Parallel()
	err := classify(t.Context(), "Step", errors.New("mysql://root:hunter2@db/x\nsecond line\t"+strings.Repeat("ä", 2000)))
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "\n")
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.LessOrEqual(t, len(app.Message()), maxMessage)
	require.True(t, strings.HasPrefix(app.Message(), "Step: mysql://root:"))
	require.Equal(t, strings.ToValidUTF8(app.Message(), ""), app.Message())
}

// notYet is what an API server says that has not read the roles.
func notYet() error {
	return fmt.Errorf("read site: %w", apierrors.NewForbidden(schema.GroupResource{Group: "drupdate.dev", Resource: "drupalsites"}, "blog",
		errors.New(`User "system:serviceaccount:drupdate-system:drupdate-worker" cannot get resource "drupalsites" in API group "drupdate.dev"`)))
}

func TestADenialCountsOnceItHasLasted(t *testing.T) {
	t.Parallel()
	var d denials
	now := time.Now()
	require.False(t, d.lasts("a", now))
	require.False(t, d.lasts("b", now.Add(time.Minute)), "another step")
	require.False(t, d.lasts("a", now.Add(time.Minute)))
	require.True(t, d.lasts("a", now.Add(denialLasts)))
	d.forget("a")
	require.False(t, d.lasts("a", now.Add(denialLasts)), "answered in between")
	later := now.Add(denialLasts + denialGap + 1)
	require.False(t, d.lasts("a", later), "somebody else may have been answered in between")
	require.Len(t, d.steps, 1, "what nobody came back for is forgotten")
	require.True(t, denied(notYet()))
	// The client makes this of a denial in plain text, as discovery gets it.
	discovery := apierrors.NewGenericServerResponse(403, "get", schema.GroupResource{}, "", "unknown", 0, true)
	require.Equal(t, "unknown", discovery.Error())
	require.True(t, denied(fmt.Errorf("read site: failed to get server groups: %w", discovery)))
	require.False(t, denied(apierrors.NewForbidden(deployments, "blog", errors.New("violates PodSecurity"))))
	require.False(t, denied(nil))
}

func TestAStartingAPIServerFailsNoSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testSite(), testDeployment("2.0"))
	w.funcs.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return notYet()
	}
	_, err := do(w, update.Inspect, update.Site{Namespace: "sites", Name: "blog"})
	requireFailure(t, err, "")
}
