package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

const (
	maxAppends  = 10000 // events × sinks of one commit; a larger request is split between events
	maxReroutes = 8     // tries of a commit that finds its lane's registry changed
)

func (b *Broker) publish(ctx context.Context, events []millrace.Event) ([]millrace.Published, error) {
	if err := b.gate.enter(); err != nil {
		return nil, err
	}
	defer b.gate.leave()
	p, err := b.accept(events)
	if err != nil {
		b.refused.Add(int64(len(events)))
		return nil, err
	}
	p.commit(ctx, b)
	if err := p.outcome(); err != nil {
		b.refused.Add(int64(p.failed()))
		return nil, err
	}
	return p.results, nil
}

// publishOwn publishes an event of the store's own topic.
func (b *Broker) publishOwn(ctx context.Context, e millrace.Event) error {
	p, err := b.prepare([]millrace.Event{e})
	if err != nil {
		return err
	}
	p.commit(ctx, b)
	return p.outcome()
}

// Refused counts events of publishes that were refused before they reached the
// broker, because they could not be read.
func (b *Broker) Refused(events int) { b.refused.Add(int64(events)) }

// publication is one request on its way into the lanes.
type publication struct {
	events  []millrace.CommitEvent
	places  []address
	lanes   [][]int // by lane, the indexes of its events
	results []millrace.Published
}

// accept validates events, gives them what they lack, and sorts them by lane.
func (b *Broker) accept(events []millrace.Event) (*publication, error) {
	if err := eventFaults(events); err != nil {
		return nil, err
	}
	return b.prepare(events)
}

