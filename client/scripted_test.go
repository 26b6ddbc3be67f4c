package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

// scripted is a backbone that notes what it is asked and always answers the same.
type scripted struct {
	mu    sync.Mutex
	calls []string
	err   error

	refuse map[string]error // what an inject answers, by the id of its first event
}

func (s *scripted) note(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
	return s.err
}

// taken is what was asked since it was called last.
func (s *scripted) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

var (
	moment      = time.Date(2026, 11, 15, 1, 13, 0, 120e6, time.UTC)
	storedEvent = millrace.Event{
		ID: "a:1/ü", Topic: "orders", Type: "created", Tenant: "acme", Key: "order:7", Time: moment, RecordedAt: moment.Add(time.Second),
		ContentType: millrace.JSONContentType, Data: []byte(`{ "n" : 1.0 }`), Attributes: map[string]string{"source": "/shop"}, Seq: 41, Prev: 38,
	}
	storedQueue = millrace.Queue{
		Name: "emails", Version: 3, State: millrace.StatePaused, Spec: millrace.DefaultQueueSpec(":orders:"),
		QueueStats: millrace.QueueStats{QueueCounts: millrace.QueueCounts{Ready: 12, Leased: 3, Delayed: 1, Dead: 2}, Tenants: 4, Oldest: moment, Dropped: 9, Acked: 5, Spent: 2},
	}
	storedTenant   = millrace.Tenant{Name: "acme", QueueCounts: millrace.QueueCounts{Ready: 50, Leased: 1, Delayed: 2, Dead: 3}, Weight: 2, Limit: 7, Oldest: moment}
	storedDead     = millrace.StoredMessage{ID: "01K0C", Attempts: 20, Reason: millrace.ReasonBuried, Error: "boom\n", DeadAt: moment, Event: storedEvent}
	storedDocument = millrace.Document{
		Queues:        map[string]millrace.QueueSpec{"emails": storedQueue.Spec, "s.m-s": millrace.DefaultQueueSpec("^acme:")},
		Tenants:       map[string]map[string]millrace.TenantSettings{"emails": {"acme": {Weight: 2, Limit: 0}, "b.c": {Weight: 0, Limit: -1}}},
		Subscriptions: map[string]millrace.SubscriptionSpec{"shop": shownSpec()},
		Triggers:      map[string]millrace.TriggerSpec{"resync": storedTrigger.Spec},
	}
	storedResult = millrace.SettleResult{Settled: 1, Lost: []string{"q6K"}, Dead: 1}
)

func (s *scripted) Live(ctx context.Context, f millrace.LiveFilter) (iter.Seq2[millrace.LiveItem, error], error) {
	if err := s.note("live %+v", f); err != nil {
		return nil, err
	}
	return func(yield func(millrace.LiveItem, error) bool) {
		if yield(millrace.LiveItem{Event: storedEvent}, nil) && yield(millrace.LiveItem{Missed: 12}, nil) && yield(millrace.LiveItem{Event: brokenLines}, nil) {
			yield(millrace.LiveItem{}, millrace.Errorf(millrace.CodeUnavailable, "the watch has ended"))
		}
	}, nil
}

// brokenLines is an event whose data stands on several lines.
var brokenLines = millrace.Event{
	ID: "b", Topic: "orders", Type: "paid", Tenant: "acme", Time: moment, RecordedAt: moment,
	ContentType: millrace.JSONContentType, Data: []byte("{\n  \"n\":\n\n 1}"), Seq: 7,
}

func (s *scripted) Durability() millrace.Durability { return millrace.Durable }
func (s *scripted) Refused(int)                     {}
func (s *scripted) Ready(context.Context) error     { return nil }
func (s *scripted) Queues() millrace.QueueService   { return scriptedQueues{s} }
func (s *scripted) Topics() millrace.TopicService   { return nil }

func (s *scripted) Subscriptions() millrace.SubscriptionService { return scriptedSubscriptions{s} }
func (s *scripted) Stats(context.Context) (millrace.Stats, error) {
	return millrace.Stats{LaneStats: millrace.LaneStats{Held: 7}}, s.note("stats")
}
func (s *scripted) Nodes(context.Context) ([]millrace.Node, error) { return nil, s.note("nodes") }

func (s *scripted) Definitions(context.Context) (millrace.Document, error) {
	return storedDocument, s.note("definitions")
}

func (s *scripted) Apply(_ context.Context, d millrace.Document, o millrace.ApplyOptions) (millrace.Applied, error) {
	text, err := json.Marshal(d) // what pointers lead to counts, not where
	if err != nil {
		return millrace.Applied{}, err
	}
	return millrace.Applied{Created: []string{"queue/emails"}, Changed: []string{}, Deleted: []string{"tenant/emails/acme"}, Same: 7}, s.note("apply %s %+v", text, o)
}

func (s *scripted) Publish(_ context.Context, events ...millrace.Event) ([]millrace.Published, error) {
	return []millrace.Published{{ID: "a-1", DueAt: moment, Duplicate: true}}, s.note("publish %+v", events)
}

func (s *scripted) Held(_ context.Context, tenant, id string) (millrace.Delayed, error) {
	e := storedEvent
	e.RecordedAt, e.Seq, e.Prev = time.Time{}, 0, 0
	return millrace.Delayed{Event: e, DueAt: moment.Add(time.Hour)}, s.note("held %q %q", tenant, id)
}

func (s *scripted) CancelHeld(_ context.Context, tenant, id string) error {
	return s.note("cancel %q %q", tenant, id)
}

