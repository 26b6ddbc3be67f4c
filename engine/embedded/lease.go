package embedded

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// lease is the messages of one lease call, or of one extension, that share a
// token, a deadline and one record.
type lease struct {
	due      due
	no       uint64
	token    millrace.Token
	consumer string
	started  int64 // of a tracked queue: when its messages were leased
	seqs     []uint64
	done     int // how many of seqs the step has passed
	left     int // how many are still leased under it
}

// pick is a message that a lease call has taken.
type pick struct {
	tenant  string
	facet   *facet
	seq     uint64
	attempt int
	place   *place // in an ordered queue
	body    body
	found   bool    // body is there
	tracked bool    // it has an operation
	ticket  *ticket // of its operation, if the message has one
}

// Lease gives the next messages of the ring to a consumer.
func (e *Engine) Lease(ctx context.Context, no int, r millrace.Lease) (millrace.Leased, error) {
	var out millrace.Leased
	var picks []pick
	err := e.onQueue(ctx, no, r.Queue, r.Now, func(l *lane, q *queue, g *group, now int64) error {
		until := now + wholeMilli(r.For)
		if q.settings.Paused {
			q.wanted = true
			out = millrace.Leased{Until: milli(until), Due: l.agenda.until(now)}
			return nil
		}
		if q.settings.Tracked && until == now {
			return millrace.Errorf(millrace.CodeInvalid, "messages of a tracked queue must be leased for some time")
		}
		p := picker{lane: l, queue: q, bytes: r.MaxBytes, once: until == now}
		p.drops = settling{lane: l, queue: q, group: g, now: now}
		var err error
		if picks, err = p.pick(r.Max); err != nil {
			return e.readFailed(err)
		}
		if err := l.give(g, q, &r, now, picks, p.taken); err != nil {
			return e.readFailed(err)
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

// give leases picked messages out, or lets them go at once.
func (l *lane) give(g *group, q *queue, r *millrace.Lease, now int64, picks []pick, taken []entry) error {
	switch {
	case len(picks) == 0:
		return nil
	case r.For > 0:
		return l.grant(g, q, r, now, picks, taken)
	}
	// They are erased in this very step, so their bodies are read before.
	if err := l.findBodies(picks); err != nil {
		return err
	}
	w := settling{lane: l, queue: q, group: g, now: now}
	for i := range picks {
		w.acked(taken[i], picks[i].facet, picks[i].place)
	}
	w.end()
	return nil
}

// picker takes messages by the ring.
type picker struct {
	lane  *lane
	queue *queue
	bytes int     // most bytes of bodies; 0 for no limit
	once  bool    // what is picked counts for no limit
	taken []entry // beside the picks
	iter  *pebble.Iterator
	drops settling // what drops messages whose operation was cancelled
}

// pick takes up to most messages, one facet after the other, each as many as
// its turn has.
func (p *picker) pick(most int) ([]pick, error) {
	defer p.close()
	q := p.queue
	picks := make([]pick, 0, min(most, int(min(q.ready, 1<<16))))
	size, gone := 0, 0
	for len(picks)+gone < most && q.ring.size > 0 {
		f := q.ring.front()
		turn := p.turn(f)
		if turn == 0 {
			p.leave(f)
			continue
		}
		e, fromLine, err := p.first(f)
		if err != nil {
			return nil, err
		}
		if q.cancelled > 0 && p.drops.unmark(e.seq) {
			p.pass(f, e, fromLine, turn)
			gone++
			continue
		}
		if size += int(e.size); len(picks) > 0 && p.bytes > 0 && size > p.bytes {
			break
		}
		place := p.serve(f, fromLine, turn)
		picks = append(picks, pick{tenant: f.tenant, facet: f, seq: e.seq, attempt: e.attempts() + 1, place: place})
		p.taken = append(p.taken, e)
	}
	return picks, nil
}

// turn is how many messages the facet at the ring's head may be served now; 0
// if it does not belong there any more.
func (p *picker) turn(f *facet) int {
	if !f.eligible(p.queue) {
		return 0
	}
	if c := p.queue.credit; c > 0 {
		return min(c, f.weight())
	}
	return f.weight()
}

// leave takes the ring's head out of the ring.
func (p *picker) leave(f *facet) {
	q := p.queue
	q.ring.pop()
	q.credit = 0
	f.inRing = false
	q.forget(f)
}

// first is the facet's next message, and whether it is the front of a line.
func (p *picker) first(f *facet) (e entry, fromLine bool, err error) {
	if f.needsDisk() {
		if err := p.refill(f); err != nil {
			return entry{}, false, err
		}
	}
	if f.lines == nil || f.lines.free == 0 {
		return f.first(), false, nil
	}
	_, n := f.lines.first()
	x := n.entry()
	if f.plain() > 0 {
		if e := f.first(); e.seq < x.seq {
			return e, false, nil
		}
	}
	return x, true, nil
}

// serve takes the first message of the facet whose turn it is.
func (p *picker) serve(f *facet, fromLine bool, turn int) (at *place) {
	at = p.take(f, fromLine)
	if !p.once {
		f.leased++
	}
	p.moveOn(f, turn)
	return at
}

// pass drops the first message of the facet whose turn it is, because its operation was cancelled.
func (p *picker) pass(f *facet, e entry, fromLine bool, turn int) {
	at := p.take(f, fromLine)
	p.drops.erase(e.seq, f, at)
	p.drops.release(e)
	p.moveOn(f, turn)
	p.queue.forget(f)
}

// take takes the first message of a facet.
func (p *picker) take(f *facet, fromLine bool) (at *place) {
	if fromLine {
		_, at = f.lines.take()
	} else {
		f.take()
	}
	p.queue.depart(f)
	return at
}

// moveOn goes on in the ring after a message was served.
func (p *picker) moveOn(f *facet, turn int) {
	q := p.queue
	q.credit = 0
	switch {
	case !f.leasable() || f.full(q):
		q.ring.pop()
		f.inRing = false
	case turn > 1:
		q.credit = turn - 1
	case q.ring.size > 1:
		q.ring.pop()
		q.ring.push(f)
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
	if p.drops.lane != nil {
		p.drops.end()
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
func (l *lane) grant(g *group, q *queue, r *millrace.Lease, now int64, picks []pick, taken []entry) error {
	until := now + wholeMilli(r.For)
	ls := l.newLease(q, l.nextLease(), r.Token, until, r.Consumer, len(picks))
	if q.settings.Tracked {
		ls.started = now
		if err := l.runAll(g, q, now, picks, taken); err != nil {
			return err
		}
	}
	record := leaseRecord{deadline: until, token: r.Token, consumer: r.Consumer, names: ls.seqs, started: ls.started}
	for i := range picks {
		p := &picks[i]
		ls.seqs[i] = p.seq
		q.out[p.seq] = held{facet: p.facet, lease: ls, place: p.place, mark: taken[i].mark, size: taken[i].size, state: stateLeased}
	}
	q.leased += int64(len(picks))
	l.writeLease(g, q, ls, &record)
	return nil
}

func (l *lane) nextLease() uint64 {
	l.meta.leases++
	return uint64(l.meta.leases)
}

func (l *lane) newLease(q *queue, no uint64, token millrace.Token, until int64, consumer string, n int) *lease {
	ls := &lease{no: no, token: token, consumer: consumer, seqs: make([]uint64, n), left: n}
	ls.due = due{kind: dueLease, at: until, queue: q, lease: ls}
	return ls
}

func (l *lane) writeLease(g *group, q *queue, ls *lease, record *leaseRecord) {
	l.agenda.push(&ls.due)
	q.noteConsumer(ls)
	g.key = queueSeqKey(g.key[:0], kindLease, l.no, q.uid, ls.no)
	g.val = record.append(g.val[:0])
	g.set()
}

// leaveLease takes a message out of its lease; the last one ends the lease's record.
func (l *lane) leaveLease(g *group, q *queue, ls *lease) {
	if ls.left--; ls.left == 0 {
		l.agenda.remove(&ls.due)
		q.dropConsumer(ls)
		g.key = queueSeqKey(g.key[:0], kindLease, l.no, q.uid, ls.no)
		g.del()
	}
}
