package enginetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func cancelPromises() []promise {
	return []promise{
		{"AQueuedOperationThatIsCancelledHasFinishedAndIsNeverLeased", cancelQueued},
		{"ACancelledMessageThatIsDelayedIsDroppedWhenItComesUp", cancelDelayed},
		{"AKeyGoesOnWhenItsCancelledHeadComesUp", cancelHead},
		{"ACancelledMessageTakesItsTenantsTurn", cancelTakesTurn},
		{"ACancelledMessageIsNotOfTheBytes", cancelNotOfBytes},
		{"AThousandCancelledOnesAreDroppedInBoundedSteps", cancelThousand},
		{"APeekDoesNotShowCancelledMessages", cancelNotPeeked},
		{"ACancelledMessageCountsAsDroppedWhenItIsPurgedOrDropped", cancelPurged},
		{"ARunningOperationIsToldToStopWhenItIsExtended", cancelTold},
		{"ARunningOperationThatWouldWaitAgainIsCancelledInstead", cancelRunning},
		{"AnAckOrABuryEndsAnOperationThatIsToBeCancelled", cancelEndsOtherwise},
		{"ACancelledLeaseFreesItsKeyAndItsTenantsLimit", cancelFrees},
		{"CancelsAndLeasesAtOnceAgree", cancelAgainstLease},
	}
}

func cancelQueued(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		numbers := r.starts(lane, q, "a1", "a2", "b1")
		op := r.operation(lane, numbers[0])
		r.pass(time.Second)
		r.cancel(lane, numbers[0])
		r.moved(lane, op, r.ended(millrace.OperationCancelled, retention))
		stats := r.stats(lane, q)
		r.same("stats", []int64{stats.Ready, stats.Cancelled, stats.Dropped}, []int64{3, 1, 0})
		_, err := r.CancelOperation(r.ctx(), lane, r.now, numbers[0])
		r.refused(err, millrace.CodeFinished)
		r.same("leased", r.lease(lane, q, 9).names(), []string{"b1", "a2"})
		stats = r.stats(lane, q)
		r.same("stats then", []int64{stats.Ready, stats.Leased, stats.Cancelled, stats.Acked, stats.Dropped, stats.Spent}, []int64{0, 2, 0, 0, 0, 0})
		r.moved(lane, op, func(op *millrace.StoredOperation) { *op = r.operation(lane, op.ID.Number) })
		r.same("attempts", r.operation(lane, numbers[0]).Attempts, 0)
	})
}

func cancelDelayed(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		late := r.starting(q, "a1")
		late.Delay = 10 * time.Second
		first := r.start(lane, late).ID.Number
		second := r.starts(lane, q, "a2")[0]
		item := r.leased(lane, q, 1).item(0)
		item.Delay, item.Error = 10*time.Second, "later"
		r.settled(lane, q, millrace.Retry, item)
		r.cancel(lane, first)
		r.same("error", r.cancel(lane, second).Error, "later")
		stats := r.stats(lane, q)
		r.same("stats", []int64{stats.Ready, stats.Delayed, stats.Cancelled}, []int64{0, 2, 2})
		r.pass(10 * time.Second)
		r.same("returned", r.step(lane).Returned, 2)
		r.same("cancelled", r.stats(lane, q).Cancelled, int64(2))
		r.same("leased", r.lease(lane, q, 9).names(), []string{})
		r.counts(lane, q, 0, 0, 0, 0)
		r.same("cancelled then", r.stats(lane, q).Cancelled, int64(0))
	})
}

func cancelHead(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{Ordered: true})
	r.each(func(lane int) {
		r.line(lane, q, "ax1", "ax2", "ay1", "ax3")
		list := r.everyOperation(lane, q) // newest first
		r.cancel(lane, list[3].ID.Number)
		r.same("heads", r.peek(lane, q, "a", 9), []string{"ay1"})
		h := r.lease(lane, q, 2)
		r.same("the head is dropped", h.names(), []string{"ax2"})
		r.same("another key", r.leased(lane, q, 1).names(), []string{"ay1"})
		r.same("the key is blocked", r.lease(lane, q, 9).names(), []string{})
		r.cancel(lane, list[0].ID.Number)
		r.settled(lane, q, millrace.Retry, h.items()...)
		h = r.leased(lane, q, 1)
		r.same("the head again", h.names(), []string{"ax2"})
		r.settled(lane, q, millrace.Ack, h.items()...)
		r.same("the last is dropped", r.lease(lane, q, 9).names(), []string{})
		r.counts(lane, q, 0, 1, 0, 0)
	})
}