func (s *scripted) Route(_ context.Context, tenant, topic, typ string) (millrace.Route, error) {
	return millrace.Route{Address: "acme:orders:created", Sinks: []millrace.Sink{{Kind: millrace.KindQueue, Name: "emails", Match: ":orders:", State: millrace.StateActive}}},
		s.note("route %q %q %q", tenant, topic, typ)
}

type scriptedQueues struct{ *scripted }

func (s scriptedQueues) Put(_ context.Context, name string, spec millrace.QueueSpec) (millrace.Queue, bool, error) {
	return storedQueue, true, s.note("put %q %+v", name, spec)
}

func (s scriptedQueues) Get(_ context.Context, name string) (millrace.Queue, error) {
	return storedQueue, s.note("get %q", name)
}

func (s scriptedQueues) List(_ context.Context, page millrace.Page) ([]millrace.Queue, string, error) {
	return []millrace.Queue{storedQueue}, "", s.note("list %+v", page)
}

func (s scriptedQueues) Delete(_ context.Context, name string, ifEmpty bool) error {
	return s.note("delete %q %v", name, ifEmpty)
}

func (s scriptedQueues) Lease(_ context.Context, name string, o millrace.LeaseOptions) ([]millrace.Message, error) {
	m := millrace.Message{ID: "01K0C", Queue: name, Receipt: "q5J", Attempt: 1, LeasedUntil: moment, Operation: "Zt8", Event: storedEvent}
	if o.AtMostOnce {
		m.Receipt, m.LeasedUntil, m.Operation = "", time.Time{}, ""
	}
	return []millrace.Message{m}, s.note("lease %q %+v", name, o)
}

func (s scriptedQueues) LeaseAny(_ context.Context, weights map[string]int, o millrace.LeaseOptions) ([]millrace.Message, error) {
	return []millrace.Message{{ID: "01K0C", Queue: "sms", Receipt: "q5J", Attempt: 2, LeasedUntil: moment, Event: storedEvent}}, s.note("lease %v %+v", weights, o)
}

func (s scriptedQueues) Ack(_ context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error) {
	return storedResult, s.note("ack %q %+v", name, items)
}

func (s scriptedQueues) Retry(_ context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error) {
	return storedResult, s.note("retry %q %+v", name, items)
}

func (s scriptedQueues) Bury(_ context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error) {
	return storedResult, s.note("bury %q %+v", name, items)
}

func (s scriptedQueues) Extend(_ context.Context, name string, lease time.Duration, receipts ...string) (millrace.SettleResult, error) {
	return millrace.SettleResult{Settled: 1, Lost: []string{}, LeasedUntil: moment, Cancelled: []string{"q5J"}}, s.note("extend %q %s %q", name, lease, receipts)
}

func (s scriptedQueues) Release(_ context.Context, name, consumer string) (int, error) {
	return 2, s.note("release %q %q", name, consumer)
}

func (s scriptedQueues) Pause(_ context.Context, name string) error { return s.note("pause %q", name) }
func (s scriptedQueues) Resume(_ context.Context, name string) error {
	return s.note("resume %q", name)
}

func (s scriptedQueues) Peek(_ context.Context, name, tenant string, limit int) ([]millrace.StoredMessage, error) {
	return []millrace.StoredMessage{{ID: "01K0C", Attempts: 1, Event: storedEvent}}, s.note("peek %q %q %d", name, tenant, limit)
}

func (s scriptedQueues) Dead(_ context.Context, name, tenant string, page millrace.Page) ([]millrace.StoredMessage, string, error) {
	return []millrace.StoredMessage{storedDead, storedDead}, "", s.note("dead %q %q %+v", name, tenant, page)
}

func (s scriptedQueues) Redrive(_ context.Context, name string, which millrace.DeadSelection) (int, int, error) {
	return 1000, 31, s.note("redrive %q %+v", name, which)
}

func (s scriptedQueues) DropDead(_ context.Context, name string, which millrace.DeadSelection) (int, int, error) {
	if which.All {
		return 7, 3, s.note("drop %q %+v", name, which)
	}
	return len(which.IDs), 0, s.note("drop %q %+v", name, which)
}

func (s scriptedQueues) Purge(_ context.Context, name, tenant string) (int, int, error) {
	return 7, 1, s.note("purge %q %q", name, tenant)
}

func (s scriptedQueues) Tenants(_ context.Context, name string, page millrace.Page) ([]millrace.Tenant, string, error) {
	return []millrace.Tenant{storedTenant, {Name: "idle", Weight: 1}}, "", s.note("tenants %q %+v", name, page)
}

func (s scriptedQueues) Tenant(_ context.Context, name, tenant string) (millrace.Tenant, error) {
	return storedTenant, s.note("tenant %q %q", name, tenant)
}

func (s scriptedQueues) PutTenant(_ context.Context, name, tenant string, set millrace.TenantSettings) (millrace.Tenant, error) {
	return storedTenant, s.note("put tenant %q %q %+v", name, tenant, set)
}

func (s scriptedQueues) DeleteTenant(_ context.Context, name, tenant string) error {
	return s.note("delete tenant %q %q", name, tenant)
}

func (s scriptedQueues) Inject(_ context.Context, name string, events ...millrace.Event) (int, error) {
	if err := s.refuse[events[0].ID]; err != nil {
		return 0, err
	}
	return len(events), s.note("inject %q %d %+v", name, len(events), events[0])
}
