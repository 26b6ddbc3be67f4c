package embedded

import (
	"context"
	"encoding/binary"

	"github.com/millrace-dev/millrace"
)

// opening is an operation that begins with its message.
type opening struct {
	*millrace.Opening
	tenant string
	name   uint64 // of the message
	number uint64
}

// begin writes an operation that is queued.
func (l *lane) begin(g *group, q *queue, now int64, o opening) {
	r := operationRecord{
		uid: q.uid, secret: o.Secret, queued: now, queue: o.Name, tenant: o.tenant, kind: o.Type, subject: o.Subject, event: o.Event, payload: o.Payload,
	}
	g.touched = append(g.touched, o.number)
	g.key = seqKey(g.key[:0], kindOperation, l.no, o.number)
	g.val = r.append(g.val[:0])
	g.set()
	if o.name != o.number {
		l.writeState(g, o.number, &operationState{message: o.name})
	}
	l.began[q.uid] = append(l.began[q.uid], o.number)
	if o.Subject != "" {
		g.key = subjectKey(g.key[:0], l.no, o.Subject, o.number)
		g.val = binary.BigEndian.AppendUint64(g.val[:0], uint64(q.uid))
		g.set()
	}
}

// milliOf is when the lane's clock gave a number, and when it does not run ahead, what the time was then.
func (l *lane) milliOf(number uint64) int64 {
	return int64(number/uint64(l.engine.identity.Lanes)/millrace.SeqPerMilli) + millrace.SeqEpoch
}

// markOf is the mark of a new message whose operation has its name: by how much that runs ahead of now.
// One that runs too far ahead needs a ticket.
func (l *lane) markOf(name uint64, now int64) (mark uint32, tooFar bool) {
	drift := l.milliOf(name) - now
	if drift > maxDrift {
		return 0, true
	}
	return uint32(drift) << driftShift, false
}

// readyAt is when a message with a mark and no ticket could be leased for the first time.
func (l *lane) readyAt(e entry) int64 {
	return l.milliOf(e.seq) - int64(e.mark>>driftShift&maxDrift)
}

func (l *lane) writeTicket(g *group, q *queue, name uint64, t *ticket) {
	g.key = queueSeqKey(g.key[:0], kindTicket, l.no, q.uid, name)
	g.val = t.append(g.val[:0])
	g.set()
}

// ticketOf is the ticket of a message, nil if it has none.
func (l *lane) ticketOf(u uid, name uint64) (*ticket, error) {
	value, err := l.overlay.get(queueSeqKey(nil, kindTicket, l.no, u, name))
	if err != nil || value == nil {
		return nil, err
	}
	t, err := decodeTicket(value)
	return &t, err
}

// openFor begins the operation of a new message and returns what its mark says of it. The first operation of an
// event has the name of its messages as its number, each further one a number of its own.
func (l *lane) openFor(g *group, q *queue, now int64, tenant string, name uint64, openings []millrace.Opening, i int) uint32 {
	o := opening{Opening: &openings[i], tenant: tenant, name: name, number: name}
	mark, tooFar := l.markOf(name, now)
	if i > 0 {
		o.number = l.nextSeq(g, now)
	}
	l.begin(g, q, now, o)
	if i == 0 && !tooFar {
		return mark
	}
	l.writeTicket(g, q, name, &ticket{number: o.number, secret: o.Secret, ready: now})
	return markTicket
}

// openingOf is which of an event's openings is for a queue; negative if none is.
func openingOf(openings []millrace.Opening, queue string) int {
	for i := range openings {
		if openings[i].Queue == queue {
			return i
		}
	}
	return -1
}

// errNoOpening refuses a message of a tracked queue that would have no operation.
func errNoOpening() error {
	return millrace.Errorf(millrace.CodeInvalid, "a message of a tracked queue needs an opening")
}