func cancelTakesTurn(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{TenantLimit: 2})
	r.each(func(lane int) {
		r.tenant(lane, q, "a", 2, asTheQueue)
		numbers := r.starts(lane, q, "a1", "a2", "a3", "a4", "b1", "b2", "b3")
		r.cancel(lane, numbers[0], numbers[4])
		h := r.lease(lane, q, 1)
		r.same("one is dropped", []int{len(h.Messages), h.Tenants}, []int{0, 2})
		h = r.lease(lane, q, 2)
		r.same("the turn goes on, the next is dropped", h.names(), []string{"a2"})
		r.same("then", r.lease(lane, q, 9).names(), []string{"a3", "b2", "b3"})
		r.counts(lane, q, 1, 4, 0, 0)
	})
}

func cancelNotOfBytes(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	numbers := r.starts(0, q, "a-long-1", "a2", "a-long-3", "a4", "a5")
	r.cancel(0, numbers[0], numbers[2])
	lease := func(bytes int) []string {
		r.Helper()
		l, err := r.Lease(r.ctx(), 0, millrace.Lease{Now: r.now, Queue: q, Max: 9, MaxBytes: bytes, For: minute, Token: r.token()})
		r.ok(err)
		return held{Leased: l}.names()
	}
	r.same("the first is given whatever its size", lease(1), []string{"a2"})
	r.same("the rest", lease(4), []string{"a4", "a5"})
}

func cancelThousand(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	for i := range 10 {
		var events []millrace.CommitEvent
		for j := range 100 {
			events = append(events, event("a", fmt.Sprint(i, "-", j), q))
		}
		for _, s := range r.publish(0, events...) {
			r.cancel(0, s.Seq)
		}
	}
	r.starts(0, q, "a-last")
	r.same("looked at", r.peek(0, q, "", 9), []string{})
	for range 10 {
		h := r.lease(0, q, 100)
		r.same("dropped", []int{len(h.Messages), h.Tenants}, []int{0, 1})
	}
	r.same("then", r.lease(0, q, 100).names(), []string{"a-last"})
	r.counts(0, q, 0, 1, 0, 0)
}

func cancelNotPeeked(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		numbers := r.starts(lane, q, "a1", "a2", "b1", "a3")
		r.cancel(lane, numbers[0])
		r.same("all", r.peek(lane, q, "", 9), []string{"b1", "a2", "a3"})
		r.same("some", r.peek(lane, q, "", 2), []string{"b1", "a2"})
		r.same("a's", r.peek(lane, q, "a", 1), []string{"a2"})
		r.cancel(lane, numbers[1:]...)
		r.same("none", r.peek(lane, q, "", 9), []string{})
		r.same("none of a's", r.peek(lane, q, "a", 9), []string{})
	})
}

func cancelPurged(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{MaxLength: 2, DropOldest: true})
	numbers := r.starts(0, q, "a1", "a2")
	r.cancel(0, numbers[0])
	was := r.operation(0, numbers[0])
	r.pass(time.Second)
	r.same("dropped by a start", len(r.start(0, r.starting(q, "a3")).Dropped), 1)
	r.same("purged", r.purge(0, q, "", 9), []int{2, 0})
	stats := r.stats(0, q)
	r.same("stats", []int64{stats.Dropped, stats.Cancelled}, []int64{3, 0})
	r.same("operation", r.operation(0, numbers[0]), was)
	_, total := r.count(0, q, millrace.Days)
	r.same("total", total, millrace.Tally{Cancelled: 3})
}

func cancelTold(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		numbers := r.starts(lane, q, "a1", "b1", "c1")
		h := r.leased(lane, q, 3)
		op := r.operation(lane, numbers[1])
		r.same("nobody is told", r.extend(lane, q, minute, h.items()...).Cancelled, []int(nil))
		r.cancel(lane, numbers[1])
		op = r.moved(lane, op, func(op *millrace.StoredOperation) { op.CancelRequested = true })
		r.cancel(lane, numbers[1])
		r.moved(lane, op, func(*millrace.StoredOperation) {})
		wrong := h.item(0)
		wrong.Token = r.token()
		done := r.extend(lane, q, minute, wrong, h.item(2), h.item(1), h.item(0))
		r.same("told", [][]int{done.Lost, done.Cancelled}, [][]int{{0}, {2}})
		r.same("told again", r.extend(lane, q, minute, h.item(1)).Cancelled, []int{0})
		r.settled(lane, q, millrace.Ack, h.items()...)
	})
}

