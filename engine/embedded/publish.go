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
		n += payloads(c.Events[i].Operations)
	}
	return n
}

// payloads is the size of what operations keep that are opened.
func payloads(list []millrace.Opening) int {
	n := 0
	for i := range list {
		n += len(list[i].Payload)
	}
	return n
}

// publication is one commit on its way into a lane.
type publication struct {
	lane   *lane
	commit *millrace.Commit
	known  recalled
	young  uint32          // the generation of ids that this commit writes
	queues []*queue        // of all events, one after the other
	subs   []*subscription // likewise
	out    millrace.Committed
}

// run reads and decides first; after the first write nothing can fail.
func (p *publication) run(g *group, now int64) error {
	l := p.lane
	if p.commit.Version < l.meta.version || !p.findSinks() {
		return &millrace.Error{Code: millrace.CodeStale, CurrentVersion: l.meta.version}
	}
	if err := l.recheck(&p.known, p.commit); err != nil {
		return l.engine.readFailed(err)
	}
	if err := p.openings(); err != nil {
		return err
	}
	p.young = l.meta.digests.next(now, l.engine.window.Milliseconds()).no
	if err := p.room(); err != nil {
		return err
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

func (p *publication) findSinks() bool {
	for i := range p.commit.Events {
		for _, name := range p.commit.Events[i].Batches {
			s := p.lane.subscription(name)
			if s == nil {
				return false
			}
			p.subs = append(p.subs, s)
		}
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

// openings refuses a commit with a message that has no operation though its queue is tracked. Few queues are: then it costs nothing.
func (p *publication) openings() error {
	rest := p.queues
	for i := range p.commit.Events {
		ev := &p.commit.Events[i]
		for j, q := range rest[:len(ev.Queues)] {
			if q.settings.Tracked && ev.Delay <= 0 && openingOf(ev.Operations, ev.Queues[j]) < 0 {
				return errNoOpening()
			}
		}
		rest = rest[len(ev.Queues):]
	}
	return nil
}

func (p *publication) writeAll(g *group, now int64) {
	var seqs []uint64
	var kept []body
	queues, subs := p.queues, p.subs
	for i := range p.commit.Events {
		ev := &p.commit.Events[i]
		to := sinks{queues[:len(ev.Queues)], subs[:len(ev.Batches)]}
		queues, subs = queues[len(ev.Queues):], subs[len(ev.Batches):]
		if done := p.withoutSinks(g, now, i, ev); done {
			continue
		}
		stamped := p.lane.write(g, now, ev, to, p.prev(i, ev))
		p.out.Stamps[i] = stamped.answer(false)
		p.remember(g, i, ev, stamped)
		if stamped.sinks > 0 {
			seqs = append(seqs, stamped.seq)
			kept = append(kept, bodyOf(ev, stamped.prev, now))
		}
	}
	if len(seqs) > 0 {
		p.lane.cache.add(seqs, kept, p.lane.appliedSeq)
	}
	p.out.Dropped, p.lane.dropped = p.lane.dropped, nil
	p.lane.dropFreed()
}

// dropFreed forgets the bodies that the transition has freed.
func (l *lane) dropFreed() {
	l.cache.drop(l.freed)
	l.freed = l.freed[:0]
}

// withoutSinks deals with an event that goes to no sink now: a duplicate, one
// that is delayed, or a delayed one that is gone. It takes out the delayed
// event that this one is.
func (p *publication) withoutSinks(g *group, now int64, i int, ev *millrace.CommitEvent) bool {
	l, out := p.lane, &p.out.Stamps[i]
	if ev.From != 0 {
		h := l.held[ev.From]
		if h == nil {
			*out = millrace.Stamp{Gone: true}
			return true
		}
		l.takeHeld(g, h)
		return false
	}
	if first, ok := p.first(i, ev); ok {
		l.meta.duplicates++
		l.dirty = true
		*out = first.answer(true)
		return true
	}
	if ev.Delay <= 0 {
		return false
	}
	*out = l.hold(g, now, ev).answer(false)
	return true
}

// first is the stamp of an event whose id is known.
func (p *publication) first(i int, ev *millrace.CommitEvent) (stamp, bool) {
	if !ev.Remembered || ev.From != 0 {
		return stamp{}, false
	}
	l := p.lane
	if len(l.heldDigests) > 0 {
		if h := l.heldDigests[ev.Digest]; h != nil {
			return stamp{due: h.dueAt}, true
		}
	}
	r, ok := l.digests.get(ev.Digest)
	if !ok {
		r, ok = p.known.events[i].digest, p.known.events[i].hasDigest
	}
	if !ok || r.gen+1 < p.young {
		return stamp{}, false
	}
	return r.val, true
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
	if ev.Remembered && ev.From == 0 {
		l.rememberDigest(g, ev.Digest, s)
	}
	if ev.Key != "" {
		name, gen := p.known.events[i].name, l.meta.lasts.no
		g.key = lastKey(g.key[:0], l.no, gen, name)
		g.val = binary.AppendUvarint(g.val[:0], s.seq)
		g.set()
		l.lasts.put(name, remembered[uint64]{s.seq, gen}, g.no, l.applied)
	}
}

func (l *lane) rememberDigest(g *group, d millrace.Digest, s stamp) {
	gen := l.meta.digests.no
	g.key = digestKey(g.key[:0], l.no, gen, d)
	g.val = s.append(g.val[:0])
	g.set()
	l.digests.put(d, remembered[stamp]{s, gen}, g.no, l.applied)
	l.filters.young.add(gen, d)
}

// nextSeq is the lane's next number.
func (l *lane) nextSeq(g *group, now int64) uint64 {
	l.meta.n = max(l.meta.n+1, (now-millrace.SeqEpoch)*millrace.SeqPerMilli)
	l.dirty = true
	g.lastSeq = uint64(l.meta.n)*uint64(l.engine.identity.Lanes) + uint64(l.no)
	return g.lastSeq
}

// sinks are where an event goes.
type sinks struct {
	queues []*queue
	subs   []*subscription
}

// write stamps one event, stores its body once, and a message in each queue and
// in the current batch of each subscription.
func (l *lane) write(g *group, now int64, ev *millrace.CommitEvent, to sinks, prev uint64) stamp {
	holders := len(to.queues) + taking(to.subs)
	s := stamp{seq: l.nextSeq(g, now), prev: prev, sinks: uint32(holders)}
	l.meta.published++
	l.count(ev.Topic, now)
	if l.engine.live.on.Load() {
		l.show(g, now, ev, s)
	}
	if holders == 0 {
		l.meta.unrouted++
		if g.empty() {
			l.writeMeta(g) // its seq must be spent for good when it is answered
		}
	} else {
		l.storeBody(g, s.seq, bodyOf(ev, prev, now), holders)
	}
	waiting := entry{seq: s.seq, size: uint32(len(ev.Body)), mark: newMark(0, holders > 1)}
	l.appendTo(g, to.subs, now, waiting)
	for i, q := range to.queues {
		e := waiting
		if q.settings.Tracked {
			e.mark |= l.openFor(g, q, now, ev.Tenant, s.seq, ev.Operations, openingOf(ev.Operations, ev.Queues[i]))
		}
		l.appendBounded(g, q, ev.Tenant, ev.Key, e, now)
	}
	return s
}

// bodyOf is the body of an event that was just stamped.
func bodyOf(ev *millrace.CommitEvent, prev uint64, now int64) body {
	b := body{prev: prev, recorded: now, blob: ev.Body}
	if len(ev.Operations) > 0 {
		secret := ev.Operations[0].Secret
		b.secret = &secret
	}
	return b
}

// appendBounded adds a new message, and drops the tenant's oldest if the queue wants that.
func (l *lane) appendBounded(g *group, q *queue, tenant, key string, e entry, now int64) {
	f := l.append(g, q, tenant, key, e)
	if most := q.settings.MaxLength; most > 0 && q.settings.DropOldest && f.waiting() > int64(most) {
		l.dropOldest(g, q, f, now)
	}
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

// append adds a new message to its tenant's facet, in an ordered queue to the
// line of its key, and writes its record.
func (l *lane) append(g *group, q *queue, tenant, key string, e entry) *facet {
	f := q.facet(tenant)
	q.arrive(f)
	q.ages.add(l.minute(e.seq))
	if q.settings.Ordered && key != "" {
		at, held := f.allLines().join(q, hashKey(key), e)
		l.writeMessage(g, q, f, e, &at, 0)
		if !held {
			g.show()
		}
	} else {
		l.writeMessage(g, q, f, e, nil, 0)
		f.append(g, e)
	}
	l.enterRing(g, q, f)
	return f
}

// append adds a new message to the facet's tail.
func (f *facet) append(g *group, e entry) {
	if f.next == 0 {
		f.next = e.seq - 1
	}
	f.tail.push(e)
	if f.tail.len() > tailLen && f.fatIn != g.no {
		f.fatIn = g.no
		g.fat = append(g.fat, f)
	}
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
