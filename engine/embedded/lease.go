package embedded

import (
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// lease is the messages of one lease call, or of one extension, that share a
// token, a deadline and one record.
type lease struct {
	due   due
	no    uint64
	token millrace.Token
	seqs  []uint64
	done  int // how many of seqs the step has passed
	left  int // how many are still leased under it
}

// pick is a message that a lease call has taken.
type pick struct {
	tenant  string
	seq     uint64
	attempt int
	body    body
	found   bool // body is there
}

// Lease gives the next messages of the ring to a consumer.
func (e *Engine) Lease(ctx context.Context, no int, r millrace.Lease) (millrace.Leased, error) {
	var out millrace.Leased
	var picks []pick
	err := e.onQueue(ctx, no, r.Queue, r.Now, func(l *lane, q *queue, g *group, now int64) error {
		p := picker{lane: l, queue: q, bytes: r.MaxBytes}
		var err error
		if picks, err = p.pick(r.Max); err != nil {
			return e.readFailed(err)
		}
		until := now + wholeMilli(r.For)
		if len(picks) > 0 {
			l.grant(g, q, r.Token, until, picks, p.taken)
		}
		q.wanted = q.ring.size == 0
		out = millrace.Leased{Until: milli(until), Tenants: q.ring.size, Due: l.agenda.until(now)}
		return nil
	})
	if err != nil || len(picks) == 0 {
		return out, err
	}
	out.Messages, err = e.readBodies(ctx, e.lanes[no], picks)
	return out, err
}

// picker takes messages by the ring.
type picker struct {
	lane  *lane
	queue *queue
	bytes int     // most bytes of bodies; 0 for no limit
	taken []entry // beside the picks
	iter  *pebble.Iterator
}

// pick takes up to most messages, one facet after the other, one message each.
func (p *picker) pick(most int) ([]pick, error) {
	defer p.close()
	q := p.queue
	picks := make([]pick, 0, min(most, int(min(q.ready, 1<<16))))
	size := 0
	for len(picks) < most && q.ring.size > 0 {
		f := q.ring.front()
		if f.needsDisk() {
			if err := p.refill(f); err != nil {
				return nil, err
			}
		}
		e := f.first()
		if size += int(e.size); len(picks) > 0 && p.bytes > 0 && size > p.bytes {
			break
		}
		p.serve(f)
		picks = append(picks, pick{tenant: f.tenant, seq: e.seq, attempt: e.attempts() + 1})
		p.taken = append(p.taken, e)
	}
	return picks, nil
}

// serve takes the first message of the facet whose turn it is.
func (p *picker) serve(f *facet) {
	q := p.queue
	q.ring.pop()
	f.take()
	if f.waiting() > 0 {
		q.ring.push(f)
	} else {
		f.inRing = false
	}
}

// refill reads a facet's next run of messages from disk, from where the last
// one ended.
func (p *picker) refill(f *facet) error {
	l, q := p.lane, p.queue
	it, err := p.iterator()
	if err != nil {
		return err
	}
	prefix := facetKey(nil, l.no, q.uid, f.tenant)
	want := int(min(f.gap, headLen))
	valid := it.SeekGE(messageKey(nil, l.no, q.uid, f.tenant, f.next+1))
	for ; valid && want > 0; valid = it.Next() {
		key := it.Key()
		if len(key) != len(prefix)+8 || string(key[:len(prefix)]) != string(prefix) {
			break
		}
		seq := lastNumber(key)
		if _, out := q.out[seq]; out {
			continue
		}
		e, err := entryAt(it, seq)
		if err != nil {
			return err
		}
		f.head.push(e)
		f.next = seq
		f.gap--
		want--
	}
	if err := it.Error(); err != nil {
		return err
	}
	if want > 0 {
		return errIndex("a facet has fewer messages on disk than counted")
	}
	return nil
}

func (p *picker) iterator() (*pebble.Iterator, error) {
	if p.iter == nil {
		prefix := queueKey(nil, kindMessage, p.lane.no, p.queue.uid)
		it, err := p.lane.engine.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
		if err != nil {
			return nil, err
		}
		p.iter = it
	}
	return p.iter, nil
}

func (p *picker) close() {
	if p.iter != nil {
		_ = p.iter.Close()
	}
}

func entryAt(it *pebble.Iterator, seq uint64) (entry, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return entry{}, err
	}
	return decodeEntry(seq, value)
}

// grant leases picked messages out under one record.
func (l *lane) grant(g *group, q *queue, token millrace.Token, until int64, picks []pick, taken []entry) {
	ls := l.newLease(q, token, until, len(picks))
	record := leaseRecord{deadline: until, token: token, items: make([]leaseItem, len(picks))}
	for i := range picks {
		p, f := &picks[i], q.facets[picks[i].tenant]
		ls.seqs[i] = p.seq
		record.items[i] = leaseItem{tenant: p.tenant, seq: p.seq, attempt: p.attempt}
		f.held++
		q.out[p.seq] = held{facet: f, lease: ls, mark: taken[i].mark, size: taken[i].size, state: stateLeased}
	}
	q.ready -= int64(len(picks))
	q.leased += int64(len(picks))
	l.writeLease(g, q, ls, &record)
}

