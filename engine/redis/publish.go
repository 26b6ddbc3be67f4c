package redis

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

const (
	// keyWindow is how long the last seq of a key is remembered at least.
	keyWindow = 30 * 24 * time.Hour

	maxRequests = 100     // of one gathered call
	maxBytes    = 1 << 20 // of their bodies
	maxAppends  = 10000   // of their events to sinks
)

type commitRequest = request[millrace.Commit, millrace.Committed]

// gatherers prepares the gathering of every lane.
func (e *Engine) gatherers() {
	for lane := range e.own {
		e.commits = append(e.commits, &gatherer[millrace.Commit, millrace.Committed]{
			take: takeCommits, ctx: e.ctx, wg: &e.calls,
			call: func(ctx context.Context, batch []*commitRequest) { e.commit(ctx, lane, batch) },
		})
		e.acks = append(e.acks, &gatherer[millrace.Settle, millrace.Settled]{
			take: takeAcks, ctx: e.ctx, wg: &e.calls,
			call: func(ctx context.Context, batch []*settleRequest) { e.ack(ctx, lane, batch) },
		})
	}
}

// Publish commits a request's events to one lane, gathered with those of others.
func (e *Engine) Publish(ctx context.Context, lane int, c millrace.Commit) (millrace.Committed, error) {
	if lane < 0 || lane >= len(e.own) {
		return millrace.Committed{}, millrace.Errorf(millrace.CodeLaneMissing, "the store has no lane %d", lane)
	}
	if err := e.usable(ctx); err != nil {
		return millrace.Committed{}, err
	}
	return e.commits[lane].do(ctx, c)
}

// takeCommits bounds a call. Requests share one only if they share their time.
func takeCommits(waiting []*commitRequest) int {
	bytes, appends := 0, 0
	for i, r := range waiting {
		for j := range r.ask.Events {
			bytes += len(r.ask.Events[j].Body) + openingBytes(r.ask.Events[j].Operations)
			appends += max(1, len(r.ask.Events[j].Queues)+len(r.ask.Events[j].Batches))
		}
		if i > 0 && (i == maxRequests || bytes > maxBytes || appends > maxAppends || !r.ask.Now.Equal(waiting[0].ask.Now)) {
			return i
		}
	}
	return len(waiting)
}

// commit sends one gathered call and hands out its outcomes.
func (e *Engine) commit(ctx context.Context, lane int, batch []*commitRequest) {
	p := newCommitArgs()
	for _, r := range batch {
		p.request(&r.ask)
	}
	head := []string{
		e.identity.StoreID, millis(batch[0].ask.Now), span(e.options.DedupeWindow), span(keyWindow),
		strconv.Itoa(len(e.own)), strconv.Itoa(lane),
	}
	script := &e.scripts.publish
	if p.subs.count() > 0 {
		script = &e.scripts.publishBatch
	}
	reply, err := e.run(ctx, script, e.own[lane], append(p.args(head), e.publishing...)...)
	if err != nil {
		fail(batch, err)
		return
	}
	e.deal(lane, batch, reply)
}

// deal turns a reply into outcomes.
func (e *Engine) deal(lane int, batch []*commitRequest, reply []rueidis.RedisMessage) {
	recorded, due, refusals := moment(intOf(reply[0])), next(intOf(reply[2])), listOf(reply[3])
	d := dealer{n: uint64(intOf(reply[1])), lanes: uint64(len(e.own)), lane: uint64(lane), odd: listOf(reply[4])}
	if len(reply) > 6 {
		d.disabled = texts(listOf(reply[6]))
	}
	for i, r := range batch {
		if len(refusals) > 0 && intOf(refusals[0]) == int64(i+1) {
			r.err, refusals = refused(refusals[1]), refusals[2:]
			d.event += int64(len(r.ask.Events))
			continue
		}
		r.answer = millrace.Committed{Stamps: make([]millrace.Stamp, len(r.ask.Events)), RecordedAt: recorded, Due: due}
		for j := range r.ask.Events {
			r.answer.Stamps[j] = d.stamp(&r.ask.Events[j])
		}
		if len(reply) > 5 {
			r.answer.Dropped, reply = dropped(listOf(reply[5])), nil
		}
	}
}

// dropped reads which messages went past a queue's length: uid and name of each.
func dropped(list []rueidis.RedisMessage) []millrace.Exit {
	var out []millrace.Exit
	for ; len(list) >= 2; list = list[2:] {
		name, _ := strconv.ParseUint(textOf(list[1]), 10, 64)
		out = append(out, millrace.Exit{Queue: textOf(list[0]), Name: name, Reason: millrace.ReasonMaxLength})
	}
	return out
}

// refused reads why a request is: the version that the lane knows, or the queue that is full.
func refused(answer rueidis.RedisMessage) error {
	if !answer.IsInt64() {
		return &millrace.Error{Code: millrace.CodeFull, Detail: "a tenant has as many messages waiting in the queue as it may", Sink: textOf(answer)}
	}
	return &millrace.Error{Code: millrace.CodeStale, Detail: "the lane knows another registry", CurrentVersion: uint64(intOf(answer))}
}

// dealer hands out the stamps of a call. Events that are neither refused nor
// duplicates have consecutive numbers; the reply tells only what is not plain.
type dealer struct {
	n, lanes, lane uint64
	event          int64
	odd            []rueidis.RedisMessage
	disabled       []string // uids of subscriptions that take nothing
}

func (d *dealer) stamp(ev *millrace.CommitEvent) millrace.Stamp {
	d.event++
	told, text := int64(0), ""
	if len(d.odd) > 0 {
		if told = intOf(d.odd[0]); told == d.event || told == -d.event {
			text = textOf(d.odd[1])
			d.odd = d.odd[2:]
		}
	}
	if told == -d.event {
		return d.unusual(text)
	}
	s := millrace.Stamp{Seq: d.n*d.lanes + d.lane, Sinks: len(ev.Queues) + d.takers(ev.Batches)}
	d.n += uint64(max(1, len(ev.Operations))) // operations after the first have a number each
	if text != "" {
		s.Prev, _ = strconv.ParseUint(text, 10, 64)
	}
	return s
}

// takers counts the subscriptions that take an event.
func (d *dealer) takers(uids []string) int {
	if len(d.disabled) == 0 {
		return len(uids)
	}
	n := 0
	for _, uid := range uids {
		if !slices.Contains(d.disabled, uid) {
			n++
		}
	}
	return n
}

// unusual reads what a script says of an event that it did not store as usual: it
// is held, it is gone, or it is a duplicate with this first stamp.
func (d *dealer) unusual(text string) millrace.Stamp {
	switch len(text) {
	case 1:
		return millrace.Stamp{Gone: true}
	case 9:
		d.n++
		return millrace.Stamp{DueAt: moment(int64(number(text[1:])))}
	case 28:
		return millrace.Stamp{Duplicate: true, DueAt: moment(int64(number(text[20:])))}
	}
	return firstStamp(text)
}

// firstStamp reads what a store remembers of a digest: seq, prev, sinks.
func firstStamp(b string) millrace.Stamp {
	if len(b) != 20 {
		return millrace.Stamp{Duplicate: true}
	}
	return millrace.Stamp{
		Seq: number(b[:8]), Prev: number(b[8:16]),
		Sinks: int(binary.LittleEndian.Uint32([]byte(b[16:]))), Duplicate: true,
	}
}

// number reads a whole number that a script packed as a double.
func number(b string) uint64 {
	return uint64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(b))))
}
