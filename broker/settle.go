package broker

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/millrace-dev/millrace"
)

// Ack ends leases with success; see millrace.QueueService.
func (s Queues) Ack(ctx context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error) {
	return s.settle(ctx, name, millrace.Ack, items)
}

// Retry ends leases for another attempt; see millrace.QueueService.
func (s Queues) Retry(ctx context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error) {
	return s.settle(ctx, name, millrace.Retry, items)
}

// Bury ends leases for good; see millrace.QueueService.
func (s Queues) Bury(ctx context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error) {
	return s.settle(ctx, name, millrace.Bury, items)
}

func (s Queues) settleItems(ctx context.Context, name string, verb millrace.Verb, items []millrace.Settlement) (millrace.SettleResult, error) {
	out := millrace.SettleResult{Lost: []string{}}
	q, err := s.enterFor(ctx, name, settleFaults(items))
	if err != nil {
		return out, err
	}
	defer s.b.gate.leave()
	for _, group := range s.sort(q, verb, items, &out) {
		var done millrace.Settled
		err := s.inLane(ctx, q, group.lane, func() (err error) {
			done, err = s.b.engine.Settle(ctx, group.lane, millrace.Settle{Queue: q.uid, Verb: verb, Items: group.items})
			return err
		})
		if err != nil {
			return out, err
		}
		s.b.reaper.note(group.lane, done.Due)
		if s.b.logging(ctx) {
			s.b.logSettled(ctx, q, verb, group, done)
		}
		out.Dead += done.Dead
		out.Settled += len(group.items) - len(done.Lost)
		for _, i := range done.Lost {
			out.Lost = append(out.Lost, group.receipts[i])
		}
	}
	return out, nil
}

// enterFor lets a call on a queue in, unless its input has faults.
func (s Queues) enterFor(ctx context.Context, name string, faults []millrace.Fault) (*queue, error) {
	if err := s.b.gate.enter(); err != nil {
		return nil, err
	}
	q, err := s.b.registry.queue(ctx, name)
	if err == nil {
		err = millrace.Invalid(faults)
	}
	if err != nil {
		s.b.gate.leave()
		return nil, err
	}
	return q, nil
}

func settleFaults(items []millrace.Settlement) []millrace.Fault {
	var faults []millrace.Fault
	seen := make(map[string]bool, len(items))
	for i, item := range items {
		at := "items[" + strconv.Itoa(i) + "]"
		if seen[item.Receipt] {
			faults = append(faults, millrace.Fault{Location: at + ".receipt", Message: "is the same as an earlier one"})
		}
		seen[item.Receipt] = true
		if d := item.Delay; d != nil && (*d < 0 || *d > millrace.MaxDelay) {
			faults = append(faults, millrace.Fault{Location: at + ".delay", Message: "must be between 0s and " + millrace.MaxDelay.String()})
		}
	}
	if len(items) > millrace.MaxReceipts {
		faults = append(faults, millrace.Fault{Location: "items", Message: "must be at most " + strconv.Itoa(millrace.MaxReceipts)})
	}
	return faults
}

// laneItems are items of a call that belong to one lane, no more than one
// transition may take.
type laneItems struct {
	lane     int
	items    []millrace.SettleItem
	receipts []string
}

// sort puts items into their lanes; what is no receipt at all is lost.
func (s Queues) sort(q *queue, verb millrace.Verb, items []millrace.Settlement, out *millrace.SettleResult) []*laneItems {
	var groups []*laneItems
	open := make([]*laneItems, s.b.identity.Lanes)
	for _, item := range items {
		r, ok := millrace.ParseReceipt(item.Receipt)
		if !ok {
			out.Lost = append(out.Lost, item.Receipt)
			continue
		}
		lane := millrace.LaneOfSeq(r.Name, s.b.identity.Lanes)
		if g := open[lane]; g == nil || len(g.items) == millrace.MaxLeaseCount {
			open[lane] = &laneItems{lane: lane}
			groups = append(groups, open[lane])
		}
		one := millrace.SettleItem{Name: r.Name, Token: r.Token, Error: millrace.CutError(item.Error)}
		if verb == millrace.Retry {
			one.Delay = delay(q, item.Delay, r.Attempt)
		}
		open[lane].items = append(open[lane].items, one)
		open[lane].receipts = append(open[lane].receipts, item.Receipt)
	}
	return groups
}

// delay is what the caller asks for, or the queue's backoff after the attempt.
func delay(q *queue, asked *time.Duration, attempt int) time.Duration {
	if asked != nil {
		return *asked
	}
	return q.spec.Backoff().Delay(attempt, rand.Float64())
}

// Extend prolongs leases; see millrace.QueueService.
func (s Queues) Extend(ctx context.Context, name string, lease time.Duration, receipts ...string) (millrace.SettleResult, error) {
	out := millrace.SettleResult{Lost: []string{}}
	items := make([]millrace.Settlement, len(receipts))
	for i, r := range receipts {
		items[i].Receipt = r
	}
	faults := settleFaults(items)
	if lease != 0 && (lease < millrace.MinLease || lease > millrace.MaxLease) {
		faults = append(faults, millrace.Fault{Location: "lease", Message: "must be between " + millrace.MinLease.String() + " and " + millrace.MaxLease.String()})
	}
	q, err := s.enterFor(ctx, name, faults)
	if err != nil {
		return out, err
	}
	defer s.b.gate.leave()
	if lease == 0 {
		lease = q.spec.Lease
	}
	for _, group := range s.sort(q, millrace.Ack, items, &out) {
		var done millrace.Extended
		err := s.inLane(ctx, q, group.lane, func() (err error) {
			done, err = s.b.engine.Extend(ctx, group.lane, millrace.Extend{Queue: q.uid, For: lease, Items: group.items})
			return err
		})
		if err != nil {
			return out, err
		}
		s.b.reaper.note(group.lane, done.Due)
		out.Settled += len(group.items) - len(done.Lost)
		for _, i := range done.Lost {
			out.Lost = append(out.Lost, group.receipts[i])
		}
		if out.LeasedUntil.IsZero() || done.Until.Before(out.LeasedUntil) {
			out.LeasedUntil = done.Until
		}
	}
	return out, nil
}
