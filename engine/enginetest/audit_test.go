package enginetest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

// story is a short load on a model, with an honest ledger.
func story(t *testing.T) (*Model, *Load) {
	t.Helper()
	m := NewModel(1, time.Now)
	m.window = time.Hour
	if err := Prepare(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	l := &Load{Engine: m, Ledger: NewLedger(), Name: "story"}
	l.defaults()
	for _, id := range []string{"a", "b", "c", "d"} {
		l.publish("publish "+id, both2(id))
	}
	h := l.lease("lease", 0, patientQueue, 2, "c")
	l.settle("ack", 0, patientQueue, millrace.Ack, h.part(0), 0)
	l.settle("bury", 0, patientQueue, millrace.Bury, h.part(1), 0)
	l.lease("abandon", 0, impatientQueue, 1, "c")
	return m, l
}

// both2 is a commit of two events for both queues.
func both2(id string) []LedgerEvent {
	queues := []string{patientQueue, impatientQueue}
	return []LedgerEvent{{ID: id + "1", Tenant: "t", Key: "k", Queues: queues}, {ID: id + "2", Tenant: "t", Key: "k", Queues: queues}}
}

func TestAnHonestStoreIsFoundClean(t *testing.T) {
	m, l := story(t)
	mail(l)
	k := l.take("take", 0, 5)
	l.tell("some", 0, []millrace.Outcome{k.sent(0), k.failed(1), k.failed(2)})
	l.Ledger.Record(Entry{Call: "unknown", Phase: Invoked, Op: "publish", Events: both2("x")})
	l.Ledger.Record(Entry{Call: "unknown", Phase: Uncertain, Op: "publish"})
	if err := Audit(t.Context(), m, l.Ledger.History()); err != nil {
		t.Error(err)
	}
}

func TestAnHonestStoreThatWasManagedIsFoundClean(t *testing.T) {
	m, l := story(t)
	l.publish("publish p", []LedgerEvent{{ID: "p", Tenant: "t", Key: "k", Queues: []string{purgedQueue}}})
	l.purge("purge", 0, "t")
	l.publish("publish q", []LedgerEvent{{ID: "q", Tenant: "t", Key: "k", Queues: []string{purgedQueue}}})
	l.redrive("redrive", 0, patientQueue, 9)
	injectOne(l)
	l.weigh("weigh", 0, patientQueue, "t", &millrace.TenantSettings{Weight: 0})
	l.release("give back", 0, impatientQueue, "c", held{})
	l.weigh("pause", 0, impatientQueue, "t", nil)
	if err := Audit(t.Context(), m, l.Ledger.History()); err != nil {
		t.Error(err)
	}
}

func TestTheAuditFindsWhatIsWrong(t *testing.T) {
	for _, c := range tampers() {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			m, l := story(t)
			c.tamper(m, l)
			err := Audit(t.Context(), m, l.Ledger.History())
			if err == nil || !strings.Contains(err.Error(), c.found) {
				t.Errorf("got %v, want a fault that says %q", err, c.found)
			}
		})
	}
}

// tamper is something wrong with a store or its ledger, and what the audit says of it.
type tamper struct {
	name, found string
	tamper      func(m *Model, l *Load)
}

func tampers() []tamper {
	return slices.Concat(storeTampers(), ledgerTampers(), orderTampers(), manageTampers(), batchTampers(), operationTampers())
}

