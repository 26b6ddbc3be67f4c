package enginetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func operationPromises() []promise {
	return []promise{
		{"AMessageOfATrackedQueueHasAnOperation", published},
		{"EachTrackedQueueOfAnEventHasItsOwnOperation", publishedTwice},
		{"ADuplicateOpensNothing", duplicateOpensNothing},
		{"ARefusedCommitOpensNothing", refusedOpensNothing},
		{"ADelayedEventOpensItsOperationsWhenItIsTakenOut", delayedOpensLater},
		{"AnInjectedMessageHasAnOperation", injectedOpens},
		{"AnOperationMovesWithItsMessage", movesWithItsMessage},
		{"AnOperationThatHasFinishedNeverChanges", finishedNeverChanges},
		{"AttemptsAndErrorsAreOfTheLatest", latestAttempt},
		{"AnOutputIsKeptWhole", outputKept},
		{"WhatBecomesOfADeadLetterIsNotItsOperationsConcern", deadLetterLeaves},
		{"ARedriveOpensAnotherOperation", redriveOpens},
		{"RedrivenOnesAreNumberedInTheOrderOfTheirNames", redriveNumbers},
		{"ARedriveOfATrackedQueueNeedsItsOpenings", redriveNeedsOpenings},
		{"ALeaseAtMostOnceOfATrackedQueueIsRefused", onceIsRefused},
		{"APurgeCancelsWhatItRemoves", purgeCancels},
		{"DropOldestCancelsWhatItDrops", dropOldestCancels},
		{"ASweepCancelsWhatWasOpen", sweepCancels},
		{"ASweepCancelsInBoundedSteps", sweepCancelsBounded},
		{"WhetherAQueueIsTrackedCannotChange", trackedCannotChange},
		{"AnUntrackedQueueHasNoOperations", untrackedHasNone},
		{"OperationsAreThereAfterAReopen", operationsReopened},
	}
}

func published(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		o := r.opening(q, "a", "a1")
		e := event("a", "a1", q)
		e.Operations = []millrace.Opening{o}
		seq := r.publish(lane, e)[0].Seq
		want := r.begun(o, seq, seq, "a")
		r.same("operation", r.operation(lane, seq), want)
		r.same("leased with", r.leased(lane, q, 1).Messages[0].Operation, want.ID)
		_, err := r.Operation(r.ctx(), lane, millrace.ReadOperation{Now: r.now, Number: seq + uint64(c.Lanes)})
		r.refused(err, millrace.CodeNotFound)
	})
}

func publishedTwice(t *testing.T, c Config) {
	r := open(t, c)
	one, plain, two := r.tracked(millrace.QueueSettings{}), r.queue(0), r.tracked(millrace.QueueSettings{Ordered: true})
	r.each(func(lane int) {
		first, second := r.opening(one, "a", "first"), r.opening(two, "b", "second")
		e := event("a", "a1", one, plain, two)
		e.Operations = []millrace.Opening{first, second}
		stamps := r.publish(lane, e, event("a", "a2", plain))
		seq, n := stamps[0].Seq, uint64(c.Lanes)
		r.same("the next event's seq", stamps[1].Seq, seq+2*n)
		r.same("the first", r.operation(lane, seq), r.begun(first, seq, seq, "a"))
		r.same("the second", r.operation(lane, seq+n), r.begun(second, seq+n, seq, "a"))
		r.same("of the first queue", r.numbers(lane, millrace.OperationPage{Queue: one}), []uint64{seq})
		r.same("of the second queue", r.numbers(lane, millrace.OperationPage{Queue: two}), []uint64{seq + n})
		h := r.leased(lane, two, 1)
		r.same("the second's message", []uint64{h.Messages[0].Name, h.Messages[0].Operation.Number}, []uint64{seq, seq + n})
		r.same("untracked", r.leased(lane, plain, 2).Messages[0].Operation, millrace.OperationID{})
		r.settled(lane, two, millrace.Ack, h.items()...)
		r.is(lane, millrace.OperationSuccess, seq+n)
		r.is(lane, millrace.OperationQueued, seq)
		r.settled(lane, one, millrace.Bury, r.leased(lane, one, 1).items()...)
		r.is(lane, millrace.OperationError, seq)
	})
}

