package enginetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/millrace-dev/millrace"
)

// start is the moment at which tests with an explicit now begin. It lies ahead
// of any machine's clock, so that nothing an engine reads from its own can get in between.
func start() time.Time { return time.UnixMilli(1925000000000).UTC() }

// rig is one open store under test, with the words of a test for what is done to it.
type rig struct {
	*testing.T
	millrace.Engine
	config  Config
	place   Place
	options millrace.EngineOptions
	now     time.Time // of every call, unless it is changed
	version uint64    // of the registry, as the lanes know it
	uids    int
	tokens  uint64
	secrets uint64 // of operations
	queues  map[string]millrace.QueueSettings
	subs    map[string]millrace.SubscriptionSettings
}

// open opens a fresh store. When the test is over the engine's invariants are
// checked, and it is closed.
func open(t *testing.T, c Config) *rig {
	return openWith(t, c, millrace.EngineOptions{})
}

func openWith(t *testing.T, c Config, o millrace.EngineOptions) *rig {
	t.Helper()
	o.Lanes = c.Lanes
	r := &rig{T: t, config: c, place: c.New(t), options: o, now: start(), version: 1}
	r.Engine = r.opened()
	t.Cleanup(func() {
		r.clean()
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

func (r *rig) opened() millrace.Engine {
	r.Helper()
	e, err := r.place(r.options)
	if err != nil {
		r.Fatalf("open: %v", err)
	}
	return e
}

// clean fails the test if one of the engine's invariants does not hold.
func (r *rig) clean() {
	r.Helper()
	if err := r.Check(r.ctx()); err != nil {
		r.Errorf("check: %v", err)
	}
	r.agree()
}

// reopen closes the engine and opens the same store again.
func (r *rig) reopen() {
	r.Helper()
	if err := r.Close(); err != nil {
		r.Fatalf("close: %v", err)
	}
	r.Engine = r.opened()
}

// ctx outlives the test's own context, which ends before its cleanups run.
func (r *rig) ctx() context.Context { return context.WithoutCancel(r.T.Context()) }

// pass moves the clock of the test.
func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

// queue makes a queue known to every lane and returns its uid.
func (r *rig) queue(maxAttempts int) string {
	r.Helper()
	return r.queueOf(millrace.QueueSettings{MaxAttempts: maxAttempts})
}

// queueOf makes a queue with some settings known to every lane and returns its uid.
func (r *rig) queueOf(s millrace.QueueSettings) string {
	r.Helper()
	r.uids++
	s.UID = fmt.Sprintf("%016x", r.uids)
	if r.queues == nil {
		r.queues = map[string]millrace.QueueSettings{}
	}
	r.queues[s.UID] = s
	r.change(s.UID, func(*millrace.QueueSettings) {})
	return s.UID
}

// change changes a queue's settings in every lane.
func (r *rig) change(uid string, edit func(*millrace.QueueSettings)) {
	r.Helper()
	s := r.queues[uid]
	edit(&s)
	r.version++
	s.Version = r.version
	r.queues[uid] = s
	r.apply(millrace.Apply{Version: r.version, Queues: []millrace.QueueSettings{s}})
}

// tenant gives a tenant a weight and a limit in one lane.
func (r *rig) tenant(lane int, queue, tenant string, weight, limit int) {
	r.Helper()
	r.ok(r.SetTenant(r.ctx(), lane, queue, tenant, &millrace.TenantSettings{Weight: weight, Limit: limit}))
}

// apply tells every lane.
func (r *rig) apply(a millrace.Apply) {
	r.Helper()
	for lane := range r.config.Lanes {
		gone, err := r.Apply(r.ctx(), lane, a)
		r.ok(err)
		r.same("gone", len(gone), 0)
	}
}

// remove takes a queue or a subscription away in every lane.
func (r *rig) remove(uid string) {
	r.Helper()
	r.version++
	r.apply(millrace.Apply{Version: r.version, Removed: []string{uid}})
}

// sweepAll sweeps a lane until there is no more.
func (r *rig) sweepAll(lane int) {
	r.Helper()
	for n := 7; n >= 7; {
		var err error
		n, err = r.Sweep(r.ctx(), lane, 7)
		r.ok(err)
	}
}

// event is an event of a tenant for some queues, with the name as its body.
func event(tenant, name string, queues ...string) millrace.CommitEvent {
	return millrace.CommitEvent{Tenant: tenant, Topic: "orders", Body: []byte(name), Queues: queues}
}

// known makes an event's id one that the publisher gave.
func known(e millrace.CommitEvent, id string) millrace.CommitEvent {
	e.Digest = millrace.DigestOf(&millrace.Event{Tenant: e.Tenant, Topic: e.Topic, Key: e.Key, ID: id})
	e.Remembered = true
	return e
}

// keyed gives an event a key.
func keyed(e millrace.CommitEvent, key string) millrace.CommitEvent {
	e.Key = key
	return e
}

// publish commits events and returns their stamps.
func (r *rig) publish(lane int, events ...millrace.CommitEvent) []millrace.Stamp {
	r.Helper()
	return r.commit(lane, events...).Stamps
}

func (r *rig) commit(lane int, events ...millrace.CommitEvent) millrace.Committed {
	r.Helper()
	done, err := r.Publish(r.ctx(), lane, millrace.Commit{Now: r.now, Version: r.version, Events: r.tracking(events)})
	r.ok(err)
	if len(done.Stamps) != len(events) {
		r.Fatalf("got %d stamps for %d events", len(done.Stamps), len(events))
	}
	return done
}

// token returns a token that was not used before in this test.
func (r *rig) token() millrace.Token {
	r.tokens++
	var t millrace.Token
	binary.BigEndian.PutUint64(t[:], r.tokens)
	return t
}

// lastToken is the token that was made last.
func (r *rig) lastToken() millrace.Token {
	r.tokens--
	return r.token()
}

// held is what one lease call gave.
type held struct {
	millrace.Leased
	token millrace.Token
}

// item is the receipt of the i-th message.
func (h held) item(i int) millrace.SettleItem {
	return millrace.SettleItem{Name: h.Messages[i].Name, Token: h.token}
}

// items are the receipts of all messages.
func (h held) items() []millrace.SettleItem {
	items := make([]millrace.SettleItem, len(h.Messages))
	for i := range items {
		items[i] = h.item(i)
	}
	return items
}

// part is what one lease call gave, with the i-th message alone.
func (h held) part(i int) held {
	h.Messages = h.Messages[i : i+1]
	return h
}

// names are the bodies of the messages, in the order they were served.
func (h held) names() []string {
	names := []string{}
	for _, m := range h.Messages {
		names = append(names, string(m.Body))
	}
	return names
}

// minute is how long a test's leases last that says nothing else.
const minute = time.Minute

// lease takes up to n messages for a minute.
func (r *rig) lease(lane int, queue string, n int) held {
	r.Helper()
	return r.leaseFor(lane, queue, n, minute)
}

func (r *rig) leaseFor(lane int, queue string, n int, d time.Duration) held {
	r.Helper()
	h := held{token: r.token()}
	var err error
	h.Leased, err = r.Lease(r.ctx(), lane, millrace.Lease{
		Now: r.now, Queue: queue, Max: n, MaxBytes: millrace.MaxLeaseBytes, For: d, Token: h.token,
	})
	r.ok(err)
	return h
}

// leased takes n messages and fails unless there are that many.
func (r *rig) leased(lane int, queue string, n int) held {
	r.Helper()
	h := r.lease(lane, queue, n)
	if len(h.Messages) != n {
		r.Fatalf("leased %d messages, want %d", len(h.Messages), n)
	}
	return h
}

// settle settles items and returns the outcome.
func (r *rig) settle(lane int, queue string, verb millrace.Verb, items ...millrace.SettleItem) millrace.Settled {
	r.Helper()
	done, err := r.Settle(r.ctx(), lane, millrace.Settle{Now: r.now, Queue: queue, Verb: verb, Items: items})
	r.ok(err)
	return done
}

// settled settles items and fails if one is lost.
func (r *rig) settled(lane int, queue string, verb millrace.Verb, items ...millrace.SettleItem) {
	r.Helper()
	if done := r.settle(lane, queue, verb, items...); len(done.Lost) > 0 {
		r.Fatalf("settle %c: lost %v of %d", verb, done.Lost, len(items))
	}
}

// lost fails unless all of the items are lost to every verb and to extend, and nothing changes.
func (r *rig) lost(lane int, queue string, items ...millrace.SettleItem) {
	r.Helper()
	before := r.stats(lane, queue)
	all := make([]int, len(items))
	for i := range all {
		all[i] = i
	}
	for _, verb := range []millrace.Verb{millrace.Ack, millrace.Retry, millrace.Bury} {
		r.same(string(verb)+" lost", r.settle(lane, queue, verb, items...).Lost, all)
	}
	e, err := r.Extend(r.ctx(), lane, millrace.Extend{Now: r.now, Queue: queue, For: minute, Items: items})
	r.ok(err)
	r.same("extend lost", e.Lost, all)
	r.same("stats after lost receipts", r.stats(lane, queue), before)
}

// step does all that is due. Which messages left is a promise of its own.
func (r *rig) step(lane int) millrace.Stepped {
	r.Helper()
	done, err := r.Step(r.ctx(), lane, r.now, 1000)
	r.ok(err)
	done.Exits = nil
	return done
}

func (r *rig) stats(lane int, queue string) millrace.QueueStats {
	r.Helper()
	s, err := r.Stats(r.ctx(), lane, queue)
	r.ok(err)
	return s
}

// counts fails unless a queue holds so many messages, by state.
func (r *rig) counts(lane int, queue string, ready, leased, delayed, dead int64) {
	r.Helper()
	want := millrace.QueueCounts{Ready: ready, Leased: leased, Delayed: delayed, Dead: dead}
	r.same("counts", r.stats(lane, queue).QueueCounts, want)
}

func (r *rig) laneStats(lane int) millrace.LaneStats {
	r.Helper()
	s, err := r.LaneStats(r.ctx(), lane)
	r.ok(err)
	return s
}

// ok fails the test on an error.
func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("unexpected error: %v", err)
	}
}

// refused fails the test unless an error has one of the codes.
func (r *rig) refused(err error, codes ...millrace.Code) {
	r.Helper()
	for _, code := range codes {
		if millrace.CodeOf(err) == code {
			return
		}
	}
	r.Errorf("got error %v, want code %v", err, codes)
}

// same fails the test unless got equals want.
func (r *rig) same(what string, got, want any) {
	r.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), sameDue()); diff != "" {
		r.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}

// each runs a proof in every lane.
func (r *rig) each(prove func(lane int)) {
	for lane := range r.config.Lanes {
		prove(lane)
	}
}

// waitFor waits until a condition holds, as long as the suite has patience.
func (r *rig) waitFor(what string, holds func() bool) {
	r.Helper()
	for deadline := time.Now().Add(r.config.Patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("waited in vain for %s", what)
		}
	}
}
