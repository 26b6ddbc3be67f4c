package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-dev/millrace"
)

// The subscriptions of a load: one that sends several batches at once, and one that keeps their order.
const (
	plainSub   = "00000000000000b1"
	orderedSub = "00000000000000b2"
)

func loadSubs() []string { return []string{plainSub, orderedSub} }

// loadSettings have short waits, so that batches fail, are parked and die while the load runs.
func loadSettings() []millrace.SubscriptionSettings {
	wait := 10 * time.Millisecond
	plain := millrace.SubscriptionSettings{
		UID: plainSub, Version: loadVersion, Timeout: 20 * time.Millisecond, MaxEvents: 10, MaxBytes: 1 << 20, Concurrency: 6,
		Schedule: []time.Duration{wait, wait, 2 * wait}, Format: "events",
	}
	line := plain
	line.UID, line.Ordered, line.MaxEvents = orderedSub, true, 50
	line.Schedule = []time.Duration{5 * wait, 5 * wait, 5 * wait} // while one waits another is ready, so that it could be overtaken
	return []millrace.SubscriptionSettings{plain, line}
}

// send takes batches and tells how their sending went: mostly well, sometimes not, sometimes never.
func (l *Load) send(ctx context.Context, who int) {
	random := l.random(2000 + who)
	lanes := l.Engine.Identity().Lanes
	for n := 0; ctx.Err() == nil; n++ {
		lane := random.IntN(lanes)
		k := l.take(fmt.Sprintf("%s-t%d-%d", l.Name, who, n), lane, 1+random.IntN(5))
		if len(k.Batches) == 0 {
			nap(ctx, 2*time.Millisecond)
			continue
		}
		if random.IntN(25) > 0 {
			l.tell(fmt.Sprintf("%s-o%d-%d", l.Name, who, n), lane, someOutcomes(k, random))
		}
	}
}

func someOutcomes(k taken, random *rand.Rand) []millrace.Outcome {
	return k.each(func(k taken, i int) millrace.Outcome {
		o := k.sent(i)
		if random.IntN(10) < 3 {
			o = k.failed(i)
		}
		o.Log = []byte("attempt")
		return o
	})
}

func (l *Load) take(call string, lane, limit int) taken {
	e := Entry{Call: call, Phase: Invoked, Op: "take", Lane: lane}
	l.Ledger.Record(e)
	ctx, cancel := l.patience()
	defer cancel()
	k := taken{token: l.token()}
	var err error
	k.Taken, err = l.Engine.Take(ctx, lane, millrace.Take{Max: limit, MaxBytes: 1 << 20, For: l.Lease, Token: k.token, Node: l.Name})
	e = e.ended(err)
	for _, b := range k.Batches {
		e.Batches = append(e.Batches, ledgerBatch(b))
	}
	l.Ledger.Record(e)
	return k
}

// ledgerBatch is a batch as the ledger shows it.
func ledgerBatch(b millrace.TakenBatch) LedgerBatch {
	return LedgerBatch{Sub: b.Subscription, Name: b.Name, Attempt: b.Attempt, Events: ledgerEvents(b.Events)}
}

func ledgerEvents(events []millrace.BatchEvent) []LedgerEvent {
	var all []LedgerEvent
	for _, e := range events {
		all = append(all, LedgerEvent{ID: string(e.Body), Seq: e.Seq, Prev: e.Prev})
	}
	return all
}

func (l *Load) tell(call string, lane int, items []millrace.Outcome) {
	e := Entry{Call: call, Phase: Invoked, Op: "outcome", Lane: lane}
	for _, o := range items {
		e.Batches = append(e.Batches, LedgerBatch{Sub: o.Subscription, Name: o.Name, OK: o.OK})
	}
	l.Ledger.Record(e)
	ctx, cancel := l.patience()
	defer cancel()
	done, err := l.Engine.SettleBatches(ctx, lane, millrace.Outcomes{Items: items})
	e = e.ended(err)
	for i, s := range done.Items {
		e.Batches = append(e.Batches, LedgerBatch{Sub: items[i].Subscription, Name: items[i].Name, OK: items[i].OK, Lost: s.Lost})
	}
	l.Ledger.Record(e)
}
