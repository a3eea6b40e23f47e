package kubeerr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drupdate/drupdate/internal/kubeerr"
)

func TestReplaced(t *testing.T) {
	t.Parallel()
	invalid := func(path *field.Path) error {
		return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "blog", field.ErrorList{field.Invalid(path, "a", "field is immutable")})
	}
	require.True(t, kubeerr.Replaced(fmt.Errorf("set image: %w", invalid(field.NewPath("metadata", "uid")))))
	for _, err := range []error{
		nil, errors.New("metadata.uid"), invalid(field.NewPath("spec", "selector")),
		apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "blog", errors.New("modified")),
		apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "blog", nil),
	} {
		require.False(t, kubeerr.Replaced(err), "%v", err)
	}
}
