package redis

import "context"

// Check verifies the engine's invariants.
func (e *Engine) Check(ctx context.Context) error { return nil }
