package acceptance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

// syncs is the tracked queue of these tests.
const syncs = "syncs"

// tracking runs a test on each engine, with a tracked queue whose retries come at once.
func tracking(t *testing.T, test func(t *testing.T, b *broker.Broker), change ...func(*millrace.QueueSpec)) {
	t.Helper()
	engines(t, func(t *testing.T, h *house) {
		b := h.broker(t)
		h.Backbone = b
		h.queue(t, syncs, ":links:", append([]func(*millrace.QueueSpec){func(s *millrace.QueueSpec) {
			s.Tracked, s.BackoffFirst, s.BackoffMax = true, time.Millisecond, time.Millisecond
		}}, change...)...)
		test(t, b)
	})
}

func startOne(t *testing.T, b *broker.Broker, r millrace.OperationRequest) millrace.StartedOperation {
	t.Helper()
	r.Queue, r.Type = syncs, "MANUAL"
	started, err := b.Operations().Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func operation(t *testing.T, b *broker.Broker, id string) millrace.TrackedOperation {
	t.Helper()
	o, err := b.Operations().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// becomes waits until an operation has a status, however it gets there.
func becomes(t *testing.T, b *broker.Broker, id string, want millrace.OperationStatus) millrace.TrackedOperation {
	t.Helper()
	var o millrace.TrackedOperation
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if o = operation(t, b, id); o.Status == want {
			return o
		}
		if o.Status.Finished() {
			break
		}
		if _, err := b.Operations().Await(t.Context(), id, o.Status, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the operation is %s, want %s: %+v", o.Status, want, o)
	return o
}

// of lists all operations with a status.
func of(t *testing.T, b *broker.Broker, status millrace.OperationStatus) (list []millrace.TrackedOperation) {
	t.Helper()
	q := millrace.OperationQuery{Queue: syncs, Status: status}
	for {
		page, next, err := b.Operations().List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, page...)
		if q.Cursor = next; next == "" {
			return list
		}
	}
}

// agree checks that what a queue holds is what the statuses of its operations say, when nobody is at work.
func agree(t *testing.T, b *broker.Broker) {
	t.Helper()
	stats, err := b.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queue := counts(t, b, syncs)
	queued, running := len(of(t, b, millrace.OperationQueued)), len(of(t, b, millrace.OperationRunning))
	failed := len(of(t, b, millrace.OperationError))
	if int(stats.Operations.Queued) != queued || int(queue.Leased) != running || int(queue.Dead) != failed {
		t.Errorf("the queue holds %+v, %d of it to be run; operations: %d queued, %d running, %d failed",
			queue, stats.Operations.Queued, queued, running, failed)
	}
}

// Whoever is killed never settles: in every step up to the settlement, all that is left of it is a lease that ends.
func TestAnOperationWhoseWorkerIsKilledIsTriedAgainAndFailsInTheEnd(t *testing.T) {
	steps := map[string]func(t *testing.T, b *broker.Broker, m millrace.Message){
		"as soon as it has the message": func(*testing.T, *broker.Broker, millrace.Message) {},
		"after it told of its progress": func(t *testing.T, b *broker.Broker, m millrace.Message) {
			if err := b.Operations().Report(t.Context(), m.Operation, m.Receipt, millrace.Progress{Percent: 90}); err != nil && millrace.CodeOf(err) != millrace.CodeLost {
				t.Error(err)
			}
		},
		"after it extended the lease": func(t *testing.T, b *broker.Broker, m millrace.Message) {
			if _, err := b.Queues().Extend(t.Context(), syncs, millrace.MinLease, m.Receipt); err != nil {
				t.Error(err)
			}
		},
	}
	tracking(t, func(t *testing.T, b *broker.Broker) {
		for name, step := range steps {
			t.Run(name, func(t *testing.T) {
				id := startOne(t, b, millrace.OperationRequest{Subject: "link:" + name}).ID
				step(t, b, killed(t, b, id, 1))
				if o := becomes(t, b, id, millrace.OperationQueued); o.Attempts != 1 || o.Error != millrace.ErrorLeaseEnded {
					t.Errorf("after the first worker: %+v", o)
				}
				step(t, b, killed(t, b, id, 2))
				o := becomes(t, b, id, millrace.OperationError)
				if o.Attempts != 2 || o.Error != millrace.ErrorLeaseEnded || o.ExpiresAt.Sub(o.FinishedAt) != 7*24*time.Hour {
					t.Errorf("after the second: %+v", o)
				}
			})
		}
		agree(t, b)
	}, func(s *millrace.QueueSpec) { s.MaxAttempts, s.Lease = 2, millrace.MinLease })
}

// killed leases an operation's message for a worker that will not settle it.
func killed(t *testing.T, b *broker.Broker, id string, attempt int) millrace.Message {
	t.Helper()
	m := leaseAll(t, b, syncs, 1)[0]
	if m.Operation != id || m.Attempt != attempt {
		t.Fatalf("leased attempt %d of %s, want %d of %s", m.Attempt, m.Operation, attempt, id)
	}
	return m
}

// A node that dies with its workers leaves its operations to the next one.
func TestOperationsThatRanWhenTheirNodeEndedAreTriedAgain(t *testing.T) {
	engines(t, func(t *testing.T, h *house) {
		b, err := broker.Open(t.Context(), h.store, h.options)
		if err != nil {
			t.Fatal(err)
		}
		h.Backbone = b
		h.queue(t, syncs, ":links:", func(s *millrace.QueueSpec) { s.Tracked, s.Lease = true, time.Second })
		id := startOne(t, b, millrace.OperationRequest{Subject: "link:1"}).ID
		m := leaseAll(t, b, syncs, 1)[0]
		shut(t, b)
		again := h.broker(t)
		if o := becomes(t, again, id, millrace.OperationQueued); o.Error != millrace.ErrorLeaseEnded {
			t.Errorf("after the restart: %+v", o)
		}
		if r, err := again.Queues().Ack(t.Context(), syncs, settlements(m)...); err != nil || len(r.Lost) != 1 {
			t.Errorf("the old receipt settled: %+v %v", r, err)
		}
		ack(t, again, syncs, leaseAll(t, again, syncs, 1)...)
		if o := operation(t, again, id); o.Status != millrace.OperationSuccess || o.Attempts != 2 {
			t.Errorf("in the end: %+v", o)
		}
		agree(t, again)
	})
}

func TestAnOperationIsCompletedOnceHoweverOftenItIsSaid(t *testing.T) {
	tracking(t, func(t *testing.T, b *broker.Broker) {
		const n = 20
		for i := range n {
			startOne(t, b, millrace.OperationRequest{Subject: fmt.Sprint("link:", i)})
		}
		for _, m := range leaseAll(t, b, syncs, n) {
			settleTogether(t, b, m)
		}
		total := countsOf(t, b).Total
		if total.Success+total.Error != n || total.Retried != 0 || total.Cancelled != 0 {
			t.Errorf("%d operations were counted as %+v", n, total)
		}
		agree(t, b)
	})
}

// settleTogether acks and buries a message at the same time, and checks that what was settled is what shows, for good.
func settleTogether(t *testing.T, b *broker.Broker, m millrace.Message) {
	t.Helper()
	results := make([]millrace.SettleResult, 4)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			var err error
			if i%2 == 0 {
				results[i], err = b.Queues().Ack(t.Context(), syncs, millrace.Settlement{Receipt: m.Receipt, Output: []byte(fmt.Sprint(i))})
			} else {
				results[i], err = b.Queues().Bury(t.Context(), syncs, millrace.Settlement{Receipt: m.Receipt, Error: fmt.Sprint(i)})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	first := slices.IndexFunc(results, func(r millrace.SettleResult) bool { return r.Settled == 1 })
	o := operation(t, b, m.Operation)
	for i, r := range results {
		if r.Settled+len(r.Lost) != 1 || (r.Settled == 1) != (i == first) {
			t.Fatalf("settled %+v", results)
		}
	}
	if got, want := string(o.Output)+o.Error, fmt.Sprint(first); got != want || (o.Status == millrace.OperationSuccess) != (first%2 == 0) {
		t.Errorf("the %s. settlement won, and it shows %s %q", want, o.Status, got)
	}
}

func countsOf(t *testing.T, b *broker.Broker) millrace.OperationCounts {
	t.Helper()
	c, err := b.Operations().Counts(t.Context(), millrace.OperationCountQuery{Queue: syncs})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestACancellationAndACompletionAgreeWhoWasFirst(t *testing.T) {
	tracking(t, func(t *testing.T, b *broker.Broker) {
		const n = 20
		for i := range n {
			startOne(t, b, millrace.OperationRequest{Subject: fmt.Sprint("link:", i)})
		}
		for _, m := range leaseAll(t, b, syncs, n) {
			var cancelled error
			var all sync.WaitGroup
			all.Go(func() { _, cancelled = b.Operations().Cancel(t.Context(), m.Operation) })
			all.Go(func() {
				if r, err := b.Queues().Ack(t.Context(), syncs, settlements(m)...); err != nil || r.Settled != 1 {
					t.Errorf("ack: %+v %v", r, err)
				}
			})
			all.Wait()
			o := operation(t, b, m.Operation)
			late := millrace.CodeOf(cancelled) == millrace.CodeFinished
			if cancelled != nil && !late || o.Status != millrace.OperationSuccess || o.CancelRequested == late {
				t.Errorf("cancel: %v; it shows %s, cancel requested %v", cancelled, o.Status, o.CancelRequested)
			}
		}
		agree(t, b)
	})
}

func TestACancelledOperationIsNeverHandedOut(t *testing.T) {
	tracking(t, func(t *testing.T, b *broker.Broker) {
		var keep, gone []string
		for i := range 20 {
			id := startOne(t, b, millrace.OperationRequest{Subject: fmt.Sprint("link:", i)}).ID
			if i%2 == 0 {
				keep = append(keep, id)
				continue
			}
			gone = append(gone, id)
			if o, err := b.Operations().Cancel(t.Context(), id); err != nil || o.Status != millrace.OperationCancelled {
				t.Fatalf("cancelled: %+v %v", o, err)
			}
		}
		agree(t, b)
		for _, m := range leaseAll(t, b, syncs, len(keep)) {
			if !slices.Contains(keep, m.Operation) {
				t.Errorf("an operation that was cancelled was handed out")
			}
			ack(t, b, syncs, m)
		}
		none(t, b, syncs)
		for _, id := range gone {
			if o := operation(t, b, id); o.Status != millrace.OperationCancelled || o.Attempts != 0 {
				t.Errorf("it shows %+v", o)
			}
		}
		if q := counts(t, b, syncs); q != (millrace.QueueCounts{}) {
			t.Errorf("the queue holds %+v", q)
		}
	})
}

func TestACompletionAtTheEndOfTheLeaseCountsOrIsLost(t *testing.T) {
	tracking(t, func(t *testing.T, b *broker.Broker) {
		for i := range 10 {
			id := startOne(t, b, millrace.OperationRequest{Subject: fmt.Sprint("link:", i)}).ID
			m := leaseAll(t, b, syncs, 1)[0]
			time.Sleep(time.Until(m.LeasedUntil) - time.Duration(i-5)*time.Millisecond) // around the deadline
			r, err := b.Queues().Ack(t.Context(), syncs, settlements(m)...)
			if err != nil {
				t.Fatal(err)
			}
			if r.Settled == 1 {
				if o := operation(t, b, id); o.Status != millrace.OperationSuccess || o.Attempts != 1 {
					t.Errorf("settled, and it shows %+v", o)
				}
				continue
			}
			again := leaseAll(t, b, syncs, 1)[0]
			if o := operation(t, b, id); o.Attempts < 2 || o.Error != millrace.ErrorLeaseEnded || again.Operation != id {
				t.Errorf("lost, and it shows %+v", o)
			}
			if r, err := b.Queues().Bury(t.Context(), syncs, millrace.Settlement{Receipt: again.Receipt, Error: "enough"}); err != nil {
				t.Fatal(err)
			} else if len(r.Lost) > 0 { // a slow machine: it ends by itself
				becomes(t, b, id, millrace.OperationQueued)
				buryAll(t, b, id)
			}
		}
		agree(t, b)
	}, func(s *millrace.QueueSpec) { s.Lease = millrace.MinLease })
}

// buryAll buries an operation's message, however often its lease ends before.
func buryAll(t *testing.T, b *broker.Broker, id string) {
	t.Helper()
	for !operation(t, b, id).Status.Finished() {
		messages, err := b.Queues().Lease(t.Context(), syncs, millrace.LeaseOptions{Wait: time.Second, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Queues().Bury(t.Context(), syncs, settlements(messages...)...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOfManyThatStartTheSameAtOnceOneIsStarted(t *testing.T) {
	tracking(t, func(t *testing.T, b *broker.Broker) {
		ctx := t.Context()
		for round := range 5 {
			ids, fresh := startTogether(ctx, t, b, 16)
			if len(ids) != 1 || fresh != 1 {
				t.Fatalf("round %d: %d operations, %d of them new", round, len(ids), fresh)
			}
			m := leaseAll(t, b, syncs, 1)[0]
			none(t, b, syncs)
			ack(t, b, syncs, m) // and the key is free
		}
		if total := countsOf(t, b).Total; total.Success != 5 {
			t.Errorf("counted %+v", total)
		}
	})
}

func startTogether(ctx context.Context, t *testing.T, b *broker.Broker, n int) (ids map[string]bool, fresh int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	ids = map[string]bool{}
	for range n {
		all.Go(func() {
			s, err := b.Operations().Start(ctx, millrace.OperationRequest{Queue: syncs, Type: "MANUAL", Subject: "link:1", DedupeKey: "sync"})
			mu.Lock()
			defer mu.Unlock()
			if ids[s.ID] = true; err != nil {
				t.Error(err)
			}
			if !s.Existing {
				fresh++
			}
		})
	}
	all.Wait()
	return ids, fresh
}

// storm does everything that can be done to operations, from several sides at once, for so many rounds each.
func storm(t *testing.T, b *broker.Broker, rounds int) {
	t.Helper()
	ids := make(chan string, 3*rounds)
	var all sync.WaitGroup
	for side := range 3 {
		all.Go(func() { stormStarts(t, b, side, rounds, ids) })
		all.Go(func() { stormWork(t, b, side, rounds) })
	}
	all.Go(func() {
		for range rounds {
			if _, err := b.Operations().Cancel(t.Context(), <-ids); err != nil && millrace.CodeOf(err) != millrace.CodeFinished {
				t.Error(err)
			}
		}
	})
	all.Wait()
}

func stormStarts(t *testing.T, b *broker.Broker, side, rounds int, ids chan<- string) {
	for i := range rounds {
		r := millrace.OperationRequest{Queue: syncs, Type: "MANUAL", Subject: fmt.Sprint("link:", i%7), Tenant: fmt.Sprint("u", side)}
		if i%3 == 0 {
			r.DedupeKey = "sync"
		}
		if i%5 == 0 {
			r.Delay = time.Millisecond
		}
		s, err := b.Operations().Start(t.Context(), r)
		if err != nil {
			t.Error(err)
		}
		ids <- s.ID
	}
}

// stormWork leases and settles in every way, and forgets some.
func stormWork(t *testing.T, b *broker.Broker, side, rounds int) {
	at := time.Duration(0)
	for i := range rounds {
		messages, err := b.Queues().Lease(t.Context(), syncs, millrace.LeaseOptions{Max: 3})
		if err != nil {
			t.Error(err)
		}
		items := settlements(messages...)
		switch (i + side) % 5 {
		case 0, 1:
			_, err = b.Queues().Ack(t.Context(), syncs, items...)
		case 2:
			for j := range items {
				items[j].Delay, items[j].Error = &at, "again"
			}
			_, err = b.Queues().Retry(t.Context(), syncs, items...)
		case 3:
			_, err = b.Queues().Bury(t.Context(), syncs, items...)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func TestStatusAndQueueAgreeAfterAStormAndNothingRunsForEver(t *testing.T) {
	tracking(t, func(t *testing.T, b *broker.Broker) {
		storm(t, b, 60)
		for deadline := time.Now().Add(2 * time.Minute); ; {
			running := of(t, b, millrace.OperationRunning)
			if len(running) == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d operations are still RUNNING, one of them %+v", len(running), running[0])
			}
			if _, err := b.Operations().Await(t.Context(), running[0].ID, millrace.OperationRunning, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		agree(t, b)
		for len(of(t, b, millrace.OperationQueued)) > 0 {
			messages, err := b.Queues().Lease(t.Context(), syncs, millrace.LeaseOptions{Max: 100, Wait: time.Second, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			ack(t, b, syncs, messages...)
		}
		agree(t, b)
		checkTotals(t, b)
	}, func(s *millrace.QueueSpec) { s.Lease = 3 * time.Second })
}

// checkTotals compares what was counted at each end with the operations that have ended.
func checkTotals(t *testing.T, b *broker.Broker) {
	t.Helper()
	total := countsOf(t, b).Total
	got := [3]int64{total.Success, total.Error, total.Cancelled}
	want := [3]int64{}
	for i, status := range []millrace.OperationStatus{millrace.OperationSuccess, millrace.OperationError, millrace.OperationCancelled} {
		want[i] = int64(len(of(t, b, status)))
	}
	if got != want || slices.Min(want[:]) == 0 {
		t.Errorf("counted %v successes, errors and cancellations; there are %v, and none may be 0", got, want)
	}
}