// cancelRunning goes every way out of RUNNING with an operation that is to be cancelled.
func cancelRunning(t *testing.T, c Config) {
	r := open(t, c)
	for _, p := range paths()[2:] {
		q := r.tracked(p.settings)
		r.each(func(lane int) {
			r.starts(lane, q, "a1")
			h := r.leaseAs(lane, q, "worker", 1)
			op := r.cancel(lane, h.Messages[0].Operation.Number)
			before := r.stats(lane, q)
			r.pass(time.Second)
			p.do(r, lane, q, h)
			want := again("no such account")
			if got := r.operation(lane, op.ID.Number).Error; got == millrace.ErrorLeaseEnded {
				want = again(millrace.ErrorLeaseEnded)
			}
			want(&op)
			r.moved(lane, op, r.ended(millrace.OperationCancelled, retention))
			before.Leased, before.Oldest = 0, time.Time{}
			r.same("stats", r.stats(lane, q), before)
			r.pass(time.Hour / 2)
			r.step(lane)
			r.same("leased again", r.lease(lane, q, 9).names(), []string{})
			if r.Failed() {
				r.Fatalf("after %s", p.name)
			}
		})
	}
	q := r.tracked(millrace.QueueSettings{MaxAttempts: 1})
	numbers := r.starts(0, q, "a1", "b1")
	h := r.leased(0, q, 2)
	r.cancel(0, numbers...)
	r.same("dead of a retry", r.settle(0, q, millrace.Retry, h.item(0)).Dead, 0)
	r.pass(minute)
	done, err := r.Step(r.ctx(), 0, r.now, 1000)
	r.ok(err)
	r.same("dead of a step", []int{done.Expired, done.Dead}, []int{1, 0})
	r.same("exits", done.Exits, []millrace.Exit{{Queue: q, Name: numbers[1], Reason: millrace.ReasonCancelled}})
}

func cancelEndsOtherwise(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	for _, p := range paths()[:2] {
		r.starts(0, q, "a1")
		h := r.leased(0, q, 1)
		op := r.cancel(0, h.Messages[0].Operation.Number)
		p.do(r, 0, q, h)
		r.moved(0, op, p.want(r))
	}
	r.counts(0, q, 0, 0, 0, 1)
}

func cancelFrees(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{Ordered: true, TenantLimit: 1})
	r.line(0, q, "ax1", "ax2")
	for _, free := range []func(h held){
		func(h held) { r.settled(0, q, millrace.Retry, h.items()...) },
		func(h held) { expiring(r, 0, q, h) },
	} {
		h := r.leased(0, q, 1)
		r.same("at its limit", r.lease(0, q, 1).names(), []string{})
		r.cancel(0, h.Messages[0].Operation.Number)
		free(h)
	}
	r.counts(0, q, 0, 0, 0, 0)
	r.line(0, q, "ax3")
	r.same("the next", r.lease(0, q, 9).names(), []string{"ax3"})
}

// cancelAgainstLease lets one consumer lease and ack while another cancels.
func cancelAgainstLease(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	var numbers []uint64
	for i := range 60 {
		numbers = append(numbers, r.starts(0, q, fmt.Sprint("a", i))...)
	}
	given := map[uint64]bool{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for tenants := 1; tenants > 0; {
			h := held{token: millrace.Token{1, byte(len(given)), byte(tenants)}}
			l, err := r.Lease(r.ctx(), 0, millrace.Lease{Now: r.now, Queue: q, Max: 3, MaxBytes: 1 << 20, For: minute, Token: h.token})
			if err != nil {
				r.Errorf("lease: %v", err)
				return
			}
			h.Leased, tenants = l, l.Tenants
			for _, m := range h.Messages {
				given[m.Name] = true
			}
			if done, err := r.Settle(r.ctx(), 0, millrace.Settle{Now: r.now, Queue: q, Verb: millrace.Ack, Items: h.items()}); err != nil || len(done.Lost) > 0 {
				r.Errorf("settle: lost %v, %v", done.Lost, err)
			}
		}
	})
	gone := map[uint64]bool{}
	for _, number := range slices.Backward(numbers) {
		op, err := r.CancelOperation(r.ctx(), 0, r.now, number)
		if err != nil {
			r.refused(err, millrace.CodeFinished)
		} else if op.Status != millrace.OperationCancelled && !op.CancelRequested {
			r.Errorf("a cancel left operation %d %s", number, op.Status)
		}
		gone[number] = op.Status == millrace.OperationCancelled
	}
	wg.Wait()
	for _, number := range numbers {
		want := millrace.OperationCancelled
		if given[number] {
			want = millrace.OperationSuccess
		}
		r.is(0, want, number)
		r.same("cancelled at once and given", gone[number] && given[number], false)
	}
}
