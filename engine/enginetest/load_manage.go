package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-dev/millrace"
)

// manage does to the queues of a load what an operator would: it redrives dead
// letters, purges, injects, and changes weights and limits. Only one does so in
// a store, so what it has seen dead stays dead until it redrives it.
func (l *Load) manage(ctx context.Context) {
	random := l.random(2000)
	for n := 0; nap(ctx, 4*l.Pace); n++ {
		call := fmt.Sprintf("%s-m-%d", l.Name, n)
		lane := random.IntN(l.Engine.Identity().Lanes)
		switch n % 4 {
		case 0:
			l.redrive(call, lane, []string{patientQueue, impatientQueue}[random.IntN(2)], 1+random.IntN(20))
		case 1:
			l.purge(call, lane, []string{"", tenantOf(random), tenantOf(random)}[random.IntN(3)])
		case 2:
			l.inject(call, lane, l.injected(random, call))
		case 3:
			l.weigh(call, lane, consumedQueues()[random.IntN(4)], tenantOf(random), someSettings(random))
		}
	}
}

// managementOps are what a load does besides publishing, leasing and settling.
func managementOps() []string {
	return []string{"redrive", "purge", "inject", "weigh", "release", "start", "cancel", "observe"}
}

func tenantOf(random *rand.Rand) string { return fmt.Sprint("t", random.IntN(loadTenants)) }

func someSettings(random *rand.Rand) *millrace.TenantSettings {
	if random.IntN(3) == 0 {
		return nil
	}
	return &millrace.TenantSettings{Weight: random.IntN(4), Limit: []int{-1, 0, 3}[random.IntN(3)]}
}

// redrive makes some dead letters wait again. It is written down while no lease
// and no settlement is under way: what is written before happened before.
func (l *Load) redrive(call string, lane int, queue string, limit int) {
	e := Entry{Call: call, Phase: Invoked, Op: "redrive", Lane: lane, Queue: queue}
	ctx, cancel := l.patience()
	defer cancel()
	names := l.noteDead(ctx, &e, limit)
	if len(names) == 0 {
		return
	}
	n, _, err := l.Engine.Redrive(ctx, lane, millrace.DeadOf{Queue: queue, Names: names})
	e = e.ended(err)
	e.Count = n
	l.Ledger.Record(e)
}

// noteDead writes down the dead letters that are about to be redriven, and names them.
func (l *Load) noteDead(ctx context.Context, e *Entry, limit int) (names []uint64) {
	l.calm.Lock()
	defer l.calm.Unlock()
	dead, err := l.Engine.Dead(ctx, e.Lane, millrace.DeadPage{Queue: e.Queue, Limit: limit})
	if outcome(err) == Forbidden {
		l.Ledger.Record(e.ended(err))
	}
	if err != nil || len(dead) == 0 {
		return nil
	}
	for _, m := range dead {
		names = append(names, m.Name)
		e.Events = append(e.Events, leasedEvent(millrace.LeasedMessage{Name: m.Name, Seq: m.Seq, Tenant: m.Tenant, Body: m.Body}))
	}
	l.Ledger.Record(*e)
	return names
}

// purge removes what a tenant, or everybody, has waiting in the queue that nobody leases from.
func (l *Load) purge(call string, lane int, tenant string) {
	e := Entry{Call: call, Phase: Invoked, Op: "purge", Lane: lane, Queue: purgedQueue, Tenant: tenant}
	l.Ledger.Record(e)
	ctx, cancel := l.patience()
	defer cancel()
	n, left, err := l.Engine.Purge(ctx, lane, millrace.Purge{Queue: purgedQueue, Tenant: tenant, Max: 1000})
	e = e.ended(err)
	e.Count, e.Left = n, left
	l.Ledger.Record(e)
}

// injected are events with stamps of another store.
func (l *Load) injected(random *rand.Rand, call string) []LedgerEvent {
	events := make([]LedgerEvent, 1+random.IntN(3))
	for i := range events {
		id := fmt.Sprintf("%s-i%d", call, i)
		events[i] = LedgerEvent{ID: id, Tenant: tenantOf(random), Queues: []string{patientQueue}, Own: millrace.Hash(id, "own")>>12 | 1}
	}
	return events
}

// inject puts events into one queue. It is never repeated: it would be there twice.
func (l *Load) inject(call string, lane int, events []LedgerEvent) {
	e := Entry{Call: call, Phase: Invoked, Op: "inject", Lane: lane, Queue: patientQueue, Events: events}
	l.Ledger.Record(e)
	in := millrace.Inject{Queue: patientQueue}
	for _, event := range events {
		in.Events = append(in.Events, millrace.InjectEvent{
			Tenant: event.Tenant, Seq: event.Own, RecordedAt: time.UnixMilli(1), Body: []byte(event.ID),
		})
	}
	ctx, cancel := l.patience()
	defer cancel()
	l.Ledger.Record(e.ended(l.Engine.Inject(ctx, lane, in)))
}

// weigh gives a tenant a weight and a limit, or takes them away.
func (l *Load) weigh(call string, lane int, queue, tenant string, s *millrace.TenantSettings) {
	e := Entry{Call: call, Phase: Invoked, Op: "weigh", Lane: lane, Queue: queue, Tenant: tenant, Settings: s}
	l.Ledger.Record(e)
	ctx, cancel := l.patience()
	defer cancel()
	l.Ledger.Record(e.ended(l.Engine.SetTenant(ctx, lane, queue, tenant, s)))
}

// release gives back what a consumer holds, and settles it then all the same:
// its receipts must be lost.
func (l *Load) release(call string, lane int, queue, consumer string, h held) {
	ctx, cancel := l.patience()
	defer cancel()
	e := Entry{Call: call + "-release", Phase: Invoked, Op: "release", Lane: lane, Queue: queue}
	l.Ledger.Record(e)
	n, err := l.Engine.Release(ctx, lane, millrace.Release{Queue: queue, Consumer: consumer, Max: 1000})
	e = e.ended(err)
	e.Count = n
	l.Ledger.Record(e)
	if e.Phase == Done {
		l.settleReleased(call, lane, queue, h)
	}
}
