package enginetest

import (
	"maps"
	"slices"
	"testing"

	"github.com/millrace-dev/millrace"
)

func awaitPromises() []promise {
	return []promise{
		{"EachKindOfChangeOfAWatchedOperationSendsOneHint", changeHints},
		{"AnOperationThatNobodyWatchesSendsNoHint", unwatchedSendsNothing},
		{"AFinishedOperationIsNotWatched", finishedSendsNothing},
	}
}

// awaited reads an operation and watches it.
func (r *rig) awaited(lane int, number uint64) millrace.StoredOperation {
	r.Helper()
	op, err := r.Operation(r.ctx(), lane, millrace.ReadOperation{Now: r.now, Number: number, Watch: true})
	r.ok(err)
	return op
}

// of is how often an operation's change was heard.
func (h *hints) of(lane int, number uint64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, hint := range h.list {
		if hint.Kind == millrace.HintOperation && hint.Lane == lane && hint.Operation == number {
			n++
		}
	}
	return n
}

// afterAll waits until whatever a lane has sent before is heard.
func (r *rig) afterAll(h *hints, lane int) {
	r.Helper()
	q := r.tracked(millrace.QueueSettings{})
	number := r.starts(lane, q, "z1")[0]
	r.awaited(lane, number)
	r.cancel(lane, number)
	r.waitFor("a hint that was sent later", func() bool { return h.of(lane, number) == 1 })
	r.remove(q)
	r.sweepAll(lane)
}

// changeHints watches an operation before each of its changes, and twice before some.
func changeHints(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.each(func(lane int) {
		r.settleWatch(h, lane)
		changes := map[string]func(q string, l held){
			"report": func(_ string, l held) { r.ok(r.reports(lane, l, 0, 10, "")) },
			"a wish": func(_ string, l held) { r.cancel(lane, l.Messages[0].Operation.Number) },
		}
		for _, p := range paths() {
			changes[p.name] = func(q string, l held) { p.do(r, lane, q, l) }
		}
		for _, name := range slices.Sorted(maps.Keys(changes)) {
			r.runningHints(h, lane, name, changes[name])
		}
		waits := map[string]func(q string, number uint64){
			"cancel": func(_ string, number uint64) { r.cancel(lane, number) },
			"purge":  func(q string, _ uint64) { r.purge(lane, q, "", 9) },
			"drop":   func(q string, _ uint64) { r.starts(lane, q, "a2") },
			"sweep": func(q string, _ uint64) {
				r.remove(q)
				r.sweepAll(lane)
			},
		}
		for _, name := range slices.Sorted(maps.Keys(waits)) {
			q := r.tracked(millrace.QueueSettings{MaxLength: 1, DropOldest: true})
			number := r.starts(lane, q, "a1")[0]
			r.awaited(lane, number)
			waits[name](q, number)
			r.waitFor("a hint of "+name, func() bool { return h.of(lane, number) == 1 })
		}
	})
}

// runningHints makes an operation run and changes it, and hears one hint of each.
func (r *rig) runningHints(h *hints, lane int, name string, change func(q string, l held)) {
	r.Helper()
	q := r.tracked(millrace.QueueSettings{MaxAttempts: 2})
	number := r.starts(lane, q, "a1")[0]
	r.awaited(lane, number)
	r.awaited(lane, number)
	l := r.leaseAs(lane, q, "worker", 1)
	r.waitFor("a hint of the lease before "+name, func() bool { return h.of(lane, number) == 1 })
	r.awaited(lane, number)
	r.extend(lane, q, minute, l.items()...)
	change(q, l)
	r.waitFor("a hint of "+name, func() bool { return h.of(lane, number) == 2 })
	r.settle(lane, q, millrace.Ack, l.items()...)
	r.purge(lane, q, "", 9)
	r.afterAll(h, lane)
	r.same("hints after "+name, h.of(lane, number), 2)
}

func unwatchedSendsNothing(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.settleWatch(h, 0)
	q := r.tracked(millrace.QueueSettings{})
	numbers := r.starts(0, q, "a1", "b1")
	r.awaited(0, numbers[1])
	r.operation(0, numbers[0])
	l := r.leased(0, q, 1)
	r.ok(r.reports(0, l, 0, 10, ""))
	r.settled(0, q, millrace.Ack, l.items()...)
	r.afterAll(h, 0)
	r.same("hints", []int{h.of(0, numbers[0]), h.of(0, numbers[1])}, []int{0, 0})
	l = r.leased(0, q, 1)
	r.ok(r.reports(0, l, 0, 10, ""))
	r.afterAll(h, 0)
	r.same("hints of the watched", h.of(0, numbers[1]), 1)
	r.cancel(0, numbers[1])
	r.awaited(0, numbers[1])
	r.cancel(0, numbers[1]) // the second wish changes nothing
	r.afterAll(h, 0)
	r.same("hints of a second wish", h.of(0, numbers[1]), 1)
}

func finishedSendsNothing(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.settleWatch(h, 0)
	q := r.tracked(millrace.QueueSettings{})
	number := r.bury(0, q, "a1")[0]
	r.same("status", r.awaited(0, number).Status, millrace.OperationError)
	_, err := r.Operation(r.ctx(), 0, millrace.ReadOperation{Now: r.now, Number: 77, Watch: true})
	r.refused(err, millrace.CodeNotFound)
	r.redrive(0, millrace.DeadOf{Queue: q, Names: []uint64{number}})
	r.pass(2 * errorRetention)
	r.same("forgotten", r.step(0).Ended, 1)
	r.leased(0, q, 1)
	r.afterAll(h, 0)
	r.same("hints", h.of(0, number), 0)
}
