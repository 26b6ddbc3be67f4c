package embedded

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// counts is what a queue has counted of its operations: in all, and in the minute that is being
// counted. When that is over it is written as a minute and added to its hour and its day; until then each is what is written and this.
type counts struct {
	total  millrace.Tally // without the open minute
	minute int64
	open   counted
	dirty  bool
}

// countLengths are the lengths over which is counted; minutes first.
var countLengths = [...]millrace.CountBucket{millrace.Minutes, millrace.Hours, millrace.Days}

// counting is what is being counted of a queue's operations now.
func (l *lane) counting(g *group, q *queue, now int64) *counted {
	c := &q.counts
	if minute := now / 60000; minute != c.minute {
		if err := l.turn(g, q, now); err != nil {
			l.engine.fail(err)
		}
		c.minute = minute
	}
	c.dirty = true
	l.change(q)
	return &c.open
}

// turn writes the minute that is over.
func (l *lane) turn(g *group, q *queue, now int64) error {
	c := &q.counts
	if c.open.empty() {
		return nil
	}
	for _, length := range countLengths {
		if err := l.fold(g, q, length, now); err != nil {
			return err
		}
	}
	c.total = c.total.Plus(c.open.Tally)
	c.open = counted{}
	return nil
}

// fold adds the minute that is over to the bucket of a length, and frees buckets that are too old.
func (l *lane) fold(g *group, q *queue, length millrace.CountBucket, now int64) error {
	c := &q.counts
	span := length.Span().Milliseconds()
	key := countKey(l.no, q.uid, length, c.minute*60000/span*span)
	value, err := l.overlay.get(key)
	if err != nil {
		return err
	}
	sum, err := decodeCounted(value)
	if err != nil {
		return err
	}
	sum.plus(&c.open)
	g.key = append(g.key[:0], key...)
	g.val = sum.append(g.val[:0])
	g.set()
	return l.freeCounts(g, q, length, now-length.Kept().Milliseconds())
}

// freeCounts removes the buckets of a length that began before a time.
func (l *lane) freeCounts(g *group, q *queue, length millrace.CountBucket, before int64) error {
	prefix := countsOf(l.no, q.uid, length)
	it, err := l.overlay.prefixed(prefix)
	if err != nil {
		return err
	}
	old := it.First() && int64(lastNumber(it.Key())) < before
	if old {
		g.delRange(prefix, countKey(l.no, q.uid, length, before))
	}
	return it.Close()
}

func decodeCounted(b []byte) (c counted, err error) {
	if b == nil {
		return c, nil
	}
	r := reader{rest: b}
	c.read(&r)
	return c, r.err("what was counted of operations")
}

// sealCounts writes what was counted of a queue's operations in the open minute.
func (l *lane) sealCounts(g *group, q *queue) {
	c := &q.counts
	if !c.dirty {
		return
	}
	c.dirty = false
	g.key = queueKey(g.key[:0], kindTally, l.no, q.uid)
	g.val = c.append(g.val[:0])
	g.set()
}

func (c *counts) append(b []byte) []byte {
	b = binary.AppendVarint(appendTally(b, c.total), c.minute)
	return c.open.append(b)
}

func (c *counts) decode(b []byte) error {
	r := reader{rest: b}
	c.total, c.minute = r.tally(), r.varint()
	c.open = counted{}
	c.open.read(&r)
	return r.err("a queue's tally")
}

// OperationCounts returns what was counted of a queue's operations.
func (e *Engine) OperationCounts(ctx context.Context, lane int, q millrace.CountQuery) ([]millrace.OperationCount, millrace.Tally, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return nil, millrace.Tally{}, err
	}
	defer e.leave()
	var list []millrace.OperationCount
	var total millrace.Tally
	err = l.do(ctx, func(*group) error {
		known := l.queue(q.Queue)
		if known == nil {
			return nil
		}
		total = known.counts.total.Plus(known.counts.open.Tally)
		if list, err = l.countsOf(known, &q); err != nil {
			return e.readFailed(err)
		}
		return nil
	})
	return list, total, err
}

// countsOf reads the buckets that are asked for, with what is being counted in its own.
func (l *lane) countsOf(q *queue, query *millrace.CountQuery) ([]millrace.OperationCount, error) {
	since := max(query.Since.UnixMilli(), l.seen(query.Now)-query.Bucket.Kept().Milliseconds(), 0)
	until := query.Until.UnixMilli()
	if since >= until {
		return nil, nil
	}
	it, err := l.overlay.reader().NewIter(&pebble.IterOptions{
		LowerBound: countKey(l.no, q.uid, query.Bucket, since), UpperBound: countKey(l.no, q.uid, query.Bucket, until),
	})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	var list []millrace.OperationCount
	open := q.counts.openIn(query.Bucket)
	merged := q.counts.open.empty() || open < since || open >= until
	for valid := it.First(); valid; valid = it.Next() {
		c, err := countedAt(it)
		if err != nil {
			return nil, err
		}
		start := int64(lastNumber(it.Key()))
		if start == open && !merged {
			c.plus(&q.counts.open)
			merged = true
		}
		list = append(list, c.answer(start))
	}
	if !merged {
		list = append(list, q.counts.open.answer(open))
		slices.SortFunc(list, func(a, b millrace.OperationCount) int { return a.At.Compare(b.At) })
	}
	return list, it.Error()
}

// openIn is when the bucket began in which is being counted.
func (c *counts) openIn(length millrace.CountBucket) int64 {
	span := length.Span().Milliseconds()
	return c.minute * 60000 / span * span
}

func countedAt(it *pebble.Iterator) (counted, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return counted{}, err
	}
	return decodeCounted(value)
}

func (c *counted) answer(start int64) millrace.OperationCount {
	return millrace.OperationCount{At: milli(start), Tally: c.Tally, Queued: c.queued.answer(), Running: c.running.answer()}
}
