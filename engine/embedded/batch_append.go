package embedded

import (
	"context"

	"github.com/millrace-dev/millrace"
)

// appendTo appends an event to subscriptions: to the current batch of each.
func (l *lane) appendTo(g *group, subs []*subscription, now int64, e entry) {
	for _, s := range subs {
		if s.settings.Disabled {
			s.skipped++
			l.changeSub(s)
			continue
		}
		l.collect(g, s, now, e)
	}
}

// taking is how many of the subscriptions are not disabled.
func taking(subs []*subscription) (n int) {
	for _, s := range subs {
		if !s.settings.Disabled {
			n++
		}
	}
	return n
}

// collect appends an event to the current batch, or opens one.
func (l *lane) collect(g *group, s *subscription, now int64, e entry) {
	if b := s.current; b != nil && int(b.bytes)+int(e.size) > s.settings.MaxBytes {
		l.makeReady(g, b)
	}
	if s.current == nil {
		s.current = newBatch(s, e.seq, batchHeader{created: now, format: s.settings.Format})
		s.batches = append(s.batches, s.current)
		l.put(s.current, batchEarly, now+wholeMilli(s.settings.Timeout))
	}
	b := s.current
	if b.fresh == nil {
		b.fresh = &fresh{}
	}
	b.fresh.entries = append(b.fresh.entries, e)
	b.count++
	b.bytes += int32(e.size)
	s.queued++
	l.touch(g, b)
	if int(b.count) >= s.settings.MaxEvents {
		l.makeReady(g, b)
	}
}

// injectBatch puts events that were stamped before into one subscription.
func (e *Engine) injectBatch(ctx context.Context, no int, in *millrace.Inject) error {
	return e.onSub(ctx, no, in.Subscription, in.Now, func(l *lane, s *subscription, g *group, now int64) error {
		subs := []*subscription{s}
		var names []uint64
		var kept []body
		for i := range in.Events {
			ev := &in.Events[i]
			name := l.nextSeq(g, now)
			if !s.settings.Disabled {
				names, kept = append(names, name), append(kept, l.storeInjected(g, name, ev))
			}
			l.appendTo(g, subs, now, entry{seq: name, size: uint32(len(ev.Body))})
		}
		l.cache.add(names, kept, l.appliedSeq)
		return nil
	})
}
