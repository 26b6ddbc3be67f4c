package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-dev/millrace"
)

// Lease takes messages in fair turns; see millrace.QueueService.
func (s Queues) Lease(ctx context.Context, name string, o millrace.LeaseOptions) ([]millrace.Message, error) {
	return s.LeaseAny(ctx, map[string]int{name: 1}, o)
}

func (s Queues) leaseAny(ctx context.Context, weights map[string]int, o millrace.LeaseOptions) ([]millrace.Message, error) {
	if err := s.b.gate.enter(); err != nil {
		return nil, err
	}
	defer s.b.gate.leave()
	if err := leaseFaults(weights, &o); err != nil {
		return nil, err
	}
	queues, err := s.open(ctx, weights, &o)
	if err != nil || len(queues) == 0 {
		return nil, err
	}
	if o.Wait == 0 {
		for _, q := range byWeight(queues, weights) {
			messages, err := s.lookEverywhere(ctx, q, o)
			if err != nil || len(messages) > 0 {
				return messages, err
			}
		}
		return nil, nil
	}
	return s.wait(ctx, queues, weights, o)
}

// open finds the queues that are not paused.
func (s Queues) open(ctx context.Context, weights map[string]int, o *millrace.LeaseOptions) ([]*queue, error) {
	queues := make([]*queue, 0, len(weights))
	for name := range weights {
		q, err := s.b.registry.queue(ctx, name)
		if err != nil {
			return nil, err
		}
		if o.AtMostOnce && q.spec.Ordered {
			return nil, millrace.Invalid([]millrace.Fault{{Location: "lease", Message: "must not be 0s on an ordered queue"}})
		}
		if o.AtMostOnce && q.spec.Tracked {
			return nil, millrace.Invalid([]millrace.Fault{{Location: "lease", Message: "must not be 0s on a tracked queue: its operations would never end"}})
		}
		if !q.paused {
			queues = append(queues, q)
		}
	}
	return queues, nil
}