func duplicateOpensNothing(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	first := r.publish(0, known(event("a", "a1", q), "x"))[0].Seq
	stamps := r.publish(0, known(event("a", "a1", q), "x"), known(event("a", "a2", q), "y"), known(event("a", "a2", q), "y"))
	r.same("operations", r.numbers(0, millrace.OperationPage{Queue: q}), []uint64{stamps[1].Seq, first})
}

func refusedOpensNothing(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{MaxLength: 1})
	full := r.tracking([]millrace.CommitEvent{event("b", "b1", q), event("a", "a1", q), event("a", "a2", q)})
	r.full(0, q, full...)
	_, err := r.Publish(r.ctx(), 0, millrace.Commit{Now: r.now, Version: r.version - 1, Events: full[:1]})
	r.refused(err, millrace.CodeStale)
	r.same("operations", r.numbers(0, millrace.OperationPage{Queue: q}), []uint64{})
	r.same("by subject", r.numbers(0, millrace.OperationPage{Subject: "link:b"}), []uint64{})
}

func delayedOpensLater(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		e := known(event("a", "a1"), fmt.Sprint(lane))
		e.ID, e.Delay = fmt.Sprint(lane), 10*time.Second
		r.publish(lane, e)
		r.same("while it is held", r.numbers(lane, millrace.OperationPage{Queue: q}), []uint64{})
		r.pass(10 * time.Second)
		held := r.step(lane).Events
		r.same("due", len(held), 1)
		r.pass(time.Second)
		e = event("a", "a1", q)
		e.From, e.Operations = held[0].Name, []millrace.Opening{r.opening(q, "a", "a1")}
		seq := r.publish(lane, e)[0].Seq
		r.same("operation", r.operation(lane, seq), r.begun(e.Operations[0], seq, seq, "a"))
		r.same("gone", r.publish(lane, e)[0].Gone, true)
		r.same("operations", r.numbers(lane, millrace.OperationPage{Queue: q}), []uint64{seq})
	})
}

func injectedOpens(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		one, two := injected("a", "x", 4242), injected("b", "y", 4243)
		first, second := r.opening(q, "a", "x"), r.opening(q, "b", "y")
		one.Opening, two.Opening = &first, &second
		r.inject(lane, q, one, two)
		h := r.leased(lane, q, 2)
		for i, o := range []millrace.Opening{first, second} {
			m := h.Messages[i]
			want := r.begun(o, m.Name, m.Name, m.Tenant)
			r.running(1)(&want)
			r.same("leased with", m.Operation, want.ID)
			r.same("operation", r.operation(lane, m.Name), want)
		}
	})
}

// path is one way of an operation: what is done to its leased message, and what it becomes.
type path struct {
	name     string
	settings millrace.QueueSettings
	do       func(r *rig, lane int, q string, h held)
	want     func(r *rig) func(*millrace.StoredOperation)
}

func settling(verb millrace.Verb, delay time.Duration) func(*rig, int, string, held) {
	return func(r *rig, lane int, q string, h held) {
		r.Helper()
		item := h.item(0)
		item.Delay, item.Error = delay, "no such account"
		r.settled(lane, q, verb, item)
	}
}

func expiring(r *rig, lane int, _ string, _ held) {
	r.Helper()
	r.pass(minute)
	r.same("expired", r.step(lane).Expired, 1)
}

func releasing(r *rig, lane int, q string, _ held) {
	r.Helper()
	r.same("released", r.release(lane, q, "worker", 9), 1)
}

