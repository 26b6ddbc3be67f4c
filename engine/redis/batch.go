package redis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// Take gives ready batches to a node, with all their bodies.
func (e *Engine) Take(ctx context.Context, lane int, t millrace.Take) (millrace.Taken, error) {
	reply, err := e.runLane(ctx, &e.scripts.batchTake, lane, millis(t.Now),
		strconv.Itoa(t.Max), strconv.Itoa(t.MaxBytes), span(t.For), string(t.Token[:]), t.Node)
	if err != nil {
		return millrace.Taken{}, err
	}
	taken := millrace.Taken{More: intOf(reply[0]) == 1, Due: next(intOf(reply[1]))}
	for _, given := range listOf(reply[2]) {
		b, err := e.takenBatch(listOf(given))
		if err != nil {
			return millrace.Taken{}, err
		}
		taken.Batches = append(taken.Batches, b)
	}
	return taken, nil
}

func (e *Engine) takenBatch(f []rueidis.RedisMessage) (millrace.TakenBatch, error) {
	name, err := nameOf(f[1])
	if err != nil {
		return millrace.TakenBatch{}, err
	}
	version, err := strconv.ParseUint(textOf(f[7]), 10, 64)
	if err != nil {
		return millrace.TakenBatch{}, millrace.Wrap(millrace.CodeInternal, err, "the store holds settings that cannot be read")
	}
	events, err := e.batchEvents(listOf(f[5]), listOf(f[6]))
	return millrace.TakenBatch{
		Subscription: textOf(f[0]), Version: version, Name: name, Attempt: int(intOf(f[2])), CreatedAt: moment(intOf(f[3])),
		Format: textOf(f[4]), Events: events,
	}, err
}

// batchEvents reads the names of a batch's events and their bodies. One whose body has
// vanished is left out, so that it does not stop the others.
func (e *Engine) batchEvents(names, bodies []rueidis.RedisMessage) ([]millrace.BatchEvent, error) {
	events := make([]millrace.BatchEvent, 0, len(names))
	for i := range names {
		if bodies[i].IsNil() {
			e.log.Error("the body of an event has vanished from the store", "name", textOf(names[i]))
			continue
		}
		b, err := e.readBody(textOf(names[i]), textOf(bodies[i]))
		if err != nil {
			return nil, err
		}
		events = append(events, millrace.BatchEvent{Seq: b.seq, Prev: b.prev, RecordedAt: b.recordedAt, Body: b.event})
	}
	return events, nil
}

// nameOf reads a batch's name.
func nameOf(m rueidis.RedisMessage) (uint64, error) {
	name, err := strconv.ParseUint(textOf(m), 10, 64)
	if err != nil {
		return 0, millrace.Wrap(millrace.CodeInternal, err, "the store holds a batch that cannot be read")
	}
	return name, nil
}

// SettleBatches ends pending batches.
func (e *Engine) SettleBatches(ctx context.Context, lane int, o millrace.Outcomes) (millrace.SettledBatches, error) {
	args := []string{strconv.Itoa(len(o.Items))}
	for i := range o.Items {
		item := &o.Items[i]
		args = append(args, item.Subscription, strconv.FormatUint(item.Name, 10), string(item.Token[:]), flag(item.OK),
			item.Error, span(max(item.After, 0)), strconv.Itoa(int(item.Jitter)), rueidis.BinaryString(item.Log))
	}
	reply, err := e.runLane(ctx, &e.scripts.batchSettle, lane, millis(o.Now), args...)
	if err != nil {
		return millrace.SettledBatches{}, err
	}
	done := millrace.SettledBatches{Due: next(intOf(reply[0]))}
	for n := ints(listOf(reply[1])); len(n) >= 3; n = n[3:] {
		s := millrace.SettledBatch{Lost: n[0] == 1, Dead: n[1] == 1}
		if n[2] > 0 {
			s.FailingSince = moment(n[2])
		}
		done.Items = append(done.Items, s)
	}
	return done, nil
}

// RetryBatches makes batches ready at once.
func (e *Engine) RetryBatches(ctx context.Context, lane int, b millrace.BatchesOf) (done, left int, err error) {
	args := []string{b.Subscription, "0"}
	if b.Dead {
		args[1] = strconv.Itoa(min(b.Max, maxItems))
	} else {
		for _, name := range b.Names {
			args = append(args, strconv.FormatUint(name, 10))
		}
	}
	return e.pair(ctx, &e.scripts.batchRetry, lane, millis(b.Now), args)
}

// DropBatch removes a batch that is not being sent.
func (e *Engine) DropBatch(ctx context.Context, lane int, subscription string, name uint64) error {
	_, err := e.runLane(ctx, &e.scripts.batchDrop, lane, timeless, subscription, strconv.FormatUint(name, 10))
	return err
}

// DropOldest removes the oldest batches of any subscriptions. A call that only met what
// removed ones left is made again: nothing dropped means that there is nothing.
func (e *Engine) DropOldest(ctx context.Context, lane int, max int) ([]millrace.DroppedBatch, error) {
	for {
		reply, err := e.runLane(ctx, &e.scripts.batchOldest, lane, timeless, strconv.Itoa(min(max, maxItems)))
		if err != nil {
			return nil, err
		}
		list := listOf(reply[1])
		if len(list) == 0 && intOf(reply[0]) == 1 && max > 0 {
			continue
		}
		return droppedBatches(list)
	}
}

// droppedBatches reads uid, name and events of each.
func droppedBatches(list []rueidis.RedisMessage) ([]millrace.DroppedBatch, error) {
	var dropped []millrace.DroppedBatch
	for ; len(list) >= 3; list = list[3:] {
		name, err := nameOf(list[1])
		if err != nil {
			return nil, err
		}
		dropped = append(dropped, millrace.DroppedBatch{Subscription: textOf(list[0]), Name: name, Count: int(intOf(list[2]))})
	}
	return dropped, nil
}