// orderTampers are what a faulty engine would do to order and to delayed events.
func orderTampers() []tamper {
	line := func(l *Load) {
		queues := []string{orderedQueue}
		for _, id := range []string{"o1", "o2", "o3"} {
			l.publish("publish "+id, []LedgerEvent{{ID: id, Tenant: "t", Key: "k", Queues: queues}})
		}
	}
	late := func(l *Load) {
		l.publish("late", []LedgerEvent{{ID: "late~t", Tenant: "t", Queues: heldQueues(), Delay: time.Millisecond}})
	}
	return []tamper{
		{"out of order", "was leased before", func(m *Model, l *Load) {
			line(l)
			m.lanes[0].queues[orderedQueue].settings.Ordered = false
			h := l.lease("both", 0, orderedQueue, 2, "")
			l.settle("only the second", 0, orderedQueue, millrace.Ack, h.part(1), 0)
		}},
		{"two in flight", "are in flight", func(m *Model, l *Load) {
			line(l)
			m.lanes[0].queues[orderedQueue].settings.Ordered = false
		}},
		{"drained backwards", "came after", func(m *Model, l *Load) {
			line(l)
			find(m, orderedQueue, "o3").place = -1
		}},
		{"held lost", "is lost", func(m *Model, l *Load) {
			late(l)
			m.lanes[0].held = nil
		}},
		{"held twice", "lanes count", func(m *Model, l *Load) {
			late(l)
			copied := *m.lanes[0].held[0]
			copied.name++
			m.lanes[0].held = append(m.lanes[0].held, &copied)
		}},
		{"held id forgotten", "is not known", func(m *Model, l *Load) {
			late(l)
			clear(m.lanes[0].digests)
		}},
	}
}

// storeTampers are what a faulty engine would do.
func storeTampers() []tamper {
	return []tamper{
		{"lost", "is lost", func(m *Model, _ *Load) { forget(m, patientQueue, "c1") }},
		{"half", "dead letters", func(m *Model, _ *Load) { forget(m, impatientQueue, "c1") }},
		{"settled is back", "was settled and is there", func(m *Model, l *Load) {
			repeat(m, patientQueue, l.Ledger.History()[8+1].Events[0])
		}},
		{"buried is back", "was settled and is there", func(m *Model, l *Load) {
			repeat(m, patientQueue, l.Ledger.History()[8+1].Events[1])
		}},
		{"phantom", "nobody published", func(m *Model, _ *Load) { repeat(m, patientQueue, LedgerEvent{ID: "ghost", Tenant: "t", Seq: 5}) }},
		{"stored twice", "and is message", func(m *Model, _ *Load) { repeat(m, patientQueue, LedgerEvent{ID: "d1", Tenant: "t", Seq: 6}) }},
		{"another tenant's", "was served as", func(m *Model, _ *Load) {
			find(m, patientQueue, "d1").tenant = "other"
			m.lanes[0].queues[patientQueue].ring = []string{"t", "other"}
		}},
		{"forgotten id", "is not known", func(m *Model, _ *Load) { clear(m.lanes[0].digests) }},
		{"a part of a commit", "only a part was stored", func(_ *Model, l *Load) {
			l.publish("part", both2("p")[:1])
			h := l.Ledger.entries
			h[len(h)-2].Events = both2("p")
			l.Ledger.entries = h[:len(h)-1]
		}},
		{"refused and stored", "was refused and is", func(_ *Model, l *Load) {
			l.publish("refused", both2("r"))
			e := &l.Ledger.entries[len(l.Ledger.entries)-1]
			e.Phase, e.Events = Refused, nil
		}},
	}
}

// ledgerTampers are what a ledger would show of a faulty engine.
func ledgerTampers() []tamper {
	return []tamper{
		{"forbidden error", "must not see", func(_ *Model, l *Load) {
			l.Ledger.Record(Entry{Call: "bad", Phase: Forbidden, Op: "lease", Error: "NOSCRIPT"})
		}},
		{"a gap in the chain", "has prev", func(m *Model, l *Load) {
			clear(m.lanes[0].last)
			l.publish("gap", both2("g"))
		}},
		{"a stamp that changes", "was stamped", func(_ *Model, l *Load) {
			l.publish("again", both2("a"))
			l.Ledger.entries[len(l.Ledger.entries)-1].Events[0].Seq++
		}},
		{"acknowledged as the first twice", "was stored twice", func(_ *Model, l *Load) {
			l.publish("again", both2("a"))
			l.Ledger.entries[len(l.Ledger.entries)-1].Events[0].Duplicate = false
		}},
		{"leased after settled", "was leased after it was settled", func(_ *Model, l *Load) {
			acked := l.Ledger.History()[8+1].Events[0]
			l.Ledger.Record(Entry{Call: "late", Phase: Invoked, Op: "lease", Queue: patientQueue})
			l.Ledger.Record(Entry{Call: "late", Phase: Done, Op: "lease", Queue: patientQueue, Events: []LedgerEvent{acked}})
		}},
		{"one attempt twice", "was leased twice as attempt", func(_ *Model, l *Load) {
			h := l.Ledger.History()
			e := h[len(h)-1]
			l.Ledger.Record(Entry{Call: "copy", Phase: Invoked, Op: "lease", Queue: e.Queue})
			e.Call = "copy"
			l.Ledger.Record(e)
		}},
		{"counted and not stored", "the lanes count", func(m *Model, _ *Load) { m.lanes[0].stats.Published++ }},
	}
}

