package redis

import (
	"context"
	"strconv"
)

// Sweep frees up to max messages of what removed queues and subscriptions left in a lane.
func (e *Engine) Sweep(ctx context.Context, lane int, max int) (int, error) {
	reply, err := e.runLane(ctx, &e.scripts.laneSweep, lane, timeless, strconv.Itoa(max))
	if err != nil {
		return 0, err
	}
	return int(intOf(reply[0])), nil
}
