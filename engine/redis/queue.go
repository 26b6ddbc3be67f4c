package redis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

type settleRequest = request[millrace.Settle, millrace.Settled]

// maxItems is how many items one gathered settlement holds.
const maxItems = 1000

// Lease gives the next messages of the ring to a consumer.
func (e *Engine) Lease(ctx context.Context, lane int, l millrace.Lease) (millrace.Leased, error) {
	reply, err := e.runLane(ctx, &e.scripts.lease, lane, millis(l.Now),
		l.Queue, strconv.Itoa(l.Max), strconv.Itoa(l.MaxBytes), span(l.For), string(l.Token[:]), l.Consumer, strconv.Itoa(len(e.own)))
	if err != nil {
		return millrace.Leased{}, err
	}
	messages, err := e.leasedMessages(listOf(reply[4]), len(reply) > 5)
	if err != nil {
		return millrace.Leased{}, err
	}
	for tries := listOf(reply[3]); len(tries) >= 2; tries = tries[2:] {
		messages[intOf(tries[0])-1].Attempt = int(intOf(tries[1]))
	}
	if len(reply) > 5 {
		readIDs(messages, listOf(reply[5]))
	}
	return millrace.Leased{
		Messages: messages,
		Until:    moment(intOf(reply[0]) + spanMillis(l.For)),
		Tenants:  int(intOf(reply[1])),
		Due:      next(intOf(reply[2])),
	}, nil
}

// readIDs reads index, number and secret of the operations that are not told by name and body.
func readIDs(messages []millrace.LeasedMessage, list []rueidis.RedisMessage) {
	for ; len(list) >= 3; list = list[3:] {
		id := &messages[intOf(list[0])-1].Operation
		id.Number = uint64(intOf(list[1]))
		copy(id.Secret[:], textOf(list[2]))
	}
}

// leasedMessages reads name, tenant and body of each message.
func (e *Engine) leasedMessages(list []rueidis.RedisMessage, tracked bool) ([]millrace.LeasedMessage, error) {
	messages := make([]millrace.LeasedMessage, len(list)/3)
	for i := range messages {
		b, err := e.readBody(textOf(list[3*i]), textOf(list[3*i+2]))
		if err != nil {
			return nil, err
		}
		messages[i] = millrace.LeasedMessage{
			Name: b.name, Seq: b.seq, Prev: b.prev, RecordedAt: b.recordedAt,
			Tenant: textOf(list[3*i+1]), Attempt: 1, Body: b.event,
		}
		if tracked && b.tracked {
			messages[i].Operation = millrace.OperationID{Number: b.name, Secret: b.secret}
		}
	}
	return messages, nil
}

// Settle ends leases. Acks of one queue share calls.
func (e *Engine) Settle(ctx context.Context, lane int, s millrace.Settle) (millrace.Settled, error) {
	if lane < 0 || lane >= len(e.own) {
		return millrace.Settled{}, millrace.Errorf(millrace.CodeLaneMissing, "the store has no lane %d", lane)
	}
	if s.Verb == millrace.Ack {
		if err := e.usable(ctx); err != nil {
			return millrace.Settled{}, err
		}
		return e.acks[lane].do(ctx, s)
	}
	return e.settle(ctx, lane, s)
}

// takeAcks bounds a call: acks share one if they are of one queue and one time.
// Those that do come to the front, whatever was handed in between; the others keep
// their order, so that none is overtaken for ever.
func takeAcks(waiting []*settleRequest) int {
	first, items, bytes, full := waiting[0].ask, 0, 0, false
	taken := make([]*settleRequest, 0, min(len(waiting), maxRequests))
	var rest []*settleRequest
	for _, r := range waiting {
		if !full && r.ask.Queue == first.Queue && r.ask.Now.Equal(first.Now) {
			items += len(r.ask.Items)
			bytes += outputBytes(r.ask.Items)
			full = len(taken) > 0 && (len(taken) == maxRequests || items > maxItems || bytes > maxBytes)
			if !full {
				taken = append(taken, r)
				continue
			}
		}
		rest = append(rest, r)
	}
	copy(waiting[copy(waiting, taken):], rest)
	return len(taken)
}

