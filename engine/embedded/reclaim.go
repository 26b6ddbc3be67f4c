package embedded

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace"
)

var _ millrace.Reclaimer = (*Engine)(nil)

// Pebble removes files some time after it has done without them.
const (
	reclaimWait = 5 * time.Second
	reclaimLook = 20 * time.Millisecond
)

// Reclaim compacts what has been removed. Pebble rewrites the files alone that something newer
// overlaps: what lies in its place since the last time costs nothing.
func (e *Engine) Reclaim(ctx context.Context) error {
	if err := e.enterStore(ctx); err != nil {
		return err
	}
	defer e.leave()
	if err := e.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return millrace.Wrap(millrace.CodeInternal, err, "compact the store")
	}
	return e.awaitRemoval(ctx)
}

// awaitRemoval waits until the files are gone that are not needed any more, or for long enough.
func (e *Engine) awaitRemoval(ctx context.Context) error {
	look, enough := time.NewTicker(reclaimLook), time.NewTimer(reclaimWait)
	defer look.Stop()
	defer enough.Stop()
	for e.db.Metrics().Table.Local.ObsoleteSize > 0 {
		select {
		case <-look.C:
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
