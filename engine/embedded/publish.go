package embedded

import (
	"context"
	"encoding/binary"

	"github.com/millrace-dev/millrace"
)

// Publish commits a request's events to one lane, all of them or none.
func (e *Engine) Publish(ctx context.Context, lane int, c millrace.Commit) (millrace.Committed, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.Committed{}, err
	}
	defer e.leave()
	if err := e.space.refusal(sizeOf(&c)); err != nil {
		return millrace.Committed{}, err
	}
	// Most of what is remembered lies on disk: look there before taking the lock.
	known, err := l.recall(&c)
	if err != nil {
		return millrace.Committed{}, e.readFailed(err)
	}
	p := publication{lane: l, commit: &c, known: known}
	err = l.transition(ctx, c.Now, p.run)
	if err != nil {
		return millrace.Committed{}, err
	}
	return p.out, nil
}

func sizeOf(c *millrace.Commit) int {
	n := 0
	for i := range c.Events {
		n += len(c.Events[i].Body)
	}
	return n
}

// publication is one commit on its way into a lane.
type publication struct {
	lane   *lane
	commit *millrace.Commit
	known  recalled
	queues []*queue // of all events, one after the other
	out    millrace.Committed
}

// run reads and decides first; after the first write nothing can fail.
func (p *publication) run(g *group, now int64) error {
	l := p.lane
	if p.commit.Version < l.meta.version || !p.findQueues() {
		return &millrace.Error{Code: millrace.CodeStale, CurrentVersion: l.meta.version}
	}
	if err := l.recheck(&p.known, p.commit); err != nil {
		return l.engine.readFailed(err)
	}
	if p.commit.Version > l.meta.version {
		l.meta.version = p.commit.Version
		l.writeMeta(g)
	}
	l.rotate(g, &l.meta.digests, kindDigest, now, l.engine.window.Milliseconds())
	l.rotate(g, &l.meta.lasts, kindLast, now, keyWindow.Milliseconds())
	p.out = millrace.Committed{Stamps: make([]millrace.Stamp, len(p.commit.Events)), RecordedAt: milli(now)}
	p.writeAll(g, now)
	p.out.Due = l.agenda.until(now)
	return nil
}

func (p *publication) findQueues() bool {
	for i := range p.commit.Events {
		for _, name := range p.commit.Events[i].Queues {
			q := p.lane.queue(name)
			if q == nil {
				return false
			}
			p.queues = append(p.queues, q)
		}
	}
	return true
}

func (p *publication) writeAll(g *group, now int64) {
	var seqs []uint64
	var kept []body
	rest := p.queues
	for i := range p.commit.Events {
		ev := &p.commit.Events[i]
		queues := rest[:len(ev.Queues)]
		rest = rest[len(ev.Queues):]
		if first, ok := p.duplicate(i, ev); ok {
			p.out.Stamps[i] = first
			continue
		}
		stamped := p.lane.write(g, now, ev, queues, p.prev(i, ev))
		p.out.Stamps[i] = millrace.Stamp{Seq: stamped.seq, Prev: stamped.prev, Sinks: int(stamped.sinks)}
		p.remember(g, i, ev, stamped)
		if len(queues) > 0 {
			seqs = append(seqs, stamped.seq)
			kept = append(kept, body{prev: stamped.prev, recorded: now, blob: ev.Body})
		}
	}
	if len(seqs) > 0 {
		p.lane.cache.add(seqs, kept)
	}
}

// duplicate is the first answer to an event whose id is known.
func (p *publication) duplicate(i int, ev *millrace.CommitEvent) (millrace.Stamp, bool) {
	if !ev.Remembered {
		return millrace.Stamp{}, false
	}
	l := p.lane
	r, ok := l.digests.get(ev.Digest)
	if !ok {
		r, ok = p.known.events[i].digest, p.known.events[i].hasDigest
	}
	if !ok || r.gen+1 < l.meta.digests.no {
		return millrace.Stamp{}, false
	}
	l.meta.duplicates++
	l.dirty = true
	return millrace.Stamp{Seq: r.val.seq, Prev: r.val.prev, Sinks: int(r.val.sinks), Duplicate: true}, true
}

