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
	if err := CheckURL(store); err != nil {
		return nil, err
	}
	switch scheme, rest, _ := strings.Cut(store, ":"); scheme {
	case "memory":
		return embedded.OpenMemory(ctx, o)
	case "embedded":
		return embedded.Open(ctx, rest, o)
	default:
		return redis.Open(ctx, store, o)
	}
}

// CheckURL says what is wrong with a store's URL, without opening it. The error
// never shows the URL, which may hold a password.
func CheckURL(store string) error {
	scheme, rest, ok := strings.Cut(store, ":")
	if !ok {
		return unknownStore()
	}
	switch scheme {
	case "memory":
		if rest != "" {
			return millrace.Errorf(millrace.CodeInvalid, "the store memory: takes no path")
		}
		return nil
	case "embedded":
		if rest == "" {
			return millrace.Errorf(millrace.CodeInvalid, "the store embedded: needs a directory, as in embedded:./millrace-data")
		}
		return nil
	case "redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster":
		return redis.CheckURL(store)
	}
	return unknownStore()
}

func unknownStore() error {
	return millrace.Errorf(millrace.CodeInvalid,
		"the store must be embedded:DIR, memory:, redis://HOST:PORT, redis-sentinel://HOST:PORT,…/MASTER or redis-cluster://HOST:PORT,…")
}
