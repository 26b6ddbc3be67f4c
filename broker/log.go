package broker

import (
	"context"
	"log/slog"
	"slices"

	"github.com/millrace-dev/millrace"
)

// Every way out of a queue is logged at debug, here and nowhere else: one line a
// message with its queue and the reason, or one line with a count where a call
// takes away more than anybody would read. A line names the message by the id
// that receipts and dead letters show. It names the event too where the event is
// at hand; elsewhere its body would have to be read for the log alone.
//
// Whoever calls these on a hot path asks logging first, so that nothing is
// prepared for a log that nobody keeps.

// logging reports whether ways out are logged.
func (b *Broker) logging(ctx context.Context) bool { return b.log.Enabled(ctx, slog.LevelDebug) }

// What a message becomes that is out: gone for good, a dead letter, or waiting again.
const (
	gone    = "gone"
	dead    = "dead"
	waiting = "waiting"
)

// logOne logs one message that is out.
func (b *Broker) logOne(ctx context.Context, queue string, name uint64, became, reason string) {
	b.log.DebugContext(ctx, "out of queue", "queue", queue, "message", millrace.MessageID(name), "became", became, "reason", reason)
}

// logSettled logs what a settlement ended for good.
func (b *Broker) logSettled(ctx context.Context, q *queue, verb millrace.Verb, group *laneItems, done millrace.Settled) {
	became, reason := gone, "ack"
	switch verb {
	case millrace.Retry:
		b.logSpent(ctx, q, group, done)
		return
	case millrace.Bury:
		became, reason = dead, millrace.ReasonBuried
	}
	for i, item := range group.items {
		if !slices.Contains(done.Lost, i) {
			b.logOne(ctx, q.name, item.Name, became, reason)
		}
	}
}

// logSpent logs which retries were the last. The engine says how many; the
// receipts say which, unless max_attempts has changed under them.
func (b *Broker) logSpent(ctx context.Context, q *queue, group *laneItems, done millrace.Settled) {
	if done.Dead == 0 {
		return
	}
	var spent []uint64
	for i, item := range group.items {
		r, _ := millrace.ParseReceipt(group.receipts[i])
		if r.Attempt >= q.spec.MaxAttempts && !slices.Contains(done.Lost, i) {
			spent = append(spent, item.Name)
		}
	}
	if len(spent) != done.Dead {
		b.log.DebugContext(ctx, "out of queue", "queue", q.name, "count", done.Dead, "became", dead, "reason", millrace.ReasonAttempts)
		return
	}
	for _, name := range spent {
		b.logOne(ctx, q.name, name, dead, millrace.ReasonAttempts)
	}
}

// logOnce logs messages that were gone when they were given.
func (b *Broker) logOnce(ctx context.Context, messages []millrace.Message) {
	for i := range messages {
		m := &messages[i]
		b.log.DebugContext(ctx, "out of queue", "queue", m.Queue, "message", m.ID, "event", m.Event.ID, "became", gone, "reason", "at_most_once")
	}
}

// logExits logs what left by itself: leases that ended, dead letters whose
// retention was over, messages past a queue's length.
func (b *Broker) logExits(ctx context.Context, exits []millrace.Exit) {
	if len(exits) == 0 || !b.logging(ctx) {
		return
	}
	names := map[string]string{}
	for _, q := range b.registry.now().queues {
		names[q.uid] = q.name
	}
	for _, e := range exits {
		name, known := names[e.Queue]
		if !known {
			name = e.Queue // deleted meanwhile
		}
		b.logOne(ctx, name, e.Name, became(e.Reason), e.Reason)
	}
}

func became(reason string) string {
	switch reason {
	case millrace.ReasonLeaseEnded:
		return waiting
	case millrace.ReasonAttempts:
		return dead
	}
	return gone
}

// logDropped logs how many messages one call took away.
func (b *Broker) logDropped(ctx context.Context, q *queue, tenant, reason string, count int) {
	if count > 0 {
		b.log.DebugContext(ctx, "out of queue", "queue", q.name, "tenant", tenant, "count", count, "became", gone, "reason", reason)
	}
}

// logDeadDropped logs dead letters that were removed by name, if all of those named were there.
func (b *Broker) logDeadDropped(ctx context.Context, q *queue, d millrace.DeadOf, count int) {
	if d.All || count != len(d.Names) {
		b.logDropped(ctx, q, d.Tenant, "dead_dropped", count)
		return
	}
	for _, name := range d.Names {
		b.logOne(ctx, q.name, name, gone, "dead_dropped")
	}
}

// logReleased logs how many leases a consumer gave back.
func (b *Broker) logReleased(ctx context.Context, q *queue, consumer string, count int) {
	if count > 0 {
		b.log.DebugContext(ctx, "out of queue", "queue", q.name, "consumer", consumer, "count", count, "became", waiting, "reason", "release")
	}
}

// logCancelled logs a delayed event that was taken back before it reached any queue.
func (b *Broker) logCancelled(ctx context.Context, tenant, id string) {
	b.log.DebugContext(ctx, "delayed event cancelled", "tenant", tenant, "event", id, "reason", "cancelled")
}
