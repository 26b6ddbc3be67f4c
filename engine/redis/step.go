package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// Step does up to max of what is due in a lane.
func (e *Engine) Step(ctx context.Context, lane int, now time.Time, max int) (millrace.Stepped, error) {
	reply, err := e.runLane(ctx, &e.scripts.laneStep, lane, millis(now), strconv.Itoa(max), strconv.Itoa(len(e.own)), strconv.Itoa(millrace.MaxLeaseBytes))
	if err != nil {
		return millrace.Stepped{}, err
	}
	n := ints(reply[:6])
	events, err := heldEvents(listOf(reply[6]))
	if err != nil {
		return millrace.Stepped{}, err
	}
	return millrace.Stepped{
		Expired: int(n[0]), Returned: int(n[1]), Dead: int(n[2]), More: n[3] == 1, Due: next(n[4]),
		Forgotten: int(n[5]), Events: events, Exits: exits(listOf(reply[7])),
		Promoted: int(intOf(reply[8])), Scrubbed: int(intOf(reply[9])), Ended: int(intOf(reply[10])),
	}, nil
}

// exits reads which messages left: uid, name, reason of each.
func exits(list []rueidis.RedisMessage) []millrace.Exit {
	reasons := map[string]string{"l": millrace.ReasonLeaseEnded, "a": millrace.ReasonAttempts, "r": millrace.ReasonRetention, "c": millrace.ReasonCancelled}
	var out []millrace.Exit
	for ; len(list) >= 3; list = list[3:] {
		name, _ := strconv.ParseUint(textOf(list[1]), 10, 64)
		out = append(out, millrace.Exit{Queue: textOf(list[0]), Name: name, Reason: reasons[textOf(list[2])]})
	}
	return out
}
