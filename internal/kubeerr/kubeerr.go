// Package kubeerr tells errors of the API server apart that its own library does not.
package kubeerr

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Replaced tells whether a write that named the UID of its object met another object of the same name: the one that was
// meant has been deleted and made anew since it was read. The API server calls that an invalid change of the UID, though
// nothing is wrong with what was sent; whoever reads again sees the new object.
func Replaced(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}