// prepare gives events that were found good what they lack, and sorts them by lane.
func (b *Broker) prepare(events []millrace.Event) (*publication, error) {
	n := len(events)
	p := &publication{
		events:  make([]millrace.CommitEvent, n),
		places:  make([]address, n),
		lanes:   make([][]int, b.identity.Lanes),
		results: make([]millrace.Published, n),
	}
	now := time.Now().UTC()
	chosen := int(b.nextLane.Add(1) % uint64(b.identity.Lanes))
	for i := range events {
		if err := b.acceptOne(p, i, &events[i], now, chosen); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func eventFaults(events []millrace.Event) error {
	if n := len(events); n == 0 || n > millrace.MaxEvents {
		return millrace.Invalid([]millrace.Fault{{Location: "events", Message: "must be 1 to " + strconv.Itoa(millrace.MaxEvents)}})
	}
	var faults []millrace.Fault
	latest := time.Now().Add(millrace.MaxEventDelay)
	for i := range events {
		if len(events[i].Faults("")) > 0 { // seldom: only then is the place worth writing down
			faults = append(faults, events[i].Faults("events["+strconv.Itoa(i)+"]")...)
		}
		if events[i].DeliverAt.After(latest) {
			faults = append(faults, millrace.Fault{Location: "events[" + strconv.Itoa(i) + "].deliver_at", Message: "must be at most " + millrace.MaxEventDelay.String() + " ahead"})
		}
	}
	return millrace.Invalid(faults)
}

// acceptOne takes in the i-th event; one without key and id goes to the chosen lane.
func (b *Broker) acceptOne(p *publication, i int, given *millrace.Event, now time.Time, chosen int) error {
	e := *given
	if e.Tenant == "" {
		e.Tenant = millrace.DefaultTenant
	}
	if e.Time.IsZero() {
		e.Time = now
	}
	remembered, lane := e.ID != "", chosen
	if !remembered {
		id, err := b.ids.next()
		if err != nil {
			return err
		}
		e.ID = id
	}
	switch {
	case e.Key != "":
		lane = millrace.LaneOf(millrace.Hash(e.Tenant, e.Key), b.identity.Lanes)
	case remembered:
		lane = millrace.LaneOf(millrace.Hash(e.Tenant, e.ID), b.identity.Lanes)
	}
	c := &p.events[i]
	c.Tenant, c.Topic, c.Key, c.Remembered = e.Tenant, e.Topic, e.Key, remembered
	c.ID, c.Delay = e.ID, delayOf(&e, now)
	if remembered {
		c.Digest = millrace.DigestOf(&e)
	}
	c.Body = millrace.AppendEvent(make([]byte, 0, 32+e.Size()), &e)
	p.places[i] = addressOf(&e)
	p.results[i] = millrace.Published{ID: e.ID, HasKey: e.Key != ""}
	p.lanes[lane] = append(p.lanes[lane], i)
	return nil
}

// delayOf is how long an event is to be held.
func delayOf(e *millrace.Event, now time.Time) time.Duration {
	if !e.DeliverAt.IsZero() {
		return max(0, e.DeliverAt.Sub(now))
	}
	return e.Delay
}

// commit commits each lane's events; lanes do not wait for each other.
func (p *publication) commit(ctx context.Context, b *Broker) {
	var inLanes sync.WaitGroup
	var last func()
	for lane, indexes := range p.lanes {
		if len(indexes) == 0 {
			continue
		}
		if last != nil {
			inLanes.Go(last)
		}
		last = func() { b.commitLane(ctx, p, lane, indexes) }
	}
	last()
	inLanes.Wait()
}

// commitLane commits the events of one lane, in parts of at most maxAppends;
// the first part that fails takes the rest with it.
func (b *Broker) commitLane(ctx context.Context, p *publication, lane int, indexes []int) {
	for len(indexes) > 0 {
		n, err := b.commitPart(ctx, p, lane, indexes)
		if err != nil {
			for _, i := range indexes {
				p.results[i].Err = err
			}
			return
		}
		indexes = indexes[n:]
	}
}

// commitPart commits as many of a lane's events as one commit may hold and
// returns how many. A lane that knows another registry is caught up with.
func (b *Broker) commitPart(ctx context.Context, p *publication, lane int, indexes []int) (int, error) {
	for range maxReroutes {
		c, n := p.route(b.registry.now(), indexes)
		done, err := b.engine.Publish(ctx, lane, c)
		var refused *millrace.Error
		if errors.As(err, &refused) && refused.Code == millrace.CodeStale {
			if err := b.registry.catchUp(ctx, lane, refused.CurrentVersion); err != nil {
				return 0, fmt.Errorf("catch up with the registry: %w", err)
			}
			continue
		}
		if err != nil {
			return 0, b.named(err)
		}
		p.record(indexes[:n], done)
		b.observePublished(done.Stamps)
		b.reaper.note(lane, done.Due)
		b.logExits(ctx, done.Dropped)
		return n, nil
	}
	return 0, millrace.Errorf(millrace.CodeUnavailable, "the definitions keep changing; try again")
}

// named tells a caller the name of the queue that has no room, in place of its uid.
func (b *Broker) named(err error) error {
	var refused *millrace.Error
	if !errors.As(err, &refused) || refused.Code != millrace.CodeFull {
		return err
	}
	for _, q := range b.registry.now().queues {
		if q.uid == refused.Sink {
			full := millrace.Errorf(millrace.CodeFull, "queue %s has no room for more of this tenant", q.name)
			full.Sink = q.name
			return full
		}
	}
	return err
}

// route makes the commit of the first events that fit in one, as a house routes them.
func (p *publication) route(h *house, indexes []int) (millrace.Commit, int) {
	appends := 0
	for n, i := range indexes {
		e := &p.events[i]
		if e.Delay == 0 {
			to := h.router.route(p.places[i])
			e.Queues, e.Batches = to.queues, to.batches
			if len(to.tracked) > 0 {
				e.Operations = openings(to.tracked, e.Body)
			}
		}
		if appends += len(e.Queues) + len(e.Batches); appends > maxAppends && n > 0 {
			indexes = indexes[:n]
			break
		}
	}
	c := millrace.Commit{Version: h.version}
	if len(indexes) == len(p.events) { // one lane, one commit: no need to copy
		c.Events = p.events
		return c, len(indexes)
	}
	c.Events = make([]millrace.CommitEvent, len(indexes))
	for n, i := range indexes {
		c.Events[n] = p.events[i]
	}
	return c, len(indexes)
}

// openings begin an event's operations, one for each tracked queue that takes it.
func openings(queues []*queue, body []byte) []millrace.Opening {
	e, err := millrace.DecodeEvent(body)
	if err != nil {
		panic(err) // it was encoded by us, a moment ago or when it was held
	}
	list := make([]millrace.Opening, len(queues))
	for i, q := range queues {
		list[i] = q.opening(&e)
	}
	return list
}

func (p *publication) record(indexes []int, done millrace.Committed) {
	for j, i := range indexes {
		s := done.Stamps[j]
		r := &p.results[i]
		r.Seq, r.Prev, r.Sinks, r.Duplicate, r.DueAt = s.Seq, s.Prev, s.Sinks, s.Duplicate, s.DueAt
	}
}

func (p *publication) failed() int {
	n := 0
	for i := range p.results {
		if p.results[i].Err != nil {
			n++
		}
	}
	return n
}

// outcome is nil if every event is stored, the failure if none is, and
// CodePartlyCommitted with every result in between.
func (p *publication) outcome() error {
	failed := p.failed()
	switch {
	case failed == 0:
		return nil
	case failed < len(p.results):
		e := millrace.Errorf(millrace.CodePartlyCommitted, "%d of %d events were not stored; repeat the whole request", failed, len(p.results))
		e.Events = p.results
		return e
	}
	for i := range p.results {
		if err := p.results[i].Err; millrace.CodeOf(err) == millrace.CodeOutcomeUnknown {
			return err
		}
	}
	return p.results[0].Err
}