// Start puts one event into one tracked queue, with an operation.
func (e *Engine) Start(ctx context.Context, no int, s millrace.Start) (millrace.Started, error) {
	full := e.space.refusal(len(s.Body) + len(s.Opening.Payload))
	var out millrace.Started
	err := e.onQueue(ctx, no, s.Opening.Queue, s.Now, func(l *lane, q *queue, g *group, now int64) error {
		if !q.settings.Tracked {
			return millrace.Errorf(millrace.CodeNotTracked, "the queue is not tracked")
		}
		if s.Delay > 0 && q.settings.Ordered {
			return millrace.Errorf(millrace.CodeInvalid, "a message of an ordered queue cannot be delayed")
		}
		first, err := l.opened(&s, now)
		if err != nil {
			return err
		}
		if first != nil {
			out = millrace.Started{ID: first.answer().ID, Status: first.state.shown(), Existing: true, Due: l.agenda.until(now)}
			return nil
		}
		if full != nil {
			return full
		}
		if q.bounded() && q.waitingOf(s.Tenant) >= int64(q.settings.MaxLength) {
			return errNoRoom(q)
		}
		out = l.start(g, q, &s, now)
		return nil
	})
	return out, err
}

// opened is the operation of the same dedupe that is open, nil if there is none.
func (l *lane) opened(s *millrace.Start, now int64) (*tracked, error) {
	if !s.Deduped {
		return nil, nil
	}
	value, err := l.overlay.get(dedupeKey(nil, l.no, s.Dedupe))
	if err != nil {
		return nil, l.engine.readFailed(err)
	}
	if len(value) != 8 {
		return nil, nil
	}
	return l.find(binary.BigEndian.Uint64(value), now)
}

// start stores a message and begins its operation.
func (l *lane) start(g *group, q *queue, s *millrace.Start, now int64) millrace.Started {
	name := l.nextSeq(g, now)
	secret := s.Opening.Secret
	b := body{recorded: now, blob: s.Body, secret: &secret}
	l.meta.published++
	l.storeBody(g, name, b, 1)
	l.begin(g, q, now, opening{Opening: &s.Opening, tenant: s.Tenant, name: name, number: name})
	e := entry{seq: name, size: uint32(len(s.Body))}
	if ready := now + max(0, wholeMilli(s.Delay)); ready > now {
		e.mark = l.markStarted(g, q, s, name, now, ready)
		l.appendDelayed(g, q, s.Tenant, e, ready)
	} else {
		e.mark = l.markStarted(g, q, s, name, now, now)
		l.appendBounded(g, q, s.Tenant, s.Key, e, now)
	}
	l.cache.add([]uint64{name}, []body{b}, l.appliedSeq)
	l.dropFreed()
	out := millrace.Started{
		ID: millrace.OperationID{Number: name, Secret: secret}, Status: millrace.OperationQueued, Dropped: l.dropped, Due: l.agenda.until(now),
	}
	l.dropped = nil
	return out
}

// markStarted is the mark of a message that was started, and writes its ticket if it needs one.
func (l *lane) markStarted(g *group, q *queue, s *millrace.Start, name uint64, now, ready int64) uint32 {
	mark, tooFar := l.markOf(name, now)
	if !tooFar && !s.Deduped && ready == now {
		return mark
	}
	l.writeTicket(g, q, name, &ticket{number: name, secret: s.Opening.Secret, ready: ready, deduped: s.Deduped, dedupe: s.Dedupe})
	if s.Deduped {
		g.key = dedupeKey(g.key[:0], l.no, s.Dedupe)
		g.val = binary.BigEndian.AppendUint64(g.val[:0], name)
		g.set()
	}
	return markTicket
}

// appendDelayed adds a new message that waits for its time.
func (l *lane) appendDelayed(g *group, q *queue, tenant string, e entry, due int64) {
	f := q.facet(tenant)
	q.ages.add(l.minute(e.seq))
	l.writeMessage(g, q, f, e, nil, 0)
	l.delay(g, q, e.seq, held{facet: f, mark: e.mark, size: e.size}, due)
}
