package embedded

import (
	"context"

	"github.com/millrace-dev/millrace"
)

func (e *Engine) ListOperations(ctx context.Context, lane int, p millrace.OperationPage) ([]millrace.StoredOperation, uint64, error) {
	return nil, 0, nil
}
