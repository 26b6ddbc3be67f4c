package engine

import (
	"context"
	"errors"
	"strings"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
)

// Diagnose opens the store that a URL names, tells how it fares and closes it
// again. It creates none: where there is none, the servers that would hold it
// are looked at. The error is that of opening the store.
func Diagnose(ctx context.Context, store string, o millrace.EngineOptions) ([]millrace.Finding, error) {
	o.Existing = true
	e, err := Open(ctx, store, o)
	switch millrace.CodeOf(err) {
	case "":
	case millrace.CodeNotFound:
		return diagnoseNone(ctx, store, o)
	case millrace.CodeUnavailable:
		return nil, err
	default:
		found, _ := diagnoseServers(ctx, store, o) // it is the store's error that counts
		return found, err
	}
	var found []millrace.Finding
	if d, can := e.(millrace.Diagnoser); can {
		found, err = d.Diagnose(ctx)
	}
	return found, errors.Join(err, e.Close())
}

// diagnoseNone looks at a place where there is no store yet.
func diagnoseNone(ctx context.Context, store string, o millrace.EngineOptions) ([]millrace.Finding, error) {
	found := []millrace.Finding{{
		Name: "store", Grade: millrace.GradeWarn, Detail: "there is none yet",
		Next: "the first `millrace serve` creates it; if there should be one, look at --store and --namespace",
	}}
	servers, err := diagnoseServers(ctx, store, o)
	return append(found, servers...), err
}

// diagnoseServers looks at the servers of a store that cannot be opened.
func diagnoseServers(ctx context.Context, store string, o millrace.EngineOptions) ([]millrace.Finding, error) {
	if !strings.HasPrefix(store, "redis") {
		return nil, nil
	}
	return redis.Survey(ctx, store, o)
}
