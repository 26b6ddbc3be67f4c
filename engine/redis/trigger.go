package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// Fire counts one firing, unless there were as many in this minute as may be.
func (e *Engine) Fire(ctx context.Context, lane int, f millrace.Fire) (millrace.Fired, error) {
	reply, err := e.runLane(ctx, &e.scripts.triggerFire, lane, millis(f.Now), f.UID, strconv.Itoa(f.PerMinute))
	if err != nil {
		return millrace.Fired{}, err
	}
	fired := readFired(reply)
	fired.Retry = time.Duration(intOf(reply[2])) * time.Millisecond
	fired.Refused = fired.Retry > 0
	return fired, nil
}

// Fired returns what was counted.
func (e *Engine) Fired(ctx context.Context, lane int, uid string) (millrace.Fired, error) {
	reply, err := e.runLane(ctx, &e.scripts.triggerFired, lane, timeless, uid)
	if err != nil || len(reply) == 0 {
		return millrace.Fired{}, err
	}
	return readFired(reply), nil
}

// readFired reads how often something fired, and when last.
func readFired(reply []rueidis.RedisMessage) millrace.Fired {
	fired := millrace.Fired{Count: intOf(reply[0])}
	if last := intOf(reply[1]); last > 0 {
		fired.LastAt = moment(last)
	}
	return fired
}
