package activities

import (
	"context"
	"errors"

	"github.com/drupdate/drupdate/internal/update"
)

// RunOperation TODO.
func (a *Activities) RunOperation(ctx context.Context, o update.Operation) (update.OperationResult, error) {
	return update.OperationResult{}, errors.New("todo")
}
