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
	if millrace.CodeOf(err) == millrace.CodeNotFound {
		return diagnoseNone(ctx, store, o)
	}
	if err != nil {
		return nil, err
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
	if !strings.HasPrefix(store, "redis") {
		return found, nil
	}
	servers, err := redis.Survey(ctx, store, o)
	return append(found, servers...), err
}
