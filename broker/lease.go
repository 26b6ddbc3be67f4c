package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-dev/millrace"
)

// Lease takes messages in fair turns; see millrace.QueueService.
func (s Queues) Lease(ctx context.Context, name string, o millrace.LeaseOptions) ([]millrace.Message, error) {
	if err := s.b.gate.enter(); err != nil {
		return nil, err
	}
	defer s.b.gate.leave()
	if err := leaseFaults(&o); err != nil {
		return nil, err
	}
	q, err := s.b.registry.queue(ctx, name)
	if err != nil {
		return nil, err
	}
	if o.Lease == 0 {
		o.Lease = q.spec.Lease
	}
	if o.Wait == 0 {
		return s.lookEverywhere(ctx, q, o)
	}
	return s.wait(ctx, q, o)
}

// lookEverywhere looks once, also where nothing was when somebody last looked:
// a hint may be on its way, and the caller will not wait for it.
func (s Queues) lookEverywhere(ctx context.Context, q *queue, o millrace.LeaseOptions) ([]millrace.Message, error) {
	empty := s.b.waiting.emptyLanes(q.uid, o.Max)
	messages, _, err := s.look(ctx, q, o)
	for i := 0; i < len(empty) && len(messages) == 0 && err == nil; i++ {
		var got taken
		if got, err = s.visit(ctx, q, empty[i], o); err == nil {
			messages, err = s.messages(q, got)
		}
	}
	return messages, err
}

func leaseFaults(o *millrace.LeaseOptions) error {
	if o.Max == 0 {
		o.Max = 1
	}
	var faults []millrace.Fault
	add := func(field, message string) {
		faults = append(faults, millrace.Fault{Location: field, Message: message})
	}
	if o.Max < 1 || o.Max > millrace.MaxLeaseCount {
		add("max", "must be between 1 and "+strconv.Itoa(millrace.MaxLeaseCount))
	}
	if o.Wait < 0 || o.Wait > millrace.MaxWait {
		add("wait", "must be between 0s and "+millrace.MaxWait.String())
	}
	if o.Lease != 0 && (o.Lease < millrace.MinLease || o.Lease > millrace.MaxLease) {
		add("lease", "must be between "+millrace.MinLease.String()+" and "+millrace.MaxLease.String())
	}
	return millrace.Invalid(faults)
}

// wait looks, and looks again whenever it is woken, until it finds something,
// the wait is over, or the queue is gone.
func (s Queues) wait(ctx context.Context, q *queue, o millrace.LeaseOptions) (messages []millrace.Message, err error) {
	room := s.b.waiting
	w := room.enter(q.uid)
	more := false
	defer func() { room.leave(q.uid, w, more) }()
	over := time.NewTimer(o.Wait)
	defer over.Stop()
	for {
		messages, more, err = s.look(ctx, q, o)
		if err != nil || len(messages) > 0 {
			return messages, err
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

// look visits the lanes that may have messages until some are found, and says
// whether there are more.
func (s Queues) look(ctx context.Context, q *queue, o millrace.LeaseOptions) (found []millrace.Message, more bool, err error) {
	for len(found) == 0 {
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
			messages, decodeErr := s.messages(q, l)
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
}

// visit leases in one lane.
func (s Queues) visit(ctx context.Context, q *queue, v visit, o millrace.LeaseOptions) (taken, error) {
	l := millrace.Lease{Queue: q.uid, Max: v.max, MaxBytes: millrace.MaxLeaseBytes, For: o.Lease}
	if _, err := rand.Read(l.Token[:]); err != nil {
		return taken{}, fmt.Errorf("make token: %w", err)
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
	return taken{leased, l.Token}, nil
}

// inLane does something with a queue in a lane. A lane that does not know the
// queue, although the registry does, is told of it and asked again.
func (s Queues) inLane(ctx context.Context, q *queue, lane int, do func() error) error {
	err := do()
	if millrace.CodeOf(err) != millrace.CodeNotFound {
		return err
	}
	h, reloadErr := s.b.registry.reload(ctx)
	if reloadErr != nil {
		return reloadErr
	}
	if now, ok := h.queues[q.name]; !ok || now.uid != q.uid {
		return err
	}
	if err := s.b.registry.applyAll(ctx, lane, h); err != nil {
		return err
	}
	return do()
}

func (s Queues) messages(q *queue, l taken) ([]millrace.Message, error) {
	out := make([]millrace.Message, 0, len(l.Messages))
	for _, m := range l.Messages {
		e, err := millrace.DecodeEvent(m.Body)
		if err != nil {
			return out, fmt.Errorf("read event %d of queue %s: %w", m.Seq, q.name, err)
		}
		e.Seq, e.Prev, e.RecordedAt = m.Seq, m.Prev, m.RecordedAt
		out = append(out, millrace.Message{
			ID: millrace.MessageID(m.Seq), Queue: q.name, Attempt: m.Attempt, LeasedUntil: l.Until, Event: e,
			Receipt: millrace.Receipt{Seq: m.Seq, Attempt: m.Attempt, Token: l.token}.String(),
		})
	}
	return out, nil
}
