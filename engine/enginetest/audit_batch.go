package enginetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// parcel is a batch of a subscription in a lane.
type parcel struct {
	lane int
	sub  string
	name uint64
}

// post is what a history says of batches, and what was found of them.
type post struct {
	members  map[parcel][]LedgerEvent // of every batch that was seen
	attempts map[parcel]map[int]bool
	sent     map[parcel]int               // index of the acknowledged success
	tried    map[parcel]bool              // a success that may have counted
	holder   map[string]map[string]parcel // subscription, id: the batch that holds it
	there    map[parcel]bool              // found when the store was drained, or dead
	newest   map[parcel]order             // by lane and subscription, without a name: what was taken
	sum      map[string]int64             // events sent or dead, as the store counts them
}

// order is what an ordered subscription gave out, as it was acknowledged.
type order struct {
	name uint64 // the highest
	at   int    // index of the take that gave it first
}

func newPost() *post {
	return &post{
		members: map[parcel][]LedgerEvent{}, attempts: map[parcel]map[int]bool{}, sent: map[parcel]int{}, tried: map[parcel]bool{},
		holder: map[string]map[string]parcel{plainSub: {}, orderedSub: {}}, there: map[parcel]bool{}, newest: map[parcel]order{}, sum: map[string]int64{},
	}
}

// readTake takes in a batch that was given out.
func (a *audit) readTake(p parcel, b LedgerBatch, invoked, at int) {
	if sent, ended := a.post.sent[p]; ended && sent < invoked {
		a.wrong("batch %d of %s was taken after it was sent", p.name, p.sub)
	}
	if a.post.attempts[p] == nil {
		a.post.attempts[p] = map[int]bool{}
	}
	if a.post.attempts[p][b.Attempt] {
		a.wrong("batch %d of %s was taken twice as attempt %d", p.name, p.sub, b.Attempt)
	}
	a.post.attempts[p][b.Attempt] = true
	a.seen(p, b.Events)
	a.overtaken(p, invoked)
	line := parcel{lane: p.lane, sub: p.sub}
	if p.name > a.post.newest[line].name {
		a.post.newest[line] = order{p.name, at}
	}
}

// overtaken fails if a batch of the ordered subscription lives on when a later one had been given out.
func (a *audit) overtaken(p parcel, when int) {
	newest := a.post.newest[parcel{lane: p.lane, sub: p.sub}]
	if p.sub == orderedSub && newest.name > p.name && newest.at < when {
		a.wrong("batch %d of the ordered subscription was overtaken by %d", p.name, newest.name)
	}
}

// seen compares a batch with what it was before, and its events with what was published.
func (a *audit) seen(p parcel, events []LedgerEvent) {
	before, known := a.post.members[p]
	if known && !slices.EqualFunc(before, events, func(x, y LedgerEvent) bool { return x.ID == y.ID && x.Seq == y.Seq && x.Prev == y.Prev }) {
		a.wrong("batch %d of %s changed from %v to %v", p.name, p.sub, before, events)
	}
	if known {
		return
	}
	a.post.members[p] = events
	if len(events) == 0 || events[0].Seq != p.name {
		a.wrong("batch %d of %s begins with %v", p.name, p.sub, events)
	}
	for i, e := range events {
		if i > 0 && e.Seq <= events[i-1].Seq {
			a.wrong("batch %d of %s holds %d after %d", p.name, p.sub, e.Seq, events[i-1].Seq)
		}
		a.member(p, e)
	}
}

// member compares an event of a batch with the one that was published.
func (a *audit) member(p parcel, e LedgerEvent) {
	if other, twice := a.post.holder[p.sub][e.ID]; twice {
		a.wrong("event %s is in batches %d and %d of %s", e.ID, other.name, p.name, p.sub)
	}
	if a.post.holder[p.sub] == nil {
		a.wrong("batch %d is of %s, which does not exist", p.name, p.sub)
		return
	}
	a.post.holder[p.sub][e.ID] = p
	f := a.fates[e.ID]
	if f != nil && f.Delay > 0 && f.Seq == 0 {
		f.Seq = e.Seq
	}
	switch {
	case f == nil:
		a.wrong("batch %d of %s holds %q, which nobody published", p.name, p.sub, e.ID)
	case !slices.Contains(f.Subs, p.sub):
		a.wrong("event %s is in %s, where it was not sent", e.ID, p.sub)
	case f.lane != p.lane:
		a.wrong("event %s of lane %d is in lane %d", e.ID, f.lane, p.lane)
	case f.done && f.Seq != e.Seq:
		a.wrong("event %s was stamped %d and is %d in batch %d of %s", e.ID, f.Seq, e.Seq, p.name, p.sub)
	}
}

func (a *audit) outcomeTried(e Entry, outcome Phase) {
	for _, b := range e.Batches {
		if p := (parcel{e.Lane, b.Sub, b.Name}); b.OK && outcome != Refused {
			a.post.tried[p] = true
		}
	}
}

