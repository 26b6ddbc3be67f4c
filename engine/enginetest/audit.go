package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// Audit judges a store by the history of the loads that ran on it, and returns
// everything that is wrong: an acknowledged event that is lost, one that nobody
// published, one that is in some of its queues only, one that is stored twice, a
// settled or purged message that came back, a redriven one that did not, a chain
// of keys with a gap, a batch that was sent and came back, that changed or that was
// overtaken, an operation that is lost, says something else than its message or went a way that there is not, an error
// that a caller must not see. It publishes everything again and
// drains the store.
func Audit(ctx context.Context, e millrace.Engine, h History) error {
	a := newAudit(e)
	a.read(h)
	if err := a.republish(ctx); err != nil {
		return err
	}
	if err := a.resetTenants(ctx); err != nil {
		return err
	}
	if err := a.judgeAgreement(ctx); err != nil {
		return err
	}
	if err := a.drain(ctx); err != nil {
		return err
	}
	if err := a.judgeOperations(ctx); err != nil {
		return err
	}
	a.judgeMessages()
	if err := a.judgePurged(ctx); err != nil {
		return err
	}
	a.judgeChains()
	a.judgeOrder(h)
	a.judgeBatches()
	if err := a.judgeCounts(ctx); err != nil {
		return err
	}
	if err := e.Check(ctx); err != nil {
		a.wrong("check: %v", err)
	}
	return errors.Join(a.faults...)
}

// place is a message of a queue.
type place struct {
	queue string
	seq   uint64
}

// audit is what a history says, and what was found.
type audit struct {
	engine  millrace.Engine
	commits [][]LedgerEvent // as they were first invoked
	fates   map[string]*fate
	bySeq   map[uint64]string // id
	settled map[place]*settlement
	leases  map[place]map[int]bool // attempts
	found   map[place]string       // what was drained: id
	dead    map[string]int64
	last    map[chain]uint64 // of the ordered queue: what was drained last
	managed managed
	post    *post
	tracked tracked
	faults  []error
}

// fate is what is known of a published event.
type fate struct {
	LedgerEvent
	lane      int
	invoked   int  // index of the first try
	acked     int  // index of the first acknowledgement
	uncertain bool // some try may have stored it
	done      bool // some try was acknowledged
	stored    bool // some try was acknowledged as the first
	seen      bool // some lease was answered with it
	started   bool // it is an operation's
}

// settlement is what is known of how a message ended.
type settlement struct {
	done  int  // index of the first acknowledged ack or bury, or -1
	tried bool // something that may have ended it was tried
	acked bool
}

func newAudit(e millrace.Engine) *audit {
	return &audit{
		engine: e, fates: map[string]*fate{}, bySeq: map[uint64]string{}, settled: map[place]*settlement{},
		leases: map[place]map[int]bool{}, found: map[place]string{}, dead: map[string]int64{}, last: map[chain]uint64{},
		managed: managed{settings: map[tenantAt]*setting{}},
		post:    newPost(),
		tracked: newTracked(),
	}
}

func (a *audit) wrong(format string, args ...any) {
	const most = 20
	if len(a.faults) < most {
		a.faults = append(a.faults, fmt.Errorf(format, args...))
	}
}

// read takes the history in, in its order.
func (a *audit) read(h History) {
	invoked := map[string]int{}
	outcomes, ends := map[string]Entry{}, map[string]int{}
	for i, e := range h {
		if e.Phase != Invoked {
			outcomes[e.Call], ends[e.Call] = e, i
		}
	}
	for i, e := range h {
		if e.Phase == Forbidden {
			a.wrong("%s %s: an error that a caller must not see: %s", e.Op, e.Call, e.Error)
		}
		if e.Phase == Invoked {
			invoked[e.Call] = i
			a.readInvocation(e, outcomes[e.Call].Phase, i)
			a.readManagement(e, outcomes[e.Call], i, ends[e.Call])
			continue
		}
		if e.Phase == Done {
			a.readOutcome(h[invoked[e.Call]], e, invoked[e.Call], i)
		}
	}
}

