package redis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

var _ millrace.Bounded = (*Engine)(nil)

// Bound is the server's maxmemory. A Cluster has none: its masters fill up one by
// one, and a sum would say that there is room where there is none.
func (e *Engine) Bound(ctx context.Context) (int64, error) {
	if err := e.usable(ctx); err != nil {
		return 0, err
	}
	if e.client.Mode() == rueidis.ClientModeCluster {
		return 0, nil
	}
	info, err := e.client.Do(ctx, e.client.B().Info().Section("memory").Build()).ToString()
	if forbidden(err) {
		return 0, nil
	}
	if err != nil {
		return 0, classify(err, false).err
	}
	bound, _ := strconv.ParseInt(infoField(info, "maxmemory"), 10, 64) // 0 from a server that does not say
	return bound, nil
}