// ack settles the gathered requests in one call; an item that is there twice is
// lost the second time, as it would be in two calls.
func (e *Engine) ack(ctx context.Context, lane int, batch []*settleRequest) {
	all := batch[0].ask
	if len(batch) > 1 {
		all.Items = nil
		for _, r := range batch {
			all.Items = append(all.Items, r.ask.Items...)
		}
	}
	done, err := e.settle(ctx, lane, all)
	if err != nil {
		fail(batch, err)
		return
	}
	from := 0
	for _, r := range batch {
		to := from + len(r.ask.Items)
		r.answer.Due = done.Due
		for len(done.Lost) > 0 && done.Lost[0] < to {
			r.answer.Lost = append(r.answer.Lost, done.Lost[0]-from)
			done.Lost = done.Lost[1:]
		}
		from = to
	}
}

func (e *Engine) settle(ctx context.Context, lane int, s millrace.Settle) (millrace.Settled, error) {
	args := make([]string, 0, 5+3*len(s.Items))
	args = append(args, s.Queue, string(rune(s.Verb)), strconv.Itoa(len(e.own)))
	args = appendItems(args, s.Items)
	if s.Verb == millrace.Retry {
		for i := range s.Items {
			args = append(args, span(s.Items[i].Delay))
		}
	}
	switch {
	case s.Verb != millrace.Ack:
		for i := range s.Items {
			args = append(args, s.Items[i].Error)
		}
	case outputBytes(s.Items) > 0:
		for i := range s.Items {
			args = append(args, rueidis.BinaryString(s.Items[i].Output))
		}
	}
	reply, err := e.runLane(ctx, &e.scripts.settle, lane, millis(s.Now), args...)
	if err != nil {
		return millrace.Settled{}, err
	}
	return millrace.Settled{Dead: int(intOf(reply[0])), Due: next(intOf(reply[1])), Lost: indexes(listOf(reply[2]))}, nil
}

func outputBytes(items []millrace.SettleItem) int {
	n := 0
	for i := range items {
		n += len(items[i].Output)
	}
	return n
}

// Extend prolongs leases.
func (e *Engine) Extend(ctx context.Context, lane int, x millrace.Extend) (millrace.Extended, error) {
	args := appendItems([]string{x.Queue, span(x.For)}, x.Items)
	reply, err := e.runLane(ctx, &e.scripts.extend, lane, millis(x.Now), args...)
	if err != nil {
		return millrace.Extended{}, err
	}
	return millrace.Extended{
		Until: moment(intOf(reply[0])), Due: next(intOf(reply[1])), Lost: indexes(listOf(reply[2])), Cancelled: indexes(listOf(reply[3])),
	}, nil
}

// Wanted returns the uids of the queues that somebody waits for.
func (e *Engine) Wanted(ctx context.Context, lane int) ([]string, error) {
	reply, err := e.runLane(ctx, &e.scripts.wanted, lane, timeless)
	if err != nil {
		return nil, err
	}
	return texts(listOf(reply[0])), nil
}

// Stats counts a queue's messages in a lane.
func (e *Engine) Stats(ctx context.Context, lane int, queue string) (millrace.QueueStats, error) {
	reply, err := e.runLane(ctx, &e.scripts.queueStats, lane, timeless, queue)
	if err != nil || len(reply) == 0 {
		return millrace.QueueStats{}, err
	}
	n := ints(reply)
	s := millrace.QueueStats{
		QueueCounts: millrace.QueueCounts{Ready: n[0], Leased: n[1], Delayed: n[2], Dead: n[3]},
		Tenants:     n[4], Acked: n[6], Spent: n[7], Dropped: n[8], Cancelled: n[9],
	}
	if n[5] > 0 {
		s.Oldest = moment(n[5] * 60000)
	}
	return s, nil
}

// appendItems adds the count, the tokens in one text, and the names.
func appendItems(args []string, items []millrace.SettleItem) []string {
	tokens := make([]byte, 0, 16*len(items))
	for i := range items {
		tokens = append(tokens, items[i].Token[:]...)
	}
	args = append(args, strconv.Itoa(len(items)), rueidis.BinaryString(tokens))
	for i := range items {
		args = append(args, strconv.FormatUint(items[i].Name, 10))
	}
	return args
}

func indexes(list []rueidis.RedisMessage) []int {
	var found []int
	for i := range list {
		found = append(found, int(intOf(list[i])))
	}
	return found
}
