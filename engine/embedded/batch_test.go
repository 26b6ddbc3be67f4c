package embedded_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// subUID is the uid of the n-th subscription.
func subUID(n int) string { return fmt.Sprintf("%016x", 0xb0+n) }

// defineSubs makes subscriptions known to the first lane and returns their uids.
func defineSubs(t testing.TB, e *embedded.Engine, n, maxEvents int) (uids []string) {
	t.Helper()
	for i := range n {
		s := pushSettings(subUID(i), maxEvents)
		uids = append(uids, s.UID)
		if _, err := e.Apply(context.Background(), 0, millrace.Apply{Version: 1, Subscriptions: []millrace.SubscriptionSettings{s}}); err != nil {
			t.Fatal(err)
		}
	}
	return uids
}

func pushSettings(uid string, maxEvents int) millrace.SubscriptionSettings {
	return millrace.SubscriptionSettings{
		UID: uid, Version: 1, Timeout: time.Minute, MaxEvents: maxEvents, MaxBytes: 1 << 20, Concurrency: 64,
		Schedule: []time.Duration{time.Second}, Format: "events",
	}
}

// pushCommit is n events of 256 bytes for subscriptions.
func pushCommit(n int, uids []string) millrace.Commit {
	c := benchCommit(n, 0, 1)
	for i := range c.Events {
		c.Events[i].Queues, c.Events[i].Batches = nil, uids
	}
	return c
}

func publishTo(t testing.TB, e *embedded.Engine, uids []string, events int) {
	t.Helper()
	for done := 0; done < events; done += 1000 {
		if _, err := e.Publish(context.Background(), 0, pushCommit(min(1000, events-done), uids)); err != nil {
			t.Fatal(err)
		}
	}
}

// takeAndSend takes batches until there are none, says that all were sent, and
// returns how many events they had.
func takeAndSend(t testing.TB, e *embedded.Engine, token uint64) (events int) {
	var tok millrace.Token
	binary.BigEndian.PutUint64(tok[:], token)
	got, err := e.Take(context.Background(), 0, millrace.Take{Max: 64, MaxBytes: 16 << 20, For: time.Minute, Token: tok, Node: "node"})
	if err != nil {
		t.Error(err)
		return 0
	}
	items := make([]millrace.Outcome, len(got.Batches))
	for i, b := range got.Batches {
		events += len(b.Events)
		items[i] = millrace.Outcome{Subscription: b.Subscription, Name: b.Name, Token: tok, OK: true, Log: []byte("200 in 1 ms")}
	}
	done, err := e.SettleBatches(context.Background(), 0, millrace.Outcomes{Items: items})
	if err != nil {
		t.Error(err)
	}
	for _, item := range done.Items {
		if item.Lost {
			t.Error("a batch that was sent in time is lost")
		}
	}
	return events
}

func TestABatchThatWaitsCostsItsHeader(t *testing.T) {
	const events, size, most, kept = 40_000, 4, 250, 20_000
	if embedded.BatchSize > 128 {
		t.Errorf("the header of a batch takes %d bytes, want 128 at most", embedded.BatchSize)
	}
	dir := t.TempDir()
	e := openAt(t, dir)
	e.KeepMembers(kept)
	publishTo(t, e, defineSubs(t, e, 1, size), events)
	if n := e.MembersInMemory(); n > kept*5/4 {
		t.Errorf("%d events of batches are in memory, want fewer than there are", n)
	}
	closed(t, e)
	none := emptyStore(t)
	e, bytes := opened(t, dir)
	if n := e.MembersInMemory(); n != 0 {
		t.Errorf("an opening has read %d events of batches", n)
	}
	if perBatch := float64(bytes-none) / (events / size); perBatch > most {
		t.Errorf("a waiting batch costs %.0f bytes of memory, want %d at most", perBatch, most)
	}
	sent := 0
	for n, token := 1, uint64(1); n > 0; token++ {
		n = takeAndSend(t, e, token)
		sent += n
	}
	if sent != events {
		t.Errorf("sent %d events, want %d", sent, events)
	}
	closed(t, e)
}