func (l *lane) newLease(q *queue, token millrace.Token, until int64, n int) *lease {
	l.leases++
	ls := &lease{no: l.leases, token: token, seqs: make([]uint64, n), left: n}
	ls.due = due{at: until, queue: q, lease: ls}
	return ls
}

func (l *lane) writeLease(g *group, q *queue, ls *lease, record *leaseRecord) {
	l.agenda.push(&ls.due)
	g.key = queueSeqKey(g.key[:0], kindLease, l.no, q.uid, ls.no)
	g.val = record.append(g.val[:0])
	g.set()
}

// leaveLease takes a message out of its lease; the last one ends the lease's record.
func (l *lane) leaveLease(g *group, q *queue, ls *lease) {
	if ls.left--; ls.left == 0 {
		l.agenda.remove(&ls.due)
		g.key = queueSeqKey(g.key[:0], kindLease, l.no, q.uid, ls.no)
		g.del()
	}
}

// readBodies completes picked messages. A body that is gone by now, because
// the queue was removed and swept, is left out.
func (e *Engine) readBodies(ctx context.Context, l *lane, picks []pick) ([]millrace.LeasedMessage, error) {
	if err := e.enterStore(ctx); err != nil {
		return nil, unknown(err)
	}
	defer e.leave()
	l.cache.find(picks)
	if err := l.readMissing(picks); err != nil {
		return nil, unknown(e.readFailed(err))
	}
	messages := make([]millrace.LeasedMessage, 0, len(picks))
	for i := range picks {
		if p := &picks[i]; p.found {
			messages = append(messages, millrace.LeasedMessage{
				Seq: p.seq, Prev: p.body.prev, RecordedAt: milli(p.body.recorded),
				Tenant: p.tenant, Attempt: p.attempt, Body: p.body.blob,
			})
		}
	}
	return messages, nil
}

// unknown turns the error of a call that has leased already into one that says so.
func unknown(err error) error {
	return millrace.Wrap(millrace.CodeOutcomeUnknown, err, "the messages were leased but could not be read")
}

// readMissing reads bodies from disk, in the order they lie there.
func (l *lane) readMissing(picks []pick) error {
	var missing []int
	for i := range picks {
		if !picks[i].found {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.SortFunc(missing, func(a, b int) int {
		if picks[a].seq < picks[b].seq {
			return -1
		}
		return 1
	})
	prefix := laneKey(nil, kindBody, l.no)
	it, err := l.engine.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	defer it.Close()
	var key []byte
	for _, i := range missing {
		key = seqKey(key[:0], kindBody, l.no, picks[i].seq)
		if err := readBody(it, key, &picks[i]); err != nil {
			return err
		}
	}
	return it.Error()
}

func readBody(it *pebble.Iterator, key []byte, p *pick) error {
	if !it.SeekGE(key) || string(it.Key()) != string(key) {
		return it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	p.body, err = decodeBody(slices.Clone(value))
	p.found = err == nil
	return err
}

// Extend moves the deadline of each live item, under the same token.
func (e *Engine) Extend(ctx context.Context, no int, x millrace.Extend) (millrace.Extended, error) {
	var out millrace.Extended
	err := e.onQueue(ctx, no, x.Queue, x.Now, func(l *lane, q *queue, g *group, now int64) error {
		until := now + wholeMilli(x.For)
		out = millrace.Extended{Until: milli(until)}
		seen := make(map[uint64]bool, len(x.Items))
		byToken := map[millrace.Token][]uint64{}
		var tokens []millrace.Token
		for i, item := range x.Items {
			if !l.live(g, q, item, now) {
				out.Lost = append(out.Lost, i)
				continue
			}
			if seen[item.Seq] {
				continue
			}
			seen[item.Seq] = true
			if byToken[item.Token] == nil {
				tokens = append(tokens, item.Token)
			}
			byToken[item.Token] = append(byToken[item.Token], item.Seq)
		}
		for _, token := range tokens {
			l.extend(g, q, token, until, byToken[token])
		}
		out.Due = l.agenda.until(now)
		return nil
	})
	return out, err
}

// extend moves leased messages into a lease of their own with another deadline.
func (l *lane) extend(g *group, q *queue, token millrace.Token, until int64, seqs []uint64) {
	ls := l.newLease(q, token, until, len(seqs))
	copy(ls.seqs, seqs)
	record := leaseRecord{deadline: until, token: token, items: make([]leaseItem, len(seqs))}
	for i, seq := range seqs {
		h := q.out[seq]
		l.leaveLease(g, q, h.lease)
		h.lease = ls
		q.out[seq] = h
		record.items[i] = leaseItem{tenant: h.facet.tenant, seq: seq, attempt: h.entry(seq).attempts() + 1}
	}
	l.writeLease(g, q, ls, &record)
}

// live reports whether an item's lease has neither ended nor been settled.
func (l *lane) live(g *group, q *queue, item millrace.SettleItem, now int64) bool {
	h, ok := q.out[item.Seq]
	if !ok || h.state != stateLeased || h.lease.token != item.Token {
		return false
	}
	if now >= h.lease.due.at {
		l.writeMeta(g) // what is lost stays lost: the clock must not go back behind the deadline
		return false
	}
	return true
}
