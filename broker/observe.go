package broker

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/tracing"
	"github.com/millrace-dev/millrace/webhook"
)

// Observer is told of what a broker has done, once it is done. It is called by
// many goroutines and must not block.
type Observer interface {
	// Published tells of a commit: how many events are new in the store, how
	// many of those no sink wanted, and how many it had already. A delayed
	// event counts when it is due.
	Published(stored, unrouted, duplicates int)

	// Leased tells of messages given to a consumer. Those given at most once
	// are told of as acked too.
	Leased(queue string, messages int)

	// Settled tells of a settlement, also of one that failed half-way.
	Settled(queue string, verb millrace.Verb, r millrace.SettleResult)

	// Delivered tells of an attempt to send a batch; not of tests.
	Delivered(d Delivered)
}

// Delivered is an attempt to send a batch.
type Delivered struct {
	Subscription string
	Outcome      string          // one of the Delivery words
	Attempt      int             // from 1
	Took         time.Duration   // the request
	Ages         []time.Duration // of the events that were sent, since they were recorded; none of a failure
}

// What becomes of an attempt.
const (
	DeliverySent   = "sent"
	DeliveryFailed = "failed"
	DeliveryDead   = "dead" // it failed, and the batch's attempts are spent
	DeliveryLost   = "lost" // it took too long, and counts as failed
)

// observeDelivered tells of an attempt that the store knows of.
func (d *deliverer) observeDelivered(sub *subscription, batch *millrace.TakenBatch, o *webhook.Outcome, settled millrace.SettledBatch) {
	told := Delivered{Subscription: sub.name, Outcome: DeliveryFailed, Attempt: batch.Attempt, Took: o.Duration}
	switch {
	case settled.Lost:
		told.Outcome = DeliveryLost
	case settled.Dead:
		told.Outcome = DeliveryDead
	case o.OK():
		told.Outcome = DeliverySent
		now := time.Now()
		for i := range batch.Events {
			told.Ages = append(told.Ages, max(0, now.Sub(batch.Events[i].RecordedAt)))
		}
	}
	d.b.observer.Delivered(told)
}

type nobody struct{}

func (nobody) Published(int, int, int)                              {}
func (nobody) Leased(string, int)                                   {}
func (nobody) Settled(string, millrace.Verb, millrace.SettleResult) {}
func (nobody) Delivered(Delivered)                                  {}

func observerOf(o Observer) Observer {
	if o == nil {
		return nobody{}
	}
	return o
}

// Publish commits events to every sink that wants them; see millrace.Backbone.
// The trace of ctx, if there is one, goes with the events.
func (b *Broker) Publish(ctx context.Context, events ...millrace.Event) ([]millrace.Published, error) {
	ctx, span := b.tracer.Start(ctx, tracing.Publish, trace.SpanKindProducer, topicOf(events), len(events))
	results, err := b.publish(ctx, tracing.Carry(ctx, events))
	span.End(err)
	return results, err
}

// topicOf is the topic of all events, or nothing if they have several.
func topicOf(events []millrace.Event) string {
	for i := range events {
		if events[i].Topic != events[0].Topic {
			return ""
		}
	}
	if len(events) == 0 {
		return ""
	}
	return events[0].Topic
}

func (b *Broker) observePublished(stamps []millrace.Stamp) {
	stored, unrouted, duplicates := 0, 0, 0
	for i := range stamps {
		switch s := &stamps[i]; {
		case s.Duplicate:
			duplicates++
		case s.Gone || !s.DueAt.IsZero():
		default:
			stored++
			if s.Sinks == 0 {
				unrouted++
			}
		}
	}
	b.observer.Published(stored, unrouted, duplicates)
}

// LeaseAny leases from several queues by weight; see millrace.QueueService.
func (s Queues) LeaseAny(ctx context.Context, weights map[string]int, o millrace.LeaseOptions) ([]millrace.Message, error) {
	ctx, span := s.b.tracer.Start(ctx, tracing.Lease, trace.SpanKindConsumer, onlyQueue(weights), 0)
	messages, err := s.leaseAny(ctx, weights, o)
	span.Count(len(messages))
	span.End(err)
	s.observeLeased(messages, o.AtMostOnce)
	return messages, err
}

// onlyQueue is the queue that is leased from, or nothing if they are several.
func onlyQueue(weights map[string]int) string {
	if len(weights) == 1 {
		for name := range weights {
			return name
		}
	}
	return ""
}

