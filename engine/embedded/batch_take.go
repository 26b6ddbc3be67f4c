package embedded

import (
	"context"

	"github.com/millrace-dev/millrace"
)

// given is a batch that a take has given, before its events are read.
type given struct {
	batch    millrace.TakenBatch
	manifest manifest
	count    int
}

// Take gives ready batches to a node, by the ring.
func (e *Engine) Take(ctx context.Context, no int, t millrace.Take) (millrace.Taken, error) {
	l, err := e.enter(ctx, no)
	if err != nil {
		return millrace.Taken{}, err
	}
	defer e.leave()
	var out millrace.Taken
	var list []given
	err = l.transition(ctx, t.Now, func(g *group, now int64) error {
		list = l.takeBatches(g, &t, now)
		out.More = len(l.subRing) > 0
		l.subWanted = l.subWanted || !out.More
		out.Due = l.agenda.until(now)
		return nil
	})
	if err != nil {
		return millrace.Taken{}, err
	}
	for i := range list {
		events, err := l.readEvents(list[i].manifest, list[i].count)
		if err != nil {
			return millrace.Taken{}, millrace.Wrap(millrace.CodeOutcomeUnknown, e.readFailed(err), "the batches were taken but could not be read")
		}
		if events != nil {
			list[i].batch.Events = events
			out.Batches = append(out.Batches, list[i].batch)
		}
	}
	return out, nil
}

// takeBatches makes ready batches pending, one a turn.
func (l *lane) takeBatches(g *group, t *millrace.Take, now int64) (list []given) {
	for bytes := 0; len(l.subRing) > 0 && len(list) < t.Max; {
		s := l.subRing[0]
		if !s.servable() {
			l.leaveRing()
			continue
		}
		b := s.named(s.ready.first().seq)
		if bytes += int(b.bytes); bytes > t.MaxBytes && len(list) > 0 {
			break
		}
		l.leaveRing()
		l.send(g, b, t, now)
		l.admit(g, s)
		list = append(list, given{
			batch: millrace.TakenBatch{
				Subscription: s.uid.String(), Name: b.name(), Attempt: int(b.attempts), CreatedAt: milli(b.created), Format: b.format,
			},
			manifest: b.manifest(), count: int(b.count),
		})
	}
	return list
}

// send makes a ready batch pending.
func (l *lane) send(g *group, b *batch, t *millrace.Take, now int64) {
	l.takeOut(b)
	b.attempts++
	b.sending = &sending{t.Token, t.Node}
	l.put(b, batchPending, now+wholeMilli(t.For))
	l.touch(g, b)
}

// readEvents reads the events of a batch; nil if some are not there any more,
// because it was removed meanwhile.
func (l *lane) readEvents(m manifest, count int) ([]millrace.BatchEvent, error) {
	members, err := l.members(m)
	if err != nil || len(members) != count {
		return nil, err
	}
	picks := make([]pick, count)
	for i, e := range members {
		picks[i].seq = e.seq
	}
	if err := l.findBodies(picks); err != nil {
		return nil, err
	}
	events := make([]millrace.BatchEvent, count)
	for i := range picks {
		p := &picks[i]
		if !p.found {
			return nil, nil
		}
		events[i] = millrace.BatchEvent{Seq: p.body.seqOf(p.seq), Prev: p.body.prev, RecordedAt: milli(p.body.recorded), Body: p.body.blob}
	}
	return events, nil
}