func (a *audit) readOutcomes(e Entry, invoked, at int) {
	for _, b := range e.Batches {
		p := parcel{e.Lane, b.Sub, b.Name}
		if b.Lost {
			continue
		}
		a.overtaken(p, invoked)
		if !b.OK {
			continue
		}
		if _, twice := a.post.sent[p]; twice {
			a.wrong("batch %d of %s was sent twice", p.name, p.sub)
		}
		a.post.sent[p] = at
	}
}

// foundBatch takes in a batch that the store still holds.
func (a *audit) foundBatch(p parcel, events []LedgerEvent) {
	if _, sent := a.post.sent[p]; sent {
		a.wrong("batch %d of %s was sent and is there", p.name, p.sub)
	}
	a.post.there[p] = true
	a.seen(p, events)
}

// drainBatches brings back what is pending or waits in a lane, and sends all there is.
func (a *audit) drainBatches(ctx context.Context, lane int, now time.Time, token millrace.Token) error {
	for empty, n := 0, uint16(0); empty < 3; n++ {
		token[14], token[15] = byte(n>>8), byte(n)
		got, err := a.engine.Take(ctx, lane, millrace.Take{Now: now, Max: 64, MaxBytes: 1 << 30, For: time.Hour, Token: token})
		if err != nil {
			return fmt.Errorf("drain batches: %w", err)
		}
		if len(got.Batches) == 0 {
			empty++
			now = now.Add(time.Minute)
			if err := a.stepAll(ctx, lane, now); err != nil {
				return err
			}
			continue
		}
		empty = 0
		if err := a.sendAll(ctx, lane, now, taken{got, token}); err != nil {
			return err
		}
	}
	for _, sub := range loadSubs() {
		if err := a.leftOver(ctx, lane, sub); err != nil {
			return err
		}
	}
	return nil
}

func (a *audit) stepAll(ctx context.Context, lane int, now time.Time) error {
	for more := true; more; {
		s, err := a.engine.Step(ctx, lane, now, 1000)
		if err != nil {
			return fmt.Errorf("step: %w", err)
		}
		more = s.More
	}
	return nil
}

// sendAll takes in what the store still holds, and says that it was sent.
func (a *audit) sendAll(ctx context.Context, lane int, now time.Time, k taken) error {
	for _, b := range k.Batches {
		p := parcel{lane, b.Subscription, b.Name}
		a.overtaken(p, math.MaxInt)
		a.foundBatch(p, ledgerEvents(b.Events))
	}
	done, err := a.engine.SettleBatches(ctx, lane, millrace.Outcomes{Now: now, Items: k.each(taken.sent)})
	if err != nil {
		return fmt.Errorf("drain batches: %w", err)
	}
	for i, s := range done.Items {
		if s.Lost {
			a.wrong("batch %d of %s was lost while it was drained", k.Batches[i].Name, k.Batches[i].Subscription)
		}
	}
	return nil
}

// leftOver takes in the dead batches of a drained subscription; there must be no others.
func (a *audit) leftOver(ctx context.Context, lane int, sub string) error {
	page := millrace.BatchPage{Subscription: sub, Limit: 1000}
	for {
		list, err := a.engine.ListBatches(ctx, lane, page)
		if err != nil {
			return fmt.Errorf("list batches: %w", err)
		}
		for _, b := range list {
			page.After = b.Name
			if b.State != millrace.BatchDead {
				a.wrong("batch %d of %s is %s after all were sent", b.Name, sub, b.State)
			}
			_, events, err := a.engine.Batch(ctx, lane, sub, b.Name)
			if err != nil {
				return fmt.Errorf("read batch: %w", err)
			}
			a.foundBatch(parcel{lane, sub, b.Name}, ledgerEvents(events))
		}
		if len(list) < page.Limit {
			break
		}
	}
	s, err := a.engine.SubscriptionStats(ctx, lane, sub)
	if err != nil {
		return fmt.Errorf("count batches: %w", err)
	}
	a.post.sum[sub] += s.Sent + s.Dead
	return nil
}

// judgeBatches compares, for each event and subscription, what was sent with what is there.
func (a *audit) judgeBatches() {
	want := map[string]int64{}
	for _, f := range a.fates {
		for _, sub := range f.Subs {
			want[sub]++
			p, known := a.post.holder[sub][f.ID]
			_, sent := a.post.sent[p]
			switch {
			case !known:
				a.wrong("event %s of subscription %s is lost", f.ID, sub)
			case !sent && !a.post.tried[p] && !a.post.there[p]:
				a.wrong("batch %d of %s with event %s is lost", p.name, sub, f.ID)
			}
		}
	}
	for _, sub := range loadSubs() {
		if got := a.post.sum[sub]; got != want[sub] {
			a.wrong("subscription %s counts %d events sent or dead, want %d", sub, got, want[sub])
		}
	}
}
