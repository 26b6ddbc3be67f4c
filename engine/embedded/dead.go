package embedded

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// bury moves a leased message to the dead letters.
func (w *settling) bury(seq uint64, reason byte, why string) {
	w.endFailed(seq, statusError, why)
	h := w.unlease(seq)
	q, g, l := w.queue, w.group, w.lane
	d := deadRecord{tenant: h.facet.tenant, mark: tried(h.mark) & (markAttempts<<1 | markShared), size: h.size, reason: reason, at: w.now, err: cut(why)}
	if h.place != nil {
		d.key = h.place.key
	}
	if keep := q.settings.DeadRetention; keep > 0 {
		d.due = w.now + wholeMilli(keep)
	}
	g.key = queueSeqKey(g.key[:0], kindDead, l.no, q.uid, seq)
	g.val = d.append(g.val[:0])
	g.set()
	l.indexDead(g, q, seq, &d, (*group).set)
	q.dead++
	q.spent++
	h.facet.dead++
	l.change(q)
	w.erase(seq, h.facet, h.place)
}

func cut(s string) string { return s[:min(len(s), millrace.MaxErrorLen)] }

// indexDead writes or deletes what finds a dead letter by its tenant and by
// the end of its retention.
func (l *lane) indexDead(g *group, q *queue, seq uint64, d *deadRecord, do func(*group)) {
	g.val = g.val[:0]
	g.key = deadOfKey(g.key[:0], l.no, q.uid, d.tenant, seq)
	do(g)
	if d.due == 0 {
		return
	}
	g.key = deadDueKey(g.key[:0], l.no, q.uid, d.due, seq)
	do(g)
	if q.deadDue.pos < 0 || d.due < q.deadDue.at {
		l.agenda.move(&q.deadDue, d.due)
	}
}

// unbury takes a dead letter out of the dead letters.
func (w *settling) unbury(seq uint64, d *deadRecord) *facet {
	q, g, l := w.queue, w.group, w.lane
	g.key = queueSeqKey(g.key[:0], kindDead, l.no, q.uid, seq)
	g.del()
	l.indexDead(g, q, seq, d, (*group).del)
	f := q.facet(d.tenant)
	f.dead--
	q.dead--
	return f
}

// dropDead lets a dead letter go.
func (w *settling) dropDead(seq uint64, d *deadRecord) {
	f := w.unbury(seq, d)
	w.release(entry{seq: seq, size: d.size, mark: d.mark})
	w.countDropped()
	w.queue.forget(f)
}

// redrive makes a dead letter wait again, with a mark of its operation. The tenant enters the ring later.
func (w *settling) redrive(seq uint64, d *deadRecord, mark uint32) {
	q, g, l := w.queue, w.group, w.lane
	f := w.unbury(seq, d)
	e := entry{seq: seq, size: d.size, mark: d.mark&markShared | mark}
	q.arrive(f)
	q.ages.add(l.minute(seq))
	if d.key == 0 {
		l.writeMessage(g, q, f, e, nil, uint64(l.meta.leases))
		l.backToFacet(q, f, e)
		return
	}
	at := f.allLines().cutIn(q, d.key, e)
	l.writeMessage(g, q, f, e, &at, uint64(l.meta.leases))
}

// nextDeadDue finds the dead letter whose retention ends first.
func (l *lane) nextDeadDue(q *queue) error {
	if q.deadDue.pos < 0 {
		return nil
	}
	it, err := l.overlay.prefixed(queueKey(nil, kindDeadDue, l.no, q.uid))
	if err != nil {
		return err
	}
	if it.First() {
		l.agenda.move(&q.deadDue, dueOf(it.Key()))
	} else {
		l.agenda.remove(&q.deadDue)
	}
	return it.Close()
}

// dueOf is the time in the key of a dead letter whose retention ends.
func dueOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[10:18])) }

// forgetDead drops up to most dead letters of a queue whose retention ended at
// one moment, and returns which.
func (l *lane) forgetDead(g *group, q *queue, now, at int64, most int) (gone []millrace.Exit) {
	w := settling{lane: l, queue: q, group: g, now: now}
	defer w.end()
	names, err := l.deadDueAt(q, at, most)
	for _, seq := range names {
		var d *deadRecord
		if d, err = l.deadLetter(q, seq); err == nil && d == nil {
			err = errIndex("a dead letter is due and not there")
		}
		if err != nil {
			break
		}
		w.dropDead(seq, d)
		gone = append(gone, q.exit(seq, millrace.ReasonRetention))
	}
	if err == nil {
		err = l.nextDeadDue(q)
	}
	if err != nil {
		l.engine.fail(err)
	}
	return gone
}

// deadDueAt is up to most dead letters whose retention ends at one moment.
func (l *lane) deadDueAt(q *queue, at int64, most int) (names []uint64, err error) {
	it, err := l.overlay.prefixed(queueKey(nil, kindDeadDue, l.no, q.uid))
	if err != nil {
		return nil, err
	}
	for valid := it.First(); valid && len(names) < most && dueOf(it.Key()) <= at; valid = it.Next() {
		names = append(names, lastNumber(it.Key()))
	}
	return names, it.Close()
}

// deadLetter reads a dead letter, nil if it is none.
func (l *lane) deadLetter(q *queue, seq uint64) (*deadRecord, error) {
	value, err := l.overlay.get(queueSeqKey(nil, kindDead, l.no, q.uid, seq))
	if err != nil || value == nil {
		return nil, err
	}
	d, err := decodeDead(value)
	return &d, err
}