// paths are all ways out of RUNNING.
func paths() []path {
	waits := func(err string) func(*rig) func(*millrace.StoredOperation) {
		return func(*rig) func(*millrace.StoredOperation) { return again(err) }
	}
	fails := func(err string) func(*rig) func(*millrace.StoredOperation) {
		return func(r *rig) func(*millrace.StoredOperation) {
			return func(op *millrace.StoredOperation) {
				r.ended(millrace.OperationError, errorRetention)(op)
				op.Error = err
			}
		}
	}
	succeeds := func(r *rig) func(*millrace.StoredOperation) { return r.ended(millrace.OperationSuccess, retention) }
	once, block := millrace.QueueSettings{MaxAttempts: 1}, millrace.QueueSettings{MaxAttempts: 1, Block: true, BlockDelay: time.Second}
	return []path{
		{"an ack", millrace.QueueSettings{}, settling(millrace.Ack, 0), succeeds},
		{"a bury", millrace.QueueSettings{}, settling(millrace.Bury, 0), fails("no such account")},
		{"a retry", millrace.QueueSettings{}, settling(millrace.Retry, 0), waits("no such account")},
		{"a retry with a delay", millrace.QueueSettings{MaxAttempts: 2}, settling(millrace.Retry, time.Second), waits("no such account")},
		{"a retry of a blocking queue", block, settling(millrace.Retry, time.Second), waits("no such account")},
		{"the last retry", once, settling(millrace.Retry, 0), fails("no such account")},
		{"the end of a lease", millrace.QueueSettings{}, expiring, waits(millrace.ErrorLeaseEnded)},
		{"the end of a lease of a blocking queue", block, expiring, waits(millrace.ErrorLeaseEnded)},
		{"the end of the last lease", once, expiring, fails(millrace.ErrorLeaseEnded)},
		{"a release", millrace.QueueSettings{}, releasing, waits(millrace.ErrorLeaseEnded)},
		{"a release of the last attempt", once, releasing, fails(millrace.ErrorLeaseEnded)},
	}
}

func movesWithItsMessage(t *testing.T, c Config) {
	r := open(t, c)
	for _, p := range paths() {
		for _, ordered := range []bool{false, true} {
			p.settings.Ordered = ordered
			q := r.tracked(p.settings)
			r.each(func(lane int) {
				number := r.publish(lane, keyed(event("a", "a1", q), "k"))[0].Seq
				op := r.operation(lane, number)
				r.pass(time.Second)
				h := r.leaseAs(lane, q, "worker", 1)
				op = r.moved(lane, op, r.running(1))
				r.pass(time.Second)
				p.do(r, lane, q, h)
				op = r.moved(lane, op, p.want(r))
				if r.Failed() {
					r.Fatalf("after %s", p.name)
				}
				if op.Status == millrace.OperationQueued {
					r.pass(time.Second)
					r.step(lane)
					h = r.leased(lane, q, 1)
					r.moved(lane, op, r.running(2))
					r.agreeIn(lane, q)
					r.settled(lane, q, millrace.Ack, h.items()...)
				}
				r.agreeIn(lane, q)
			})
		}
	}
}

func finishedNeverChanges(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		numbers := r.starts(lane, q, "a1", "b1", "c1", "d1")
		r.cancel(lane, numbers[3])
		h := r.leaseAs(lane, q, "worker", 3)
		r.settled(lane, q, millrace.Ack, h.item(0))
		r.settled(lane, q, millrace.Bury, h.item(1))
		r.cancel(lane, numbers[2])
		r.settled(lane, q, millrace.Retry, h.item(2))
		var was []millrace.StoredOperation
		for _, number := range numbers {
			was = append(was, r.operation(lane, number))
		}
		r.pass(time.Second)
		r.lost(lane, q, h.items()...)
		for i := range h.Messages {
			r.refused(r.reports(lane, h, i, 50, "late"), millrace.CodeLost)
		}
		r.pass(minute)
		r.step(lane)
		r.same("released", r.release(lane, q, "worker", 9), 0)
		r.lease(lane, q, 9)
		for _, op := range was {
			_, err := r.CancelOperation(r.ctx(), lane, r.now, op.ID.Number)
			r.refused(err, millrace.CodeFinished)
			r.same("operation", r.operation(lane, op.ID.Number), op)
		}
	})
}