func (a *audit) readInvocation(e Entry, outcome Phase, at int) {
	switch e.Op {
	case "publish":
		if a.fates[e.Events[0].ID] == nil {
			a.commits = append(a.commits, e.Events)
			for _, event := range e.Events {
				a.fates[event.ID] = &fate{LedgerEvent: event, lane: e.Lane, invoked: at, acked: math.MaxInt}
			}
		}
		for _, event := range e.Events {
			f := a.fates[event.ID]
			f.uncertain = f.uncertain || outcome != Refused
		}
	case "inject":
		a.readInjection(e, outcome)
	case "start", "cancel":
		a.readTracked(e, outcome, at)
	case "settle":
		for _, m := range e.Events {
			a.identified(place{e.Queue, m.Seq}, m)
			s := a.settlement(place{e.Queue, m.Seq})
			s.tried = s.tried || outcome != Refused && e.Verb != string(millrace.Retry) && !e.Released
		}
	case "outcome":
		a.outcomeTried(e, outcome)
	}
}

func (a *audit) settlement(p place) *settlement {
	if a.settled[p] == nil {
		a.settled[p] = &settlement{done: -1}
	}
	return a.settled[p]
}

func (a *audit) readOutcome(call, e Entry, invoked, at int) {
	switch e.Op {
	case "publish":
		for i, s := range e.Events {
			if f := a.fates[call.Events[i].ID]; !f.done {
				f.acked = at
			}
			a.stamped(call.Events[i].ID, s)
		}
	case "lease":
		for _, m := range e.Events {
			a.readLease(e.Queue, m, invoked)
		}
	case "start", "cancel", "observe":
		a.readTold(call, e, at)
	case "take":
		for _, b := range e.Batches {
			a.readTake(parcel{e.Lane, b.Sub, b.Name}, b, invoked, at)
		}
	case "outcome":
		a.readOutcomes(e, invoked, at)
	case "settle":
		for _, m := range e.Events {
			if call.Released && !m.Lost {
				a.wrong("message %d of %s was settled after it was released", m.Seq, e.Queue)
			}
			if s := a.settlement(place{e.Queue, m.Seq}); !m.Lost && e.Verb != string(millrace.Retry) {
				if s.done >= 0 {
					a.wrong("message %d of %s was settled twice", m.Seq, e.Queue)
				}
				s.done, s.acked = at, e.Verb == string(millrace.Ack)
			}
		}
	}
}

// stamped takes an acknowledged stamp of an event in and compares it with the ones before.
func (a *audit) stamped(id string, s LedgerEvent) {
	f := a.fates[id]
	switch {
	case f.Delay > 0: // it has no seq before it is due
		if f.stored && !s.Duplicate {
			a.wrong("event %s was held twice", id)
		}
		f.done, f.stored = true, f.stored || !s.Duplicate
		return
	case !f.done:
		f.Seq, f.Prev, f.done = s.Seq, s.Prev, true
	case f.Seq != s.Seq || f.Prev != s.Prev:
		a.wrong("event %s was stamped %d/%d and then %d/%d", id, f.Seq, f.Prev, s.Seq, s.Prev)
	case f.stored && !s.Duplicate:
		a.wrong("event %s was stored twice as %d", id, s.Seq)
	}
	f.stored = f.stored || !s.Duplicate
	if other, taken := a.bySeq[s.Seq]; taken && other != id {
		a.wrong("events %s and %s share seq %d", id, other, s.Seq)
	}
	a.bySeq[s.Seq] = id
}

func (a *audit) readLease(queue string, m LedgerEvent, invoked int) {
	p := place{queue, m.Seq}
	if at, cancelled := a.tracked.cancelled[p]; cancelled && at < invoked {
		a.wrong("message %d of %s (%s) was leased after its operation was cancelled", m.Seq, queue, m.ID)
	}
	if s := a.settled[p]; s != nil && s.done >= 0 && s.done < invoked {
		a.wrong("message %d of %s (%s) was leased after it was settled", m.Seq, queue, m.ID)
	}
	if a.leases[p] == nil {
		a.leases[p] = map[int]bool{}
	}
	if a.leases[p][m.Attempt] {
		a.wrong("message %d of %s (%s) was leased twice as attempt %d", m.Seq, queue, m.ID, m.Attempt)
	}
	a.leases[p][m.Attempt] = true
	a.identified(p, m)
	if f := a.fates[m.ID]; f != nil {
		f.seen = true
	}
}

