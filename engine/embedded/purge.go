package embedded

import (
	"context"

	"github.com/millrace-dev/millrace"
)

// Purge removes what waits or is delayed, of one tenant or of all.
func (e *Engine) Purge(ctx context.Context, no int, p millrace.Purge) (done, left int, err error) {
	err = e.onQueue(ctx, no, p.Queue, p.Now, func(l *lane, q *queue, g *group, now int64) error {
		w := settling{lane: l, queue: q, group: g, now: now}
		defer w.end()
		facets := q.facets
		if p.Tenant != "" {
			facets = map[string]*facet{}
			if f := q.facets[p.Tenant]; f != nil {
				facets[p.Tenant] = f
			}
		}
		var err error
		if done, err = w.purge(facets, p.Max); err != nil {
			return e.readFailed(err)
		}
		left = int(q.ready + q.delayed)
		if p.Tenant != "" {
			left = 0
			for _, f := range facets {
				left = int(f.waiting()) + f.delayed
			}
		}
		return nil
	})
	return done, left, err
}

// purge drops up to most messages of facets: first what waits, so that what a
// delayed one blocks does not enter the ring only to be dropped.
func (w *settling) purge(facets map[string]*facet, most int) (done int, err error) {
	for _, f := range facets {
		if done >= most {
			break
		}
		n, err := w.purgeWaiting(f, most-done)
		if done += n; err != nil {
			return done, err
		}
		w.queue.forget(f)
	}
	return done + w.purgeDelayed(facets, min(most-done, delayedOf(w.queue, facets))), nil
}

// delayedOf is how many messages of one facet, or of all, are delayed.
func delayedOf(q *queue, facets map[string]*facet) int {
	if len(facets) != 1 {
		return int(q.delayed)
	}
	n := 0
	for _, f := range facets {
		n = f.delayed
	}
	return n
}

func (w *settling) purgeDelayed(facets map[string]*facet, most int) (done int) {
	q, g, l := w.queue, w.group, w.lane
	for seq, h := range q.out {
		if done >= most {
			break
		}
		if h.state != stateDelayed || facets[h.facet.tenant] != h.facet {
			continue
		}
		l.agenda.remove(h.due)
		g.key = queueSeqKey(g.key[:0], kindDelayed, l.no, q.uid, seq)
		g.del()
		q.delayed--
		h.facet.delayed--
		w.drop(h.entry(seq), h.facet, h.place)
		done++
	}
	return done
}

// purgeWaiting drops up to most waiting messages of a facet.
func (w *settling) purgeWaiting(f *facet, most int) (done int, err error) {
	p := picker{lane: w.lane, queue: w.queue}
	defer p.close()
	for ; done < most && f.plain() > 0; done++ {
		if f.needsDisk() {
			if err := p.refill(f); err != nil {
				return done, err
			}
		}
		w.dropFirst(f)
	}
	if f.lines == nil || done == most {
		return done, nil
	}
	n, err := w.purgeLines(f, most-done)
	return done + n, err
}

// exit is a message that left the queue or its lease.
func (q *queue) exit(seq uint64, reason string) millrace.Exit {
	return millrace.Exit{Queue: q.uid.String(), Name: seq, Reason: reason}
}

// dropFirst drops the first plain message of a facet, which must be in memory.
func (w *settling) dropFirst(f *facet) (seq uint64) {
	e := f.take()
	w.queue.depart(f)
	w.abandon(e)
	w.eraseRecord(e.seq, f, nil)
	w.release(e)
	w.countDropped()
	return e.seq
}

// dropOldest makes room for a message that is over the queue's limit.
func (l *lane) dropOldest(g *group, q *queue, f *facet, now int64) {
	if f.plain() == 0 {
		return // an ordered queue drops nothing: it would be a gap
	}
	w := settling{lane: l, queue: q, group: g, now: now, freed: l.freed}
	if f.needsDisk() {
		p := picker{lane: l, queue: q}
		err := p.refill(f)
		p.close()
		if err != nil {
			l.engine.fail(err)
			return
		}
	}
	l.dropped = append(l.dropped, q.exit(w.dropFirst(f), millrace.ReasonMaxLength))
	l.freed = w.freed
}

// purgeLines drops up to most messages that wait in a facet's lines, line by line.
func (w *settling) purgeLines(f *facet, most int) (done int, err error) {
	s := f.lines
	for key := range s.keys {
		if done >= most {
			break
		}
		for done < most {
			dropped, err := w.purgeLine(f, key)
			if err != nil {
				return done, err
			}
			if !dropped {
				break
			}
			done++
		}
	}
	return done, nil
}

// purgeLine drops the first message that waits in a line, if there is one.
func (w *settling) purgeLine(f *facet, key uint64) (dropped bool, err error) {
	s, l, q := f.lines, w.lane, w.queue
	if s == nil {
		return false, nil // the last line is gone
	}
	n, there := s.keys[key]
	switch {
	case !there || n.blocked() && n.behind == 0:
		return false, nil
	case !n.blocked():
		w.dropLined(f, waiter{n.entry(), s.block(key, n)})
		l.advance(q, f, key, &w.lines)
		return true, nil
	}
	x, err := l.nextOf(q, f, key, n, &w.lines)
	if err != nil {
		return false, err
	}
	n.behind--
	if !x.cut {
		n.at = chainedAfter(x.seq, 0)
	}
	s.keys[key] = n
	s.waiting--
	w.dropLined(f, x)
	return true, nil
}

// dropLined drops a message of a line, which counts as waiting no more.
func (w *settling) dropLined(f *facet, x waiter) {
	w.queue.depart(f)
	w.abandon(x.entry)
	w.eraseRecord(x.seq, f, &x.place)
	w.release(x.entry)
	w.countDropped()
}