func TestOpeningKeepsACurrentBatchCollecting(t *testing.T) {
	dir := t.TempDir()
	e := openAt(t, dir)
	uids := defineSubs(t, e, 1, 10)
	publishTo(t, e, uids, 4)
	closed(t, e)
	e = openAt(t, dir)
	defer closed(t, e)
	publishTo(t, e, uids, 5)
	list, err := e.ListBatches(context.Background(), 0, millrace.BatchPage{Subscription: uids[0], Limit: 10})
	if err != nil || len(list) != 1 || list[0].Count != 9 || !list[0].Current {
		t.Fatalf("got %+v, %v, want one batch of 9 that collects", list, err)
	}
	_, shown, err := e.Batch(context.Background(), 0, uids[0], list[0].Name)
	if err != nil || len(shown) != 9 {
		t.Errorf("got %d events, %v, want 9", len(shown), err)
	}
	publishTo(t, e, uids, 1)
	if n := takeAndSend(t, e, 1); n != 10 {
		t.Errorf("sent %d events, want 10", n)
	}
	if err := e.Check(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestNothingIsLeftOfBatchesThatWereSent(t *testing.T) {
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	publishTo(t, e, defineSubs(t, e, 3, 7), 7*30)
	for n, token := 1, uint64(1); n > 0; token++ {
		n = takeAndSend(t, e, token)
	}
	if err := e.Check(context.Background()); err != nil {
		t.Error(err)
	}
	left := e.RecordsOfSinks()
	for _, expected := range []string{"S", "C", "j"} { // settings, state, attempts
		delete(left, expected)
	}
	if len(left) > 0 {
		t.Errorf("records are left: %v", left)
	}
	if n := e.MembersInMemory(); n != 0 {
		t.Errorf("%d events are left in memory", n)
	}
}

func TestTheOldestBatchesOfManySubscriptionsGoFirst(t *testing.T) {
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	uids := defineSubs(t, e, 300, 1)
	for range 5 {
		publishTo(t, e, uids, 1)
	}
	dropped, err := e.DropOldest(context.Background(), 0, 1000)
	if err != nil || len(dropped) != 1000 {
		t.Fatalf("dropped %d, %v, want 1000", len(dropped), err)
	}
	for i, d := range dropped {
		if d.Subscription != uids[i%300] || i >= 300 && d.Name <= dropped[i-300].Name {
			t.Fatalf("the %d. dropped is %+v", i, d)
		}
	}
	if err := e.Check(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestNobodyWaitsForAThousandGreatBatches(t *testing.T) {
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	publishTo(t, e, defineSubs(t, e, 1, 100), 25_000)
	var all int
	for _, want := range []int{100, 100, 50, 0} { // batches, each of a hundred events
		dropped, err := e.DropOldest(context.Background(), 0, 1000)
		if err != nil || len(dropped) != want {
			t.Errorf("dropped %d batches, %v, want %d", len(dropped), err, want)
		}
		all += len(dropped)
	}
	if err := e.Check(context.Background()); err != nil || all != 250 {
		t.Errorf("dropped %d batches, want 250; check: %v", all, err)
	}
}

// BenchmarkPush publishes in hundreds, takes full batches of a hundred and says
// that they were sent.
func BenchmarkPush(b *testing.B) {
	for _, subs := range []int{1, 20} {
		b.Run(fmt.Sprintf("subscriptions=%d", subs), func(b *testing.B) {
			e := openAt(b, b.TempDir())
			defer closed(b, e)
			uids := defineSubs(b, e, subs, 100)
			before := cpuTime(b)
			b.ResetTimer()
			sent := 0
			for i := range b.N {
				publishTo(b, e, uids, 1000)
				for n := 1; n > 0; {
					n = takeAndSend(b, e, uint64(i)<<32|uint64(sent))
					sent += n
				}
			}
			if sent != b.N*1000*subs {
				b.Errorf("sent %d events, want %d", sent, b.N*1000*subs)
			}
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(sent), "cpu-ns/event")
			b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkPushFromABacklog sends what waited when the store was opened: events
// and bodies come from disk.
func BenchmarkPushFromABacklog(b *testing.B) {
	const events = 100_000
	for range b.N {
		b.StopTimer()
		dir := b.TempDir()
		e := openAt(b, dir)
		publishTo(b, e, defineSubs(b, e, 2, 100), events)
		closed(b, e)
		e = openAt(b, dir)
		before := cpuTime(b)
		b.StartTimer()
		sent := 0
		for n, token := 1, uint64(1); n > 0; token++ {
			n = takeAndSend(b, e, token)
			sent += n
		}
		b.StopTimer()
		if sent != 2*events {
			b.Errorf("sent %d events, want %d", sent, 2*events)
		}
		b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(sent), "cpu-ns/event")
		closed(b, e)
		b.StartTimer()
	}
	b.ReportMetric(float64(2*events*b.N)/b.Elapsed().Seconds(), "events/s")
}