// identified compares a message with the event that it must be.
func (a *audit) identified(p place, m LedgerEvent) {
	f := a.fates[m.ID]
	if f != nil && (f.Delay > 0 || f.Own != 0 || f.started) && f.Seq == 0 {
		f.Seq = m.Seq
	}
	switch {
	case f == nil:
		a.wrong("message %d of %s holds %q, which nobody published", p.seq, p.queue, m.ID)
	case !slices.Contains(f.Queues, p.queue):
		a.wrong("event %s is in %s, where it was not sent", m.ID, p.queue)
	case m.Tenant != f.Tenant:
		a.wrong("event %s of tenant %s was served as %s's", m.ID, f.Tenant, m.Tenant)
	case f.Own != m.Own:
		a.wrong("event %s has the seq %d of its own and is served with %d", m.ID, f.Own, m.Own)
	case f.Seq != 0 && f.Seq != m.Seq:
		a.wrong("event %s has seq %d and is message %d of %s", m.ID, f.Seq, m.Seq, p.queue)
	case !f.uncertain && !f.done:
		a.wrong("event %s was refused and is message %d of %s", m.ID, m.Seq, p.queue)
	}
}

// republish asks for every event again: what was acknowledged must be known, and
// of what was not, all events of a commit or none.
func (a *audit) republish(ctx context.Context) error {
	for _, events := range a.commits {
		lane := a.fates[events[0].ID].lane
		done, err := a.engine.Publish(ctx, lane, commitOf(events))
		if err != nil {
			return fmt.Errorf("publish again: %w", err)
		}
		first := done.Stamps[0].Duplicate
		for i, s := range done.Stamps {
			f := a.fates[events[i].ID]
			switch {
			case f.done && !s.Duplicate:
				a.wrong("event %s was acknowledged as %d and is not known", f.ID, f.Seq)
				continue
			case s.Duplicate && !f.uncertain:
				a.wrong("event %s was refused and is stored", f.ID)
			case s.Duplicate != first:
				a.wrong("of the commit of event %s only a part was stored", f.ID)
			}
			if f.Delay == 0 && s.Sinks != len(f.Queues)+len(f.Subs) {
				a.wrong("event %s is in %d sinks, want %d", f.ID, s.Sinks, len(f.Queues)+len(f.Subs))
			}
			stamp := LedgerEvent{Seq: s.Seq, Prev: s.Prev, Duplicate: s.Duplicate}
			a.stamped(f.ID, stamp)
		}
	}
	return nil
}

// drain brings everything back that is out, and leases and acks all there is.
func (a *audit) drain(ctx context.Context) error {
	now := time.Now().Add(24 * time.Hour)
	token := millrace.Token{0: 0xff}
	for lane := range a.engine.Identity().Lanes {
		for more := true; more; {
			s, err := a.engine.Step(ctx, lane, now, 1000)
			if err != nil {
				return fmt.Errorf("step: %w", err)
			}
			for _, h := range s.Events {
				if _, err := a.engine.Publish(ctx, lane, commitFrom(h)); err != nil {
					return fmt.Errorf("publish what was held: %w", err)
				}
			}
			more = s.More
		}
		for _, queue := range loadQueues() {
			token[1]++
			if err := a.drainQueue(ctx, lane, queue, now, token); err != nil {
				return err
			}
		}
		token[1]++
		if err := a.drainBatches(ctx, lane, now, token); err != nil {
			return err
		}
	}
	return nil
}

