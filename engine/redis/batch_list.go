package redis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// batchStates are the letters of the states in scripts.
var batchStates = map[millrace.BatchState]string{
	"": "", millrace.BatchEarly: "E", millrace.BatchReady: "R", millrace.BatchPending: "P", millrace.BatchDead: "D",
}

// ListBatches lists batches by name.
func (e *Engine) ListBatches(ctx context.Context, lane int, p millrace.BatchPage) ([]millrace.Batch, error) {
	state, ok := batchStates[p.State]
	if !ok {
		return nil, millrace.Errorf(millrace.CodeInvalid, "no batch can be %q: it is early, ready, pending or dead", p.State)
	}
	reply, err := e.runLane(ctx, &e.scripts.batchList, lane, timeless,
		p.Subscription, state, strconv.FormatUint(p.After, 10), strconv.Itoa(min(p.Limit, millrace.MaxPage)), "")
	if err != nil {
		return nil, err
	}
	return batches(listOf(reply[0]))
}

// Batch returns one batch with its events.
func (e *Engine) Batch(ctx context.Context, lane int, subscription string, name uint64) (millrace.Batch, []millrace.BatchEvent, error) {
	reply, err := e.runLane(ctx, &e.scripts.batchList, lane, timeless, subscription, "", "0", "1", strconv.FormatUint(name, 10))
	if err != nil {
		return millrace.Batch{}, nil, err
	}
	one, err := batches(listOf(reply[0]))
	if err != nil {
		return millrace.Batch{}, nil, err
	}
	events, err := e.batchEvents(listOf(reply[1]), listOf(reply[2]))
	return one[0], events, err
}

// batches reads what a script tells of each: ten values.
func batches(list []rueidis.RedisMessage) ([]millrace.Batch, error) {
	var all []millrace.Batch
	for ; len(list) >= 10; list = list[10:] {
		name, err := nameOf(list[0])
		if err != nil {
			return nil, err
		}
		n := ints(list[2:8])
		b := millrace.Batch{
			Name: name, Current: n[0] == 1, Count: int(n[1]), Bytes: int(n[2]), Attempts: int(n[3]),
			CreatedAt: moment(n[4]), Node: textOf(list[8]), Error: textOf(list[9]),
		}
		for state, letter := range batchStates {
			if letter == textOf(list[1]) {
				b.State = state
			}
		}
		if n[5] > 0 {
			b.DueAt = moment(n[5])
		}
		all = append(all, b)
	}
	return all, nil
}

// AttemptLog returns what was logged for a subscription, newest first.
func (e *Engine) AttemptLog(ctx context.Context, lane int, subscription string) ([][]byte, error) {
	reply, err := e.runLane(ctx, &e.scripts.batchLog, lane, timeless, subscription)
	if err != nil {
		return nil, err
	}
	var log [][]byte
	for i := range reply {
		log = append(log, []byte(textOf(reply[i])))
	}
	return log, nil
}

// SubscriptionStats counts what the lane knows of a subscription.
func (e *Engine) SubscriptionStats(ctx context.Context, lane int, subscription string) (millrace.SubscriptionStats, error) {
	reply, err := e.runLane(ctx, &e.scripts.batchStats, lane, timeless, subscription)
	if err != nil || len(reply) == 0 {
		return millrace.SubscriptionStats{}, err
	}
	n := ints(reply[:12])
	s := millrace.SubscriptionStats{
		Queued: n[0], Dead: n[1], Sent: n[2], Failed: n[3], Dropped: n[4], Skipped: n[5], Batches: n[6], Pending: n[7],
		Parked: n[11] == 1, Reason: textOf(reply[12]),
	}
	if n[8] > 0 {
		s.Oldest = moment(n[8])
	}
	if n[9] > 0 {
		s.FailingSince = moment(n[9])
	}
	if n[10] > 0 {
		s.NextAttemptAt = moment(n[10])
	}
	return s, nil
}
