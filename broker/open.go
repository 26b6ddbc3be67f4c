package broker

import (
	"context"
	"errors"

	"github.com/millrace-dev/millrace/engine"
)

// Open opens the store that a URL names, or creates it, and starts a broker on
// it: embedded:DIR, memory:, redis://HOST:PORT and the like. Close it to stop
// everything it started.
func Open(ctx context.Context, store string, o Options) (*Broker, error) {
	if o.Engine.Logger == nil {
		o.Engine.Logger = o.Logger
	}
	e, err := engine.Open(ctx, store, o.Engine)
	if err != nil {
		return nil, err
	}
	b, err := New(ctx, e, o)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return b, nil
}