func latestAttempt(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	op := r.operation(0, r.starts(0, q, "a1")[0])
	for attempt, err := range []string{"first", "second", ""} {
		r.pass(time.Second)
		h := r.leased(0, q, 1)
		op = r.moved(0, op, r.running(attempt+1))
		item := h.item(0)
		item.Error = err
		r.pass(time.Second)
		r.settled(0, q, millrace.Retry, item)
		op = r.moved(0, op, again(err))
	}
	r.leased(0, q, 1)
	r.pass(minute)
	r.step(0)
	r.same("error", r.operation(0, op.ID.Number).Error, millrace.ErrorLeaseEnded)
	h := r.leased(0, q, 1)
	r.same("error while it runs", r.operation(0, op.ID.Number).Error, millrace.ErrorLeaseEnded)
	r.settled(0, q, millrace.Ack, h.items()...)
	got := r.operation(0, op.ID.Number)
	r.same("error after a success", got.Error, millrace.ErrorLeaseEnded)
	r.same("attempts", got.Attempts, 5)
}

func outputKept(t *testing.T, c Config) {
	r := open(t, c)
	q, plain := r.tracked(millrace.QueueSettings{}), r.queue(0)
	r.each(func(lane int) {
		numbers := r.starts(lane, q, "a1", "b1", "c1")
		h := r.leased(lane, q, 3)
		items := h.items()
		items[0].Output = []byte(`{"rows":3}`)
		items[1].Output = []byte(`"` + strings.Repeat("x", millrace.MaxOutput-2) + `"`)
		r.settled(lane, q, millrace.Ack, items...)
		for i, number := range numbers {
			if got := r.operation(lane, number).Output; !bytes.Equal(got, items[i].Output) {
				t.Errorf("output %d has %d bytes, want %d", i, len(got), len(items[i].Output))
			}
		}
		r.publish(lane, event("a", "p", plain))
		item := r.leased(lane, plain, 1).item(0)
		item.Output = []byte(`1`)
		r.settled(lane, plain, millrace.Ack, item)
	})
}

func purgeCancels(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		late := r.starting(q, "b2")
		late.Delay = time.Second
		numbers := append(r.starts(lane, q, "a1", "a2", "b1"), r.start(lane, late).ID.Number)
		h := r.leased(lane, q, 1)
		waits := r.operation(lane, numbers[1])
		r.pass(time.Second)
		r.same("purged", r.purge(lane, q, "", 100), []int{3, 0})
		r.moved(lane, waits, r.ended(millrace.OperationCancelled, retention))
		r.is(lane, millrace.OperationCancelled, numbers[1:]...)
		r.is(lane, millrace.OperationRunning, numbers[0])
		r.settled(lane, q, millrace.Ack, h.items()...)
		r.same("purged of nothing", r.purge(lane, q, "", 100), []int{0, 0})
		r.is(lane, millrace.OperationSuccess, numbers[0])
	})
}

func dropOldestCancels(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{MaxLength: 2, DropOldest: true})
	r.each(func(lane int) {
		stamps := r.publish(lane, event("a", "a1", q), event("a", "a2", q), event("b", "b1", q))
		op := r.operation(lane, stamps[0].Seq)
		r.pass(time.Second)
		exit := func(i int) []millrace.Exit {
			return []millrace.Exit{{Queue: q, Name: stamps[i].Seq, Reason: millrace.ReasonMaxLength}}
		}
		r.same("dropped by a commit", r.commit(lane, event("a", "a3", q)).Dropped, exit(0))
		r.moved(lane, op, r.ended(millrace.OperationCancelled, retention))
		r.same("dropped by a start", r.start(lane, r.starting(q, "a4")).Dropped, exit(1))
		r.is(lane, millrace.OperationCancelled, stamps[1].Seq)
		r.is(lane, millrace.OperationQueued, stamps[2].Seq)
		r.same("dropped", r.stats(lane, q).Dropped, int64(2))
	})
}