// prev is the last seq of the event's key.
func (p *publication) prev(i int, ev *millrace.CommitEvent) uint64 {
	if ev.Key == "" {
		return 0
	}
	k := &p.known.events[i]
	r, ok := p.lane.lasts.get(k.name)
	if !ok {
		r, ok = k.last, k.hasLast
	}
	if !ok || r.gen+1 < p.lane.meta.lasts.no {
		return 0
	}
	return r.val
}

// remember writes the event's id and, as the last of its key, its seq.
func (p *publication) remember(g *group, i int, ev *millrace.CommitEvent, s stamp) {
	l := p.lane
	if ev.Remembered {
		gen := l.meta.digests.no
		g.key = digestKey(g.key[:0], l.no, gen, ev.Digest)
		g.val = s.append(g.val[:0])
		g.set()
		l.digests.put(ev.Digest, remembered[stamp]{s, gen}, g.no, l.applied)
		l.filters.young.add(gen, ev.Digest)
	}
	if ev.Key != "" {
		name, gen := p.known.events[i].name, l.meta.lasts.no
		g.key = lastKey(g.key[:0], l.no, gen, name)
		g.val = binary.AppendUvarint(g.val[:0], s.seq)
		g.set()
		l.lasts.put(name, remembered[uint64]{s.seq, gen}, g.no, l.applied)
	}
}

// write stamps one event, stores its body once and a message in each queue.
func (l *lane) write(g *group, now int64, ev *millrace.CommitEvent, queues []*queue, prev uint64) stamp {
	l.meta.n = max(l.meta.n+1, (now-millrace.SeqEpoch)*millrace.SeqPerMilli)
	lanes := uint64(l.engine.identity.Lanes)
	s := stamp{seq: uint64(l.meta.n)*lanes + uint64(l.no), prev: prev, sinks: uint32(len(queues))}
	g.lastSeq = s.seq
	l.dirty = true
	l.meta.published++
	l.count(ev.Topic, now)
	if len(queues) == 0 {
		l.meta.unrouted++
		return s
	}
	l.storeBody(g, s.seq, body{prev: prev, recorded: now, blob: ev.Body}, len(queues))
	waiting := entry{seq: s.seq, size: uint32(len(ev.Body)), mark: newMark(0, len(queues) > 1)}
	g.val = waiting.append(g.val[:0])
	for _, q := range queues {
		g.key = messageKey(g.key[:0], l.no, q.uid, ev.Tenant, s.seq)
		g.set()
		l.append(g, q, ev.Tenant, waiting)
	}
	return s
}

func (l *lane) storeBody(g *group, seq uint64, b body, holders int) {
	g.key = seqKey(g.key[:0], kindBody, l.no, seq)
	g.val = b.append(g.val[:0])
	g.set()
	if holders > 1 {
		l.setHolders(g, seq, uint32(holders))
	}
}

func (l *lane) setHolders(g *group, seq uint64, n uint32) {
	g.key = seqKey(g.key[:0], kindHolders, l.no, seq)
	if n > 1 {
		g.val = binary.AppendUvarint(g.val[:0], uint64(n))
		g.set()
	} else {
		g.del()
	}
	l.holders.put(seq, n, g.no, l.applied)
}

// append adds a message to its tenant's facet.
func (l *lane) append(g *group, q *queue, tenant string, e entry) {
	f := q.facet(tenant)
	if f.next == 0 {
		f.next = e.seq - 1
	}
	f.tail.push(e)
	if f.tail.len() > tailLen && f.fatIn != g.no {
		f.fatIn = g.no
		g.fat = append(g.fat, f)
	}
	q.ready++
	q.ages.add(l.minute(e.seq))
	l.enterRing(g, q, f)
}

func (l *lane) minute(seq uint64) int64 {
	return millrace.MinuteOfSeq(seq, l.engine.identity.Lanes)
}

// writeMeta makes the lane's record part of the group even if nothing else is.
func (l *lane) writeMeta(g *group) {
	g.key = laneKey(g.key[:0], kindMeta, l.no)
	g.val = l.meta.append(g.val[:0])
	g.set()
}