func (a *audit) drainQueue(ctx context.Context, lane int, queue string, now time.Time, token millrace.Token) error {
	for n := uint16(0); ; n++ {
		token[14], token[15] = byte(n>>8), byte(n)
		got, err := a.engine.Lease(ctx, lane, millrace.Lease{
			Now: now, Queue: queue, Max: 1000, MaxBytes: millrace.MaxLeaseBytes, For: time.Hour, Token: token,
		})
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		if len(got.Messages) == 0 && got.Tenants == 0 {
			break
		}
		for _, m := range got.Messages {
			a.drained(place{queue, m.Name}, m)
		}
		if queue == orderedQueue {
			a.drainedInOrder(got.Messages)
		}
		s, err := a.engine.Settle(ctx, lane, millrace.Settle{Now: now, Queue: queue, Verb: millrace.Ack, Items: held{got, token}.items()})
		if err != nil || len(s.Lost) > 0 {
			return fmt.Errorf("drain: lost %d: %w", len(s.Lost), err)
		}
	}
	stats, err := a.engine.Stats(ctx, lane, queue)
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	if n := stats.Ready + stats.Leased + stats.Delayed; n > 0 {
		a.wrong("queue %s counts %d messages after it was drained", queue, n)
	}
	if stats.Dropped > 0 && queue != purgedQueue {
		a.wrong("queue %s has dropped %d messages in lane %d, which nobody asked for", queue, stats.Dropped, lane)
	}
	a.dead[queue] += stats.Dead
	return nil
}

func (a *audit) drained(p place, m millrace.LeasedMessage) {
	id := string(m.Body)
	if _, twice := a.found[p]; twice {
		a.wrong("message %d of %s (%s) is there twice", p.seq, p.queue, id)
	}
	a.found[p] = id
	a.identified(p, leasedEvent(m))
}

// in reports whether an event was sent to a queue.
func (f *fate) in(queue string) bool { return slices.Contains(f.Queues, queue) }

// judgeMessages compares, for each event and queue, what ended with what is there.
func (a *audit) judgeMessages() {
	least, most := map[string]int64{}, map[string]int64{}
	for _, f := range a.fates {
		for _, queue := range f.Queues {
			if queue == purgedQueue || queue == trackedQueue {
				continue
			}
			p := place{queue, f.Seq}
			_, there := a.found[p]
			s := a.settlement(p)
			switch {
			case there && s.done >= 0:
				a.wrong("message %d of %s (%s) was settled and is there", p.seq, queue, f.ID)
			case there || s.acked:
			case s.done >= 0:
				least[queue]++
				most[queue]++
			case s.tried:
				most[queue]++
			case f.absent():
			case queue != impatientQueue:
				a.wrong("message %d of %s (%s) is lost", p.seq, queue, f.ID)
			default: // its attempts were spent
				least[queue]++
				most[queue]++
			}
		}
	}
	for _, queue := range []string{patientQueue, impatientQueue, orderedQueue, purgedQueue} {
		if n := a.dead[queue]; n < least[queue] || n > most[queue] {
			a.wrong("queue %s has %d dead letters, want %d to %d", queue, n, least[queue], most[queue])
		}
	}
}

// judgeChains follows the events of each key: each names the one before.
func (a *audit) judgeChains() {
	chains := map[[2]string][]*fate{}
	for _, f := range a.fates {
		if f.Delay > 0 || f.Own != 0 || f.started {
			continue // it has no key, or is in no chain
		}
		chain := [2]string{f.Tenant, f.Key}
		chains[chain] = append(chains[chain], f)
	}
	for name, chain := range chains {
		slices.SortFunc(chain, func(x, y *fate) int { return int(int64(x.Seq) - int64(y.Seq)) })
		last := uint64(0)
		for _, f := range chain {
			if f.Prev != last {
				a.wrong("event %s of key %v has prev %d, want %d", f.ID, name, f.Prev, last)
			}
			last = f.Seq
		}
	}
}

// judgeCounts compares the number of events that the lanes have counted.
func (a *audit) judgeCounts(ctx context.Context) error {
	published := int64(0)
	for lane := range a.engine.Identity().Lanes {
		s, err := a.engine.LaneStats(ctx, lane)
		if err != nil {
			return fmt.Errorf("count: %w", err)
		}
		published += s.Published
		if s.Held > 0 {
			a.wrong("lane %d holds %d events after all were taken out", lane, s.Held)
		}
	}
	if want := int64(len(a.fates) - a.managed.injected - a.tracked.absent); published != want {
		a.wrong("the lanes count %d events, %d were published", published, want)
	}
	return nil
}
