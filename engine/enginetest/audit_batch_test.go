package enginetest

import (
	"fmt"
	"slices"

	"github.com/millrace-dev/millrace"
)

// mail publishes a hundred events to both subscriptions: ten batches of the one, two of the other.
func mail(l *Load) {
	for commit := range 4 {
		var events []LedgerEvent
		for i := range 25 {
			id := fmt.Sprintf("m%d-%d", commit, i)
			events = append(events, LedgerEvent{ID: id, Tenant: "t", Key: "k", Queues: []string{patientQueue}, Subs: loadSubs()})
		}
		l.publish(fmt.Sprint("mail ", commit), events)
	}
}

// batchOf is a batch of the model that the load filled.
func batchOf(m *Model, sub string, i int) *modelBatch { return m.lanes[0].subs[sub].batches[i] }

// batchTampers are what a faulty engine would do to batches.
func batchTampers() []tamper {
	return []tamper{
		{"event of a batch lost", "of subscription 00000000000000b1 is lost", func(m *Model, l *Load) {
			mail(l)
			b := batchOf(m, plainSub, 3)
			b.events = b.events[:9]
		}},
		{"batch lost", "with event", func(m *Model, l *Load) {
			mail(l)
			l.take("abandoned", 0, 1)
			m.lanes[0].subs[plainSub].remove(batchOf(m, plainSub, 0))
		}},
		{"sent batch is back", "was sent and is there", func(m *Model, l *Load) {
			mail(l)
			copied := *batchOf(m, plainSub, 0)
			k := l.take("take", 0, 1)
			l.tell("sent", 0, k.each(taken.sent))
			s := m.lanes[0].subs[plainSub]
			s.batches = append([]*modelBatch{&copied}, s.batches...)
		}},
		{"batch changed", "changed from", func(m *Model, l *Load) {
			mail(l)
			k := l.take("take", 0, 2)
			l.tell("failed", 0, k.each(taken.failed))
			slices.Reverse(batchOf(m, orderedSub, 0).events)
		}},
		{"event in two batches", "is in batches", func(m *Model, l *Load) {
			mail(l)
			a, b := batchOf(m, plainSub, 0), batchOf(m, plainSub, 1)
			a.events = append(a.events, b.events[0])
		}},
		{"out of the order of seqs", "holds", func(m *Model, l *Load) {
			mail(l)
			slices.Reverse(batchOf(m, plainSub, 0).events[1:])
		}},
		{"phantom in a batch", "which nobody published", func(m *Model, l *Load) {
			mail(l)
			batchOf(m, orderedSub, 1).events[1].body = []byte("ghost")
		}},
		{"to the wrong subscription", "where it was not sent", func(m *Model, l *Load) {
			mail(l)
			l.publish("other", []LedgerEvent{{ID: "o", Tenant: "t", Key: "k", Queues: []string{patientQueue}, Subs: []string{orderedSub}}})
			from := batchOf(m, orderedSub, 2)
			s := m.lanes[0].subs[plainSub]
			copied := *from
			s.batches = append(s.batches, &copied)
		}},
		{"overtaken", "was overtaken", func(m *Model, l *Load) {
			mail(l)
			m.lanes[0].subs[orderedSub].settings.Ordered = false
			k := l.take("both", 0, 12)
			second := slices.IndexFunc(k.Batches, func(b millrace.TakenBatch) bool { return b.Name == batchOf(m, orderedSub, 1).name })
			l.tell("only the second", 0, []millrace.Outcome{k.sent(second)})
		}},
		{"batches miscounted", "sent or dead, want", func(m *Model, l *Load) {
			mail(l)
			m.lanes[0].subs[orderedSub].sent++
		}},
		{"one attempt of a batch twice", "was taken twice as attempt", func(_ *Model, l *Load) {
			mail(l)
			l.take("take", 0, 1)
			h := l.Ledger.History()
			e := h[len(h)-1]
			l.Ledger.Record(Entry{Call: "copy", Phase: Invoked, Op: "take"})
			e.Call = "copy"
			l.Ledger.Record(e)
		}},
		{"taken after it was sent", "was taken after it was sent", func(_ *Model, l *Load) {
			mail(l)
			k := l.take("take", 0, 1)
			l.tell("sent", 0, k.each(taken.sent))
			l.Ledger.Record(Entry{Call: "late", Phase: Invoked, Op: "take"})
			again := ledgerBatch(k.Batches[0])
			again.Attempt++
			l.Ledger.Record(Entry{Call: "late", Phase: Done, Op: "take", Batches: []LedgerBatch{again}})
		}},
	}
}