func find(m *Model, queue, id string) *modelMessage {
	q := m.lanes[0].queues[queue]
	return q.messages[slices.IndexFunc(q.messages, func(msg *modelMessage) bool { return string(msg.body) == id })]
}

// forget loses a message of the model.
func forget(m *Model, queue, id string) {
	q, lost := m.lanes[0].queues[queue], find(m, queue, id)
	q.messages = slices.DeleteFunc(q.messages, func(msg *modelMessage) bool { return msg == lost })
}

// repeat puts a message into a queue of the model that should not be there.
func repeat(m *Model, queue string, e LedgerEvent) {
	q := m.lanes[0].queues[queue]
	q.messages = slices.DeleteFunc(q.messages, func(msg *modelMessage) bool { return msg.seq == e.Seq })
	q.messages = append(q.messages, &modelMessage{name: e.Seq, seq: e.Seq, tenant: e.Tenant, body: []byte(e.ID)})
}

func TestACutHistoryKnowsNoLaterOutcome(t *testing.T) {
	h := History{{Call: "1", Phase: Invoked}, {Call: "1", Phase: Done}, {Call: "2", Phase: Invoked}, {Call: "2", Phase: Done}, {Call: "3", Phase: Invoked}}
	want := History{h[0], h[1], h[2], h[4]}
	want[3].later = true
	if diff := cmp.Diff(want, h.Cut(3), cmp.AllowUnexported(Entry{})); diff != "" {
		t.Errorf("cut (-want +got):\n%s", diff)
	}
}

func TestALedgerInAFileIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := FileLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	want := History{
		{Call: "1", Phase: Invoked, Op: "publish", Lane: 3, Events: both2("a")},
		{Call: "1", Phase: Uncertain, Op: "publish", Lane: 3, Code: millrace.CodeOutcomeUnknown, Error: "gone"},
	}
	for _, e := range want {
		l.Record(e)
	}
	if _, err := l.file.WriteString(`{"Call":"cut sho`); err != nil {
		t.Fatal(err)
	}
	if err := l.file.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Entry{})); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestTurnsThatAreFairAreFoundFair(t *testing.T) {
	turns := NewTurns()
	for _, step := range []string{"+a", "+a", "+a", "a", "+b", "a", "b", "a", "+a", "a"} {
		if tenant, waits := strings.CutPrefix(step, "+"); waits {
			turns.Waits(tenant)
		} else if err := turns.Served(tenant); err != nil {
			t.Fatal(err)
		}
	}
	if turns.Waiting() != 0 {
		t.Errorf("%d tenants wait", turns.Waiting())
	}
}

func TestATenantServedTwiceWhileAnotherWaitsIsFound(t *testing.T) {
	turns := NewTurns()
	for _, tenant := range []string{"a", "a", "b", "c", "b"} {
		turns.Waits(tenant)
	}
	if err := turns.Served("a"); err != nil {
		t.Fatal(err)
	}
	if turns.Served("a") == nil {
		t.Error("a was served twice while b waited, and nobody noticed")
	}
	if turns.Served("nobody") == nil {
		t.Error("a tenant that does not wait was served, and nobody noticed")
	}
}

func TestJainsIndexIsOneForEqualShares(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{{[]float64{3, 3, 3}, 1}, {[]float64{1, 0, 0, 0}, 0.25}, {nil, 1}, {[]float64{1, 3}, 0.8}} {
		if got := Jain(c.shares); got != c.want {
			t.Errorf("Jain(%v) = %v, want %v", c.shares, got, c.want)
		}
	}
}