func sweepCancels(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		q := r.tracked(millrace.QueueSettings{Retention: 7 * time.Minute, ErrorRetention: retention})
		numbers := r.starts(lane, q, "a1", "b1", "c1", "d1")
		h := r.leased(lane, q, 3)
		r.settled(lane, q, millrace.Bury, h.item(0))
		late := h.item(1)
		late.Delay = time.Hour
		r.settled(lane, q, millrace.Retry, late)
		finished, runs := r.operation(lane, numbers[0]), r.operation(lane, numbers[2])
		r.remove(q)
		r.same("by its queue", r.numbers(lane, millrace.OperationPage{Queue: q}), []uint64{})
		r.same("cancelled before the sweep", r.cancel(lane, numbers[3]).Status, millrace.OperationCancelled)
		r.refused(r.reports(lane, h, 2, 50, "late"), millrace.CodeLost)
		r.same("running before the sweep", r.operation(lane, numbers[2]), runs)
		r.sweepAll(lane)
		r.moved(lane, finished, func(*millrace.StoredOperation) {})
		r.moved(lane, runs, r.ended(millrace.OperationCancelled, 7*time.Minute))
		r.is(lane, millrace.OperationCancelled, numbers[1:]...)
		r.same("by its subject", r.numbers(lane, millrace.OperationPage{Subject: "link:c"}), numbers[2:3])
		r.pass(7 * time.Minute)
		r.forgotten(lane, numbers[2])
		r.same("by its subject, expired", r.numbers(lane, millrace.OperationPage{Subject: "link:c"}), []uint64{})
		r.is(lane, millrace.OperationError, numbers[0])
		r.pass(errorRetention)
		r.same("forgotten", r.step(lane).Ended, 4)
	})
}

func sweepCancelsBounded(t *testing.T, c Config) {
	r := open(t, c)
	for _, ordered := range []bool{false, true} {
		q := r.tracked(millrace.QueueSettings{Ordered: ordered})
		var numbers []uint64
		for i := range 25 {
			numbers = append(numbers, r.publish(0, keyed(event(string(rune('a'+i%3)), "x", q), fmt.Sprint("k", i%4)))[0].Seq)
		}
		late := r.leased(0, q, 2).items()
		late[0].Delay = time.Hour
		r.settled(0, q, millrace.Retry, late[0])
		r.remove(q)
		for left := 25; left > 0; {
			n, err := r.Sweep(r.ctx(), 0, 4)
			r.ok(err)
			if n == 0 || n > 4 {
				t.Fatalf("a sweep of 4 freed %d, %d were left", n, left)
			}
			left -= n
			open := 0
			for _, number := range numbers {
				if !r.operation(0, number).Status.Finished() {
					open++
				}
			}
			r.same("open", open, left)
		}
		r.is(0, millrace.OperationCancelled, numbers...)
	}
}

func trackedCannotChange(t *testing.T, c Config) {
	r := open(t, c)
	q, plain := r.tracked(millrace.QueueSettings{}), r.queue(0)
	r.change(q, func(s *millrace.QueueSettings) { s.Tracked = false })
	r.change(plain, func(s *millrace.QueueSettings) { s.Tracked, s.Retention, s.ErrorRetention = true, retention, retention })
	r.is(0, millrace.OperationQueued, r.starts(0, q, "a1")...)
	_, err := r.Start(r.ctx(), 0, r.starting(plain, "a1"))
	r.refused(err, millrace.CodeNotTracked)
	r.queues = nil // what the test believes of them is not so
}

func untrackedHasNone(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(1)
	seq := r.publish(0, event("a", "a1", q))[0].Seq
	r.forgotten(0, seq)
	r.settled(0, q, millrace.Bury, r.leased(0, q, 1).items()...)
	r.redrive(0, millrace.DeadOf{Queue: q, All: true, Max: 9})
	r.same("leased with", r.leased(0, q, 1).Messages[0].Operation, millrace.OperationID{})
	r.same("list", r.numbers(0, millrace.OperationPage{Queue: q}), []uint64{})
	counts, total := r.count(0, q, millrace.Days)
	r.same("counts", counts, []millrace.OperationCount{})
	r.same("total", total, millrace.Tally{})
}