// byWeight shuffles queues: each is first as often as its weight says, and so on
// for those that are left.
func byWeight(queues []*queue, weights map[string]int) []*queue {
	if len(queues) == 1 {
		return queues
	}
	rest := slices.Clone(queues)
	order := make([]*queue, 0, len(rest))
	for len(rest) > 0 {
		total := 0
		for _, q := range rest {
			total += weights[q.name]
		}
		i, at := 0, rand.IntN(total)
		for at >= weights[rest[i].name] {
			at -= weights[rest[i].name]
			i++
		}
		order = append(order, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	return order
}

// lookEverywhere looks once, also where nothing was when somebody last looked:
// a hint may be on its way, and the caller will not wait for it.
func (s Queues) lookEverywhere(ctx context.Context, q *queue, o millrace.LeaseOptions) ([]millrace.Message, error) {
	empty := s.b.waiting.emptyLanes(q.uid, o.Max)
	messages, _, err := s.look(ctx, q, o)
	for i := 0; i < len(empty) && len(messages) == 0 && err == nil; i++ {
		var got taken
		if got, err = s.visit(ctx, q, empty[i], o); err == nil {
			messages, err = s.messages(ctx, q, got)
		}
		if err == nil && len(messages) == 0 && got.Tenants > 0 { // what it came to was cancelled
			messages, _, err = s.look(ctx, q, o)
		}
	}
	return messages, err
}

func leaseFaults(weights map[string]int, o *millrace.LeaseOptions) error {
	if o.Max == 0 {
		o.Max = 1
	}
	faults := weightFaults(weights)
	add := func(bad bool, field, message string) {
		if bad {
			faults = append(faults, millrace.Fault{Location: field, Message: message})
		}
	}
	add(o.Max < 1 || o.Max > millrace.MaxLeaseCount, "max", "must be between 1 and "+strconv.Itoa(millrace.MaxLeaseCount))
	add(o.Wait < 0 || o.Wait > millrace.MaxWait, "wait", "must be between 0s and "+millrace.MaxWait.String())
	add(o.Lease != 0 && (o.Lease < millrace.MinLease || o.Lease > millrace.MaxLease), "lease",
		"must be between "+millrace.MinLease.String()+" and "+millrace.MaxLease.String())
	add(o.AtMostOnce && o.Lease != 0, "lease", "must not be given with at most once")
	m := millrace.NameFault(o.Consumer)
	add(o.Consumer != "" && m != "", "consumer", m)
	return millrace.Invalid(faults)
}

func weightFaults(weights map[string]int) []millrace.Fault {
	if len(weights) == 0 || len(weights) > millrace.MaxPage {
		return []millrace.Fault{{Location: "queues", Message: "must be 1 to " + strconv.Itoa(millrace.MaxPage)}}
	}
	var faults []millrace.Fault
	for name, weight := range weights {
		if weight < 1 || weight > millrace.MaxWeight {
			faults = append(faults, millrace.Fault{Location: "queues." + name, Message: "must be between 1 and " + strconv.Itoa(millrace.MaxWeight)})
		}
	}
	return faults
}

// wait looks, and looks again whenever it is woken, until it finds something,
// the wait is over, or the node stops.
func (s Queues) wait(ctx context.Context, queues []*queue, weights map[string]int, o millrace.LeaseOptions) ([]millrace.Message, error) {
	uids := make([]string, len(queues))
	for i, q := range queues {
		uids[i] = q.uid
	}
	w := s.b.waiting.enter(uids...)
	more := false
	defer func() { s.b.waiting.leave(w, more) }()
	over := time.NewTimer(o.Wait)
	defer over.Stop()
	for {
		more = false
		for _, q := range byWeight(queues, weights) {
			var messages []millrace.Message
			var err error
			var rest bool
			messages, rest, err = s.look(ctx, q, o)
			if err != nil || len(messages) > 0 {
				more = rest
				return messages, err
			}
			more = more || rest
		}
		if more { // it found only what was cancelled, and nobody will hint at the rest
			w.wake()
		}
		select {
		case <-w.woken:
			if s.b.gate.isClosed() {
				return nil, nil
			}
		case <-over.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// maxLooks is how often one look goes over the lanes: they may have nothing to give but what was cancelled, which each
// visit drops as much of as it may.
const maxLooks = 100

// look visits the lanes that may have messages until some are found, and says
// whether there are more. It may find none though there are, if enough were cancelled.
func (s Queues) look(ctx context.Context, q *queue, o millrace.LeaseOptions) (found []millrace.Message, more bool, err error) {
	for range maxLooks {
		if len(found) > 0 {
			break
		}
		visits := s.b.waiting.plan(q.uid, o.Max)
		if len(visits) == 0 {
			return nil, false, nil
		}
		leased := make([]taken, len(visits))
		var g errgroup.Group
		for i, v := range visits {
			g.Go(func() (err error) {
				leased[i], err = s.visit(ctx, q, v, o)
				return err
			})
		}
		err := g.Wait()
		for _, l := range leased {
			messages, decodeErr := s.messages(ctx, q, l)
			found = append(found, messages...)
			more = more || l.Tenants > 0
			err = errors.Join(err, decodeErr)
		}
		if err != nil && len(found) == 0 {
			return nil, false, err
		}
	}
	if more {
		s.b.waiting.pass(q.uid)
	}
	return found, more, nil
}

// taken is what one visit brought.
type taken struct {
	millrace.Leased
	token millrace.Token
	once  bool // the messages are gone: there is nothing to settle
}

// visit leases in one lane.
func (s Queues) visit(ctx context.Context, q *queue, v visit, o millrace.LeaseOptions) (taken, error) {
	l := millrace.Lease{Queue: q.uid, Max: v.max, MaxBytes: millrace.MaxLeaseBytes, For: o.Lease, Token: newToken(), Consumer: o.Consumer}
	if l.For == 0 && !o.AtMostOnce {
		l.For = q.spec.Lease
	}
	var leased millrace.Leased
	err := s.inLane(ctx, q, v.lane, func() (err error) {
		leased, err = s.b.engine.Lease(ctx, v.lane, l)
		return err
	})
	if err != nil {
		s.b.waiting.learn(q.uid, v, 0, 1)
		return taken{}, err
	}
	s.b.waiting.learn(q.uid, v, len(leased.Messages), leased.Tenants)
	s.b.reaper.note(v.lane, leased.Due)
	return taken{leased, l.Token, o.AtMostOnce}, nil
}

// inLane does something with a queue in a lane.
func (s Queues) inLane(ctx context.Context, q *queue, lane int, do func() error) error {
	return s.b.registry.inLane(ctx, &q.definition, lane, do)
}

func (s Queues) messages(ctx context.Context, q *queue, l taken) ([]millrace.Message, error) {
	out := make([]millrace.Message, 0, len(l.Messages))
	for _, m := range l.Messages {
		e, err := millrace.DecodeEvent(m.Body)
		if err != nil {
			return out, fmt.Errorf("read event %d of queue %s: %w", m.Seq, q.name, err)
		}
		e.Seq, e.Prev, e.RecordedAt = m.Seq, m.Prev, m.RecordedAt
		message := millrace.Message{ID: millrace.MessageID(m.Name), Queue: q.name, Attempt: m.Attempt, Event: e}
		if q.spec.Tracked {
			message.Operation = m.Operation.String()
		}
		if !l.once {
			message.LeasedUntil = l.Until
			message.Receipt = millrace.Receipt{Name: m.Name, Attempt: m.Attempt, Token: l.token}.String()
		}
		out = append(out, message)
	}
	if l.once && s.b.logging(ctx) {
		s.b.logOnce(ctx, out)
	}
	return out, nil
}
