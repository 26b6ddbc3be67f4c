package embedded

import (
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// Take gives ready batches to a node, by the ring.
func (e *Engine) Take(ctx context.Context, no int, t millrace.Take) (millrace.Taken, error) {
	l, err := e.enter(ctx, no)
	if err != nil {
		return millrace.Taken{}, err
	}
	defer e.leave()
	var out millrace.Taken
	var where []manifest
	err = l.transition(ctx, t.Now, func(g *group, now int64) error {
		out.Batches, where = l.takeBatches(g, &t, now)
		out.More = len(l.subRing) > 0
		l.subWanted = l.subWanted || !out.More
		out.Due = l.agenda.until(now)
		return nil
	})
	if err != nil {
		return millrace.Taken{}, err
	}
	events, err := l.readEvents(where)
	if err != nil {
		return millrace.Taken{}, millrace.Wrap(millrace.CodeOutcomeUnknown, e.readFailed(err), "the batches were taken but could not be read")
	}
	for i := range out.Batches {
		out.Batches[i].Events = events[i]
	}
	out.Batches = slices.DeleteFunc(out.Batches, func(b millrace.TakenBatch) bool { return b.Events == nil })
	return out, nil
}

// takeBatches makes ready batches pending, one a turn.
func (l *lane) takeBatches(g *group, t *millrace.Take, now int64) (list []millrace.TakenBatch, where []manifest) {
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
		list = append(list, millrace.TakenBatch{
			Subscription: s.uid.String(), Version: s.settings.Version, Name: b.name(), Attempt: int(b.attempts),
			CreatedAt: milli(b.created), Format: b.format,
		})
		where = append(where, b.manifest())
	}
	return list, where
}

// send makes a ready batch pending.
func (l *lane) send(g *group, b *batch, t *millrace.Take, now int64) {
	l.takeOut(b)
	b.attempts++
	b.sending = &sending{t.Token, t.Node}
	l.put(b, batchPending, now+wholeMilli(t.For))
	l.touch(g, b)
}

// readEvents reads the events of batches; nil for one of which some are not
// there any more, because it was removed meanwhile.
func (l *lane) readEvents(batches []manifest) ([][]millrace.BatchEvent, error) {
	total, counts := 0, make([]int, len(batches))
	for _, m := range batches {
		total += m.count
	}
	picks := make([]pick, 0, total)
	for i, m := range batches {
		members, err := l.members(m)
		if err != nil {
			return nil, err
		}
		if len(members) != m.count {
			continue
		}
		counts[i] = len(members)
		for _, e := range members {
			picks = append(picks, pick{seq: e.seq})
		}
	}
	if err := l.findBodies(picks); err != nil {
		return nil, err
	}
	all := make([][]millrace.BatchEvent, len(batches))
	for i, n := range counts {
		all[i] = eventsOf(picks[:n])
		picks = picks[n:]
	}
	return all, nil
}

// eventsOf is the events of a batch, nil if some were not found.
func eventsOf(picks []pick) []millrace.BatchEvent {
	if len(picks) == 0 {
		return nil
	}
	events := make([]millrace.BatchEvent, 0, len(picks))
	for i := range picks {
		p := &picks[i]
		if !p.found {
			return nil
		}
		events = append(events, millrace.BatchEvent{
			Seq: p.body.seqOf(p.seq), Prev: p.body.prev, RecordedAt: milli(p.body.recorded), Body: p.body.blob,
		})
	}
	return events
}
