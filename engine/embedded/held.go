package embedded

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// handOutAgain is after how long a delayed event that is due, and that nobody
// has published, is handed out again.
const handOutAgain = 10 * time.Second

// heldEvent is a delayed event that waits: what the index keeps of it. Its id
// and its body are on disk.
type heldEvent struct {
	due        due // when it is handed out next
	dueAt      int64
	size       uint32
	remembered bool
	digest     millrace.Digest
}

func (h *heldEvent) name() uint64 { return h.due.seq }

// hold stores a delayed event whole.
func (l *lane) hold(g *group, now int64, ev *millrace.CommitEvent) stamp {
	at := now + wholeMilli(ev.Delay)
	r := heldRecord{due: at, next: at, size: uint32(len(ev.Body)), remembered: ev.Remembered, tenant: ev.Tenant, id: ev.ID}
	if ev.Remembered {
		r.digest = ev.Digest
	}
	name := l.nextSeq(g, now)
	l.writeHeld(g, name, &r)
	g.key, g.val = heldIDKey(g.key[:0], l.no, ev.Tenant, ev.ID, name), g.val[:0]
	g.set()
	g.key = seqKey(g.key[:0], kindHeldBody, l.no, name)
	g.val = append(g.val[:0], ev.Body...)
	g.set()
	l.keepHeld(name, &r)
	return stamp{due: at}
}

func (l *lane) writeHeld(g *group, name uint64, r *heldRecord) {
	g.key = seqKey(g.key[:0], kindHeld, l.no, name)
	g.val = r.append(g.val[:0])
	g.set()
}

// keepHeld notes a delayed event in the index.
func (l *lane) keepHeld(name uint64, r *heldRecord) {
	h := &heldEvent{dueAt: r.due, size: r.size, remembered: r.remembered, digest: r.digest}
	h.due = due{kind: dueEvent, at: r.next, seq: name, pos: -1}
	l.held[name] = h
	if h.remembered {
		l.heldDigests[h.digest] = h
	}
	l.agenda.push(&h.due)
}

// heldRecord reads what the disk has of a delayed event.
func (l *lane) heldRecord(name uint64) (*heldRecord, error) {
	value, err := l.overlay.get(seqKey(nil, kindHeld, l.no, name))
	if err != nil {
		return nil, err
	}
	r, err := decodeHeld(value)
	return &r, err
}

// takeHeld takes a delayed event out; its digest is remembered on, for a window
// at least.
func (l *lane) takeHeld(g *group, h *heldEvent) {
	r, err := l.heldRecord(h.name())
	if err != nil {
		l.engine.fail(err)
		return
	}
	for _, kind := range []byte{kindHeld, kindHeldBody} {
		g.key = seqKey(g.key[:0], kind, l.no, h.name())
		g.del()
	}
	g.key = heldIDKey(g.key[:0], l.no, r.tenant, r.id, h.name())
	g.del()
	delete(l.held, h.name())
	l.agenda.remove(&h.due)
	if h.remembered {
		delete(l.heldDigests, h.digest)
		l.rememberDigest(g, h.digest, stamp{due: h.dueAt})
	}
}

// handOut hands a delayed event out that is due, if its body fits into the
// step. It stays held.
func (s *stepping) handOut(h *heldEvent) bool {
	if s.bytes += int64(h.size); len(s.events) > 0 && s.bytes > millrace.MaxRequestSize {
		return false
	}
	l := s.lane
	r, err := l.heldRecord(h.name())
	if err != nil {
		l.engine.fail(err)
		return false
	}
	r.next = s.now + handOutAgain.Milliseconds()
	l.writeHeld(s.group, h.name(), r)
	l.agenda.move(&h.due, r.next)
	s.events = append(s.events, h)
	return true
}

// readHeld reads the bodies of delayed events. One that is gone by now is left out.
func (l *lane) readHeld(events []*heldEvent) ([]millrace.HeldEvent, error) {
	var list []millrace.HeldEvent
	for _, h := range events {
		body, err := l.heldBody(h.name())
		if err != nil {
			return nil, err
		}
		if body != nil {
			list = append(list, millrace.HeldEvent{Name: h.name(), DueAt: milli(h.dueAt), Body: body})
		}
	}
	return list, nil
}

// heldBody is the body of a delayed event that is durable, nil if it is gone.
func (l *lane) heldBody(name uint64) ([]byte, error) {
	disk := overlay{db: l.engine.db}
	return disk.get(seqKey(nil, kindHeldBody, l.no, name))
}

// Held returns the delayed event that has an id and waits in a lane.
func (e *Engine) Held(ctx context.Context, lane int, tenant, id string) (millrace.HeldEvent, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.HeldEvent{}, err
	}
	defer e.leave()
	var h *heldEvent
	err = l.do(ctx, func(*group) (err error) {
		h, err = l.findHeld(tenant, id)
		return err
	})
	if err != nil {
		return millrace.HeldEvent{}, err
	}
	list, err := l.readHeld([]*heldEvent{h})
	if err != nil {
		return millrace.HeldEvent{}, e.readFailed(err)
	}
	if len(list) == 0 {
		return millrace.HeldEvent{}, errNotHeld()
	}
	return list[0], nil
}

// CancelHeld takes back the delayed event that has an id.
func (e *Engine) CancelHeld(ctx context.Context, lane int, tenant, id string) error {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return err
	}
	defer e.leave()
	return l.do(ctx, func(g *group) error {
		h, err := l.findHeld(tenant, id)
		if err != nil {
			return err
		}
		l.rotate(g, &l.meta.digests, kindDigest, l.meta.t, l.engine.window.Milliseconds())
		l.takeHeld(g, h)
		return nil
	})
}

func errNotHeld() error {
	return millrace.Errorf(millrace.CodeNotFound, "no delayed event with this id waits in the lane")
}

// findHeld is the delayed event with an id that was held last.
func (l *lane) findHeld(tenant, id string) (*heldEvent, error) {
	it, err := l.overlay.prefixed(heldIDs(nil, l.no, tenant, id))
	if err != nil {
		return nil, l.engine.readFailed(err)
	}
	var h *heldEvent
	if it.Last() {
		h = l.held[lastNumber(it.Key())]
	}
	if err := it.Close(); err != nil {
		return nil, l.engine.readFailed(err)
	}
	if h == nil {
		return nil, errNotHeld()
	}
	return h, nil
}

func (l *lane) loadHeld(db *pebble.DB) error {
	return scan(db, laneKey(nil, kindHeld, l.no), func(key, value []byte) error {
		r, err := decodeHeld(value)
		if err != nil {
			return err
		}
		l.keepHeld(binary.BigEndian.Uint64(slices.Clone(key[2:])), &r)
		return nil
	})
}