// observeLeased tells of leased messages: all of one queue, the first that had any.
func (s Queues) observeLeased(messages []millrace.Message, atMostOnce bool) {
	n := len(messages)
	if n == 0 {
		return
	}
	s.b.observer.Leased(messages[0].Queue, n)
	if atMostOnce {
		s.b.observer.Settled(messages[0].Queue, millrace.Ack, millrace.SettleResult{Settled: n})
	}
}

func (s Queues) settle(ctx context.Context, name string, verb millrace.Verb, items []millrace.Settlement) (millrace.SettleResult, error) {
	ctx, span := s.b.tracer.Start(ctx, tracing.OperationOf(verb), trace.SpanKindClient, name, len(items))
	r, err := s.settleItems(ctx, name, verb, items)
	span.End(err)
	if r.Settled+len(r.Lost) > 0 {
		s.b.observer.Settled(name, verb, r)
	}
	return r, err
}

// Observation is what the store holds: the same on every node.
type Observation struct {
	Bytes  int64
	Queues []ObservedQueue // by name

	Subscriptions []ObservedSubscription // by name
}

// ObservedSubscription is what a subscription holds. One that is deleted and
// defined again has another UID, and counts anew.
type ObservedSubscription struct {
	Name, UID             string
	Queued, Dead, Dropped int64 // events
	Disabled              bool  // it collects no more
}

// ObservedQueue is what a queue holds. A queue that is deleted and defined again
// has another UID, and counts anew.
type ObservedQueue struct {
	Name, UID string
	millrace.QueueStats

	Tracked    bool
	Operations millrace.Tally // since the queue was made; of a tracked one
}

// Observe reads what the store holds, without a look at any tenant: one small
// question for each queue and each subscription in each lane, and another for each tracked queue.
func (b *Broker) Observe(ctx context.Context) (Observation, error) {
	if err := b.gate.enter(); err != nil {
		return Observation{}, err
	}
	defer b.gate.leave()
	h, err := b.registry.reload(ctx)
	if err != nil {
		return Observation{}, err
	}
	out := Observation{}
	if out.Bytes, err = b.engine.Bytes(ctx); err != nil {
		return Observation{}, err
	}
	if out.Queues, err = b.observeQueues(ctx, h); err != nil {
		return Observation{}, err
	}
	if out.Subscriptions, err = b.observeSubscriptions(ctx, h); err != nil {
		return Observation{}, err
	}
	return out, nil
}

// byName are the values of a map in the order of their names.
func byName[V any](m map[string]V) []V {
	list := make([]V, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[name])
	}
	return list
}

func (b *Broker) observeQueues(ctx context.Context, h *house) ([]ObservedQueue, error) {
	queues, lanes := byName(h.queues), b.identity.Lanes
	stats, err := b.queueStats(ctx, queues)
	observed := make([]ObservedQueue, len(queues))
	for i, q := range queues {
		observed[i].Name, observed[i].UID = q.name, q.uid
		for _, s := range stats[i*lanes : (i+1)*lanes] {
			observed[i].QueueStats = observed[i].Plus(s)
		}
	}
	if err != nil {
		return nil, err
	}
	return observed, b.observeOperations(ctx, queues, observed)
}

// observeOperations adds what became of the operations of tracked queues.
func (b *Broker) observeOperations(ctx context.Context, queues []*queue, observed []ObservedQueue) error {
	var tracked []int
	for i, q := range queues {
		if observed[i].Tracked = q.spec.Tracked; q.spec.Tracked {
			tracked = append(tracked, i)
		}
	}
	tallies, err := askLanes(ctx, b, len(tracked), func(ctx context.Context, i, lane int) (millrace.Tally, error) {
		_, total, err := b.engine.OperationCounts(ctx, lane, millrace.CountQuery{Queue: queues[tracked[i]].uid, Bucket: millrace.Days})
		return total, err
	})
	for i, t := range tallies {
		o := &observed[tracked[i/b.identity.Lanes]]
		o.Operations = o.Operations.Plus(t)
	}
	return err
}

func (b *Broker) observeSubscriptions(ctx context.Context, h *house) ([]ObservedSubscription, error) {
	subs, lanes := byName(h.subs), b.identity.Lanes
	stats, err := b.subscriptionStats(ctx, subs...)
	observed := make([]ObservedSubscription, len(subs))
	for i, sub := range subs {
		o := ObservedSubscription{Name: sub.name, UID: sub.uid, Disabled: sub.state == millrace.StateDisabled}
		for _, s := range stats[i*lanes : (i+1)*lanes] {
			o.Queued += s.Queued
			o.Dead += s.Dead
			o.Dropped += s.Dropped
		}
		observed[i] = o
	}
	return observed, err
}
