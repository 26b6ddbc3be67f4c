package enginetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// trackedAttempts is how often a message of the tracked queue is tried.
const trackedAttempts = 4

// trackedSettings are of the tracked queue of a load. It forgets nothing before it is judged.
func trackedSettings() millrace.QueueSettings {
	return millrace.QueueSettings{
		UID: trackedQueue, Version: loadVersion, MaxAttempts: trackedAttempts,
		Tracked: true, Retention: 1000 * time.Hour, ErrorRetention: 1000 * time.Hour,
	}
}

// loadOpening begins the operation of an event of a load: it names the event by its id.
func loadOpening(tenant, id string) millrace.Opening {
	o := millrace.Opening{Queue: trackedQueue, Name: "tracked", Type: "load", Subject: "of:" + tenant, Event: id}
	binary.BigEndian.PutUint64(o.Secret[:], millrace.Hash("secret", id))
	return o
}

// loadOpenings are the openings of an event that goes to some queues.
func loadOpenings(tenant, id string, queues []string) []millrace.Opening {
	if !slices.Contains(queues, trackedQueue) {
		return nil
	}
	return []millrace.Opening{loadOpening(tenant, id)}
}

// operate starts operations, watches how they fare, and cancels some.
func (l *Load) operate(ctx context.Context) {
	random := l.random(3000)
	var known []millrace.OperationID
	for n := 0; nap(ctx, 2*l.Pace); n++ {
		if id, ok := l.startOne(fmt.Sprintf("%s-o-%d", l.Name, n), random); ok {
			known = append(known, id)
		}
		if len(known) == 0 {
			continue
		}
		some := known[max(0, len(known)-1-random.IntN(12))]
		if random.IntN(3) == 0 {
			l.cancelOne(fmt.Sprintf("%s-x-%d", l.Name, n), some.Number)
		}
		for i := range 3 {
			l.observe(fmt.Sprintf("%s-w-%d-%d", l.Name, n, i), some.Number)
		}
	}
}

func (l *Load) laneOf(number uint64) int {
	return millrace.LaneOfSeq(number, l.Engine.Identity().Lanes)
}

// startOne starts an operation under an id of its own. It is never repeated: it would be there twice.
func (l *Load) startOne(id string, random *rand.Rand) (millrace.OperationID, bool) {
	return l.startAs(id, tenantOf(random), time.Duration(random.IntN(3)/2)*20*time.Millisecond)
}

func (l *Load) startAs(id, tenant string, delay time.Duration) (millrace.OperationID, bool) {
	lane := millrace.LaneOf(millrace.Hash(tenant, id), l.Engine.Identity().Lanes)
	e := Entry{Call: id, Phase: Invoked, Op: "start", Lane: lane, Queue: trackedQueue}
	e.Events = []LedgerEvent{{ID: id, Tenant: tenant, Queues: []string{trackedQueue}}}
	l.Ledger.Record(e)
	ctx, cancel := l.patience()
	defer cancel()
	done, err := l.Engine.Start(ctx, lane, millrace.Start{
		Tenant: tenant, Body: []byte(id), Delay: delay, Opening: loadOpening(tenant, id),
	})
	e = e.ended(err)
	if err == nil {
		e.Events = []LedgerEvent{{ID: id, Seq: done.ID.Number, Status: done.Status}}
	}
	l.Ledger.Record(e)
	return done.ID, err == nil
}

// cancelOne cancels an operation, or asks for it. One that has finished refuses it.
func (l *Load) cancelOne(call string, number uint64) {
	e := Entry{Call: call, Phase: Invoked, Op: "cancel", Lane: l.laneOf(number), Queue: trackedQueue, Events: []LedgerEvent{{Seq: number}}}
	l.Ledger.Record(e)
	ctx, cancel := l.patience()
	defer cancel()
	op, err := l.Engine.CancelOperation(ctx, e.Lane, time.Time{}, number)
	e = e.ended(err)
	switch {
	case millrace.CodeOf(err) == millrace.CodeFinished:
		e.Phase = Refused
	case err == nil:
		e.Events = []LedgerEvent{observed(op)}
	}
	l.Ledger.Record(e)
}

// observe writes down how an operation stands.
func (l *Load) observe(call string, number uint64) {
	ctx, cancel := l.patience()
	defer cancel()
	e := Entry{Call: call, Op: "observe", Lane: l.laneOf(number), Queue: trackedQueue}
	op, err := l.Engine.Operation(ctx, e.Lane, millrace.ReadOperation{Number: number, Watch: true})
	e = e.ended(err)
	if err == nil {
		e.Events = []LedgerEvent{observed(op)}
	}
	l.Ledger.Record(e)
}

func observed(op millrace.StoredOperation) LedgerEvent {
	e := LedgerEvent{ID: op.Event, Seq: op.ID.Number, Attempt: op.Attempts, Status: op.Status}
	if op.Progress != nil {
		e.Percent = op.Progress.Percent
	}
	return e
}

// report tells how far the work of leased messages has come; a lease that has ended refuses it.
func (l *Load) report(lane int, h held, percent int) {
	ctx, cancel := l.patience()
	defer cancel()
	for _, m := range h.Messages {
		if m.Operation == (millrace.OperationID{}) {
			continue
		}
		err := l.Engine.Report(ctx, lane, millrace.ProgressReport{
			Number: m.Operation.Number, Name: m.Name, Token: h.token, Progress: millrace.Progress{Percent: percent},
		})
		if outcome(err) == Forbidden && millrace.CodeOf(err) != millrace.CodeLost {
			l.Ledger.Record(Entry{Call: l.Name + "-report", Op: "report", Lane: lane}.ended(err))
		}
	}
}
