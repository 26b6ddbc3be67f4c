package embedded

import (
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// Inject puts events that were stamped before into one queue or one
// subscription, each under a name of the lane.
func (e *Engine) Inject(ctx context.Context, no int, in millrace.Inject) error {
	size := 0
	for i := range in.Events {
		size += len(in.Events[i].Body)
		if o := in.Events[i].Opening; o != nil {
			size += len(o.Payload)
		}
	}
	if err := e.space.refusal(size); err != nil {
		return err
	}
	if in.Subscription != "" {
		return e.injectBatch(ctx, no, &in)
	}
	return e.onQueue(ctx, no, in.Queue, in.Now, func(l *lane, q *queue, g *group, now int64) error {
		if q.settings.Tracked && slices.ContainsFunc(in.Events, func(ev millrace.InjectEvent) bool { return ev.Opening == nil }) {
			return errNoOpening()
		}
		names, kept := make([]uint64, len(in.Events)), make([]body, len(in.Events))
		for i := range in.Events {
			names[i], kept[i] = l.inject(g, q, now, &in.Events[i])
		}
		l.cache.add(names, kept, l.appliedSeq)
		return nil
	})
}

func (l *lane) inject(g *group, q *queue, now int64, ev *millrace.InjectEvent) (uint64, body) {
	name := l.nextSeq(g, now)
	b := l.storeInjected(g, name, ev)
	x := entry{seq: name, size: uint32(len(ev.Body))}
	if q.settings.Tracked {
		x.mark = l.openFor(g, q, now, ev.Tenant, name, []millrace.Opening{*ev.Opening}, 0)
	}
	l.append(g, q, ev.Tenant, ev.Key, x)
	return name, b
}

// storeInjected stores an event that has its stamps under a name of the lane.
func (l *lane) storeInjected(g *group, name uint64, ev *millrace.InjectEvent) body {
	b := body{prev: ev.Prev, recorded: ev.RecordedAt.UnixMilli(), blob: ev.Body}
	if ev.Seq != name {
		b.seq = ev.Seq
	}
	if ev.Opening != nil {
		secret := ev.Opening.Secret
		b.secret = &secret
	}
	l.storeBody(g, name, b, 1)
	return b
}
