package enginetest

import (
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// manageTampers are what a faulty engine would do to an operator's calls.
func manageTampers() []tamper {
	return slices.Concat(purgeTampers(), redriveTampers(), []tamper{
		{"injected lost", "is lost", func(m *Model, l *Load) {
			injectOne(l)
			forget(m, patientQueue, "stray")
		}},
		{"injected twice", "and is message", func(_ *Model, l *Load) {
			injectOne(l)
			in := millrace.Inject{Queue: patientQueue, Events: []millrace.InjectEvent{{Tenant: "t", Seq: 77, Body: []byte("stray")}}}
			if err := l.Engine.Inject(context.Background(), 0, in); err != nil {
				panic(err)
			}
		}},
		{"injected with another seq", "seq 77 of its own", func(m *Model, l *Load) {
			injectOne(l)
			find(m, patientQueue, "stray").seq = 78
		}},
		{"weight lost", "was given", func(_ *Model, l *Load) {
			l.weigh("weigh", 0, patientQueue, "t", &millrace.TenantSettings{Weight: 3})
			if err := l.Engine.SetTenant(context.Background(), 0, patientQueue, "t", nil); err != nil {
				panic(err)
			}
		}},
		{"release that released nothing", "settled after it was released", func(_ *Model, l *Load) {
			h := l.lease("held", 0, patientQueue, 1, "c")
			l.settleReleased("late", 0, patientQueue, h)
		}},
	})
}

func injectOne(l *Load) {
	l.inject("inject", 0, []LedgerEvent{{ID: "stray", Tenant: "t", Queues: []string{patientQueue}, Own: 77}})
}

func purgeTampers() []tamper {
	fill := func(l *Load, ids ...string) {
		for _, id := range ids {
			l.publish("publish "+id, []LedgerEvent{{ID: id, Tenant: "t", Key: "k", Queues: []string{purgedQueue}}})
		}
	}
	return []tamper{
		{"purged is back", "was purged and is there", func(m *Model, l *Load) {
			fill(l, "p1", "p2")
			gone := *find(m, purgedQueue, "p1")
			l.purge("purge", 0, "t")
			q := m.lanes[0].queues[purgedQueue]
			q.messages = append(q.messages, &gone)
			q.ring = []string{"t"}
		}},
		{"lost before a purge that did not meet it", "nobody purged it", func(m *Model, l *Load) {
			fill(l, "p1")
			l.purge("purge", 0, "another")
			forget(m, purgedQueue, "p1")
		}},
		{"purged more than it told", "are missing", func(m *Model, l *Load) {
			fill(l, "p1", "p2")
			forget(m, purgedQueue, "p1")
			l.purge("purge", 0, "t")
		}},
	}
}

func redriveTampers() []tamper {
	return []tamper{
		{"redriven lost", "is lost", func(m *Model, l *Load) {
			l.redrive("redrive", 0, patientQueue, 9)
			forget(m, patientQueue, "a2")
		}},
		{"redriven still dead", "is lost", func(m *Model, l *Load) {
			l.redrive("redrive", 0, patientQueue, 9)
			find(m, patientQueue, "a2").state = dead
		}},
		{"redriven in part", "dead letters wait", func(_ *Model, l *Load) {
			l.redrive("redrive", 0, patientQueue, 9)
			l.Ledger.entries[len(l.Ledger.entries)-1].Count = 0
		}},
		{"redriven under another name", "and is message", func(m *Model, l *Load) {
			l.redrive("redrive", 0, patientQueue, 9)
			msg := find(m, patientQueue, "a2")
			msg.name = m.lanes[0].next()
			msg.seq = msg.name
		}},
	}
}