// Redrive makes dead letters wait again.
func (e *Engine) Redrive(ctx context.Context, no int, d millrace.DeadOf) (done, left int, err error) {
	if size := payloads(d.Openings); size > 0 { // a new operation needs room as an event does
		if err := e.space.refusal(size); err != nil {
			return 0, 0, err
		}
	}
	return e.onDead(ctx, no, d, func(w *settling, chosen []deadLetter) error {
		tracked := w.queue.settings.Tracked
		if tracked && (d.All || len(d.Openings) != len(d.Names)) {
			return millrace.Errorf(millrace.CodeInvalid, "dead letters of a tracked queue are redriven by name, each with an opening")
		}
		var mark uint32
		if tracked {
			mark = markTicket
			w.reopen(chosen, &d)
		}
		for _, x := range slices.Backward(chosen) { // so that the lowest of a key ends in front
			w.redrive(x.seq, x.record, mark)
		}
		for _, x := range chosen {
			w.lane.enterRing(w.group, w.queue, w.queue.facet(x.record.tenant))
		}
		return nil
	})
}

// reopen begins another operation for each of the dead letters that are redriven.
func (w *settling) reopen(chosen []deadLetter, d *millrace.DeadOf) {
	l, g := w.lane, w.group
	for _, x := range chosen {
		o := &d.Openings[slices.Index(d.Names, x.seq)]
		number := l.nextSeq(g, w.now)
		l.begin(g, w.queue, w.now, opening{Opening: o, tenant: x.record.tenant, name: x.seq, number: number})
		l.writeTicket(g, w.queue, x.seq, &ticket{number: number, secret: o.Secret, ready: w.now})
	}
}

// DropDead removes dead letters.
func (e *Engine) DropDead(ctx context.Context, no int, d millrace.DeadOf) (done, left int, err error) {
	return e.onDead(ctx, no, d, func(w *settling, chosen []deadLetter) error {
		for _, x := range chosen {
			w.dropDead(x.seq, x.record)
		}
		return nil
	})
}

// deadLetter is a dead letter and its name.
type deadLetter struct {
	seq    uint64
	record *deadRecord
}

// onDead runs one transition over chosen dead letters.
func (e *Engine) onDead(ctx context.Context, no int, d millrace.DeadOf, f func(*settling, []deadLetter) error) (done, left int, err error) {
	err = e.onQueue(ctx, no, d.Queue, d.Now, func(l *lane, q *queue, g *group, now int64) error {
		chosen, err := l.chooseDead(q, &d)
		if err != nil {
			return e.readFailed(err)
		}
		w := settling{lane: l, queue: q, group: g, now: now}
		if err := f(&w, chosen); err != nil {
			return err
		}
		w.end()
		if err := l.nextDeadDue(q); err != nil {
			return e.readFailed(err)
		}
		done = len(chosen)
		if d.All {
			left = q.deadOf(d.Tenant)
		}
		return nil
	})
	return done, left, err
}

func (q *queue) deadOf(tenant string) int {
	if tenant == "" {
		return int(q.dead)
	}
	if f := q.facets[tenant]; f != nil {
		return f.dead
	}
	return 0
}

// chooseDead reads the dead letters that are meant, by name.
func (l *lane) chooseDead(q *queue, d *millrace.DeadOf) ([]deadLetter, error) {
	names := slices.Compact(slices.Sorted(slices.Values(d.Names)))
	if d.All {
		var err error
		if names, err = l.deadNames(l.overlay.reader(), q.uid, d.Tenant, 0, d.Max); err != nil {
			return nil, err
		}
	}
	var chosen []deadLetter
	for _, seq := range names {
		r, err := l.deadLetter(q, seq)
		if err != nil {
			return nil, err
		}
		if r != nil {
			chosen = append(chosen, deadLetter{seq, r})
		}
	}
	return chosen, nil
}

// deadNames is up to most names of dead letters past one, of a tenant or of all.
func (l *lane) deadNames(db pebble.Reader, u uid, tenant string, past uint64, most int) (names []uint64, err error) {
	prefix := queueKey(nil, kindDead, l.no, u)
	if tenant != "" {
		prefix = tenantKey(nil, kindDeadOf, l.no, u, tenant)
	}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: binary.BigEndian.AppendUint64(slices.Clone(prefix), past+1), UpperBound: after(prefix)})
	if err != nil {
		return nil, err
	}
	for valid := it.First(); valid && len(names) < most; valid = it.Next() {
		names = append(names, lastNumber(it.Key()))
	}
	return names, it.Close()
}

// Dead lists dead letters by name, after one.
func (e *Engine) Dead(ctx context.Context, no int, p millrace.DeadPage) ([]millrace.QueuedMessage, error) {
	var list []millrace.QueuedMessage
	err := e.look(ctx, no, p.Queue, func(l *lane, q *queue) (picks []pick, err error) {
		names, err := l.deadNames(l.overlay.reader(), q.uid, p.Tenant, p.After, min(p.Limit, millrace.MaxLeaseCount))
		for _, seq := range names {
			var d *deadRecord
			if d, err = l.deadLetter(q, seq); err != nil || d == nil {
				break
			}
			list = append(list, d.message())
			picks = append(picks, pick{seq: seq, tenant: d.tenant, attempt: attemptsOf(d.mark)})
		}
		return picks, err
	}, func(i int, m millrace.QueuedMessage) {
		m.Reason, m.Error, m.DeadAt = list[i].Reason, list[i].Error, list[i].DeadAt
		list[i] = m
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(m millrace.QueuedMessage) bool { return m.Name == 0 }), nil
}

// message is what a dead letter tells of its end.
func (d *deadRecord) message() millrace.QueuedMessage {
	reason := millrace.ReasonAttempts
	if d.reason == deadBuried {
		reason = millrace.ReasonBuried
	}
	return millrace.QueuedMessage{Reason: reason, Error: d.err, DeadAt: milli(d.at)}
}
