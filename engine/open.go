// Package engine opens stores by their URL. It is the only place that names
// every engine.
package engine

import (
	"context"
	"strings"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
	"github.com/millrace-dev/millrace/engine/redis"
)

// Open opens, or creates, the store that a URL names: embedded:DIR, memory:, or
// redis://, rediss://, redis-sentinel:// and redis-cluster:// addresses.
func Open(ctx context.Context, store string, o millrace.EngineOptions) (millrace.Engine, error) {
	scheme, rest, ok := strings.Cut(store, ":")
	if !ok {
		return nil, unknownStore()
	}
	switch scheme {
	case "memory":
		if rest != "" {
			return nil, millrace.Errorf(millrace.CodeInvalid, "the store memory: takes no path")
		}
		return embedded.OpenMemory(ctx, o)
	case "embedded":
		if rest == "" {
			return nil, millrace.Errorf(millrace.CodeInvalid, "the store embedded: needs a directory, as in embedded:./millrace-data")
		}
		return embedded.Open(ctx, rest, o)
	case "redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster":
		return redis.Open(ctx, store, o)
	}
	return nil, unknownStore()
}

func unknownStore() error {
	return millrace.Errorf(millrace.CodeInvalid,
		"the store must be embedded:DIR, memory:, redis://HOST:PORT, redis-sentinel://HOST:PORT,…/MASTER or redis-cluster://HOST:PORT,…")
}
