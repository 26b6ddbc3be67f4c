package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-dev/millrace"
)

// purgeTime bounds how long one purge works; what is left is said.
const purgeTime = 5 * time.Second

// Peek shows waiting messages in the order of serving; see millrace.QueueService.
func (s Queues) Peek(ctx context.Context, name, tenant string, limit int) ([]millrace.StoredMessage, error) {
	limit, faults := pageFaults(limit, tenant)
	q, err := s.enterFor(ctx, name, faults)
	if err != nil {
		return nil, err
	}
	defer s.b.gate.leave()
	lanes := make([][]millrace.QueuedMessage, s.b.identity.Lanes)
	for lane := range lanes {
		err := s.inLane(ctx, q, lane, func() (err error) {
			lanes[lane], err = s.b.engine.Peek(ctx, lane, millrace.Peek{Queue: q.uid, Tenant: tenant, Limit: limit})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var turns []millrace.QueuedMessage
	for more, turn := true, 0; more; turn++ {
		more = false
		for _, list := range lanes {
			if turn < len(list) {
				turns, more = append(turns, list[turn]), true
			}
		}
	}
	return q.stored(turns[:min(limit, len(turns))])
}

// pageFaults checks what selects messages, and gives a limit its default.
func pageFaults(limit int, tenant string) (int, []millrace.Fault) {
	var faults []millrace.Fault
	if limit == 0 {
		limit = millrace.DefaultPage
	}
	if limit < 1 || limit > millrace.MaxPage {
		faults = append(faults, millrace.Fault{Location: "limit", Message: "must be between 1 and " + strconv.Itoa(millrace.MaxPage)})
	}
	return limit, append(faults, tenantFaults(tenant)...)
}

func tenantFaults(tenant string) []millrace.Fault {
	if m := millrace.NameFault(tenant); tenant != "" && m != "" {
		return []millrace.Fault{{Location: "tenant", Message: m}}
	}
	return nil
}

// stored is messages as they may be shown: without what the queue redacts.
func (q *queue) stored(messages []millrace.QueuedMessage) ([]millrace.StoredMessage, error) {
	out := make([]millrace.StoredMessage, len(messages))
	for i, m := range messages {
		e, err := millrace.DecodeEvent(m.Body)
		if err != nil {
			return nil, fmt.Errorf("read message %d: %w", m.Name, err)
		}
		e.Seq, e.Prev, e.RecordedAt = m.Seq, m.Prev, m.RecordedAt
		e.Data = q.shown(&e)
		out[i] = millrace.StoredMessage{ID: millrace.MessageID(m.Name), Attempts: m.Attempts, Event: e, Reason: m.Reason, Error: m.Error, DeadAt: m.DeadAt}
	}
	return out, nil
}

// shown is an event's data without what the queue redacts; of what is not JSON nothing can be told apart.
func (q *queue) shown(e *millrace.Event) []byte {
	switch {
	case len(q.spec.Redact) == 0:
		return e.Data
	case !e.IsJSON():
		return nil
	}
	return millrace.Redact(e.Data, q.spec.Redact)
}

// Dead lists dead letters, oldest first; see millrace.QueueService. Names of all
// lanes sort by the time at which they were given.
func (s Queues) Dead(ctx context.Context, name, tenant string, page millrace.Page) ([]millrace.StoredMessage, string, error) {
	limit, faults := pageFaults(page.Limit, tenant)
	q, err := s.enterFor(ctx, name, faults)
	if err != nil {
		return nil, "", err
	}
	defer s.b.gate.leave()
	after, ok := millrace.ParseMessageID(page.Cursor)
	if !ok && page.Cursor != "" {
		return nil, "", millrace.Errorf(millrace.CodeBadCursor, "the cursor is not one that a list has given")
	}
	var all []millrace.QueuedMessage
	for lane := range s.b.identity.Lanes {
		err := s.inLane(ctx, q, lane, func() error {
			list, err := s.b.engine.Dead(ctx, lane, millrace.DeadPage{Queue: q.uid, Tenant: tenant, After: after, Limit: limit + 1})
			all = append(all, list...)
			return err
		})
		if err != nil {
			return nil, "", err
		}
	}
	slices.SortFunc(all, func(a, b millrace.QueuedMessage) int { return cmp.Compare(a.Name, b.Name) })
	next := ""
	if len(all) > limit {
		all = all[:limit]
		next = millrace.MessageID(all[limit-1].Name)
	}
	list, err := q.stored(all)
	return list, next, err
}

// Redrive makes dead letters wait again; see millrace.QueueService.
func (s Queues) Redrive(ctx context.Context, name string, which millrace.DeadSelection) (done, left int, err error) {
	return s.eachDead(ctx, name, which, func(q *queue, lane int, d millrace.DeadOf) (int, int, error) {
		if !q.spec.Tracked {
			return s.b.engine.Redrive(ctx, lane, d)
		}
		return s.reopen(ctx, q, lane, d)
	})
}

// reopen makes dead letters of a tracked queue wait again, each with a new operation: the old one has ended. It has to read
// them first.
func (s Queues) reopen(ctx context.Context, q *queue, lane int, d millrace.DeadOf) (done, left int, err error) {
	all, asked := d.All, len(d.Names)
	messages, err := s.chosenDead(ctx, q, lane, &d)
	if err != nil {
		return 0, 0, err
	}
	d.All, d.Names = false, nil
	for size := 0; len(messages) > 0; messages = messages[1:] {
		m := &messages[0]
		if size += len(m.Body); size > millrace.MaxLeaseBytes && len(d.Names) > 0 {
			break // their payloads are stored once more: the rest is for the next call
		}
		e, err := millrace.DecodeEvent(m.Body)
		if err != nil {
			return 0, 0, fmt.Errorf("read dead letter %d: %w", m.Name, err)
		}
		d.Names = append(d.Names, m.Name)
		d.Openings = append(d.Openings, q.opening(&e))
	}
	if len(d.Names) > 0 {
		if done, left, err = s.b.engine.Redrive(ctx, lane, d); err != nil {
			return done, left, err
		}
	}
	if !all {
		return done, left + asked - len(d.Names), nil
	}
	if d.Tenant != "" {
		t, err := s.b.engine.Tenant(ctx, lane, q.uid, d.Tenant)
		return done, int(t.Dead), err
	}
	stats, err := s.b.engine.Stats(ctx, lane, q.uid)
	return done, int(stats.Dead), err
}

// chosenDead reads the dead letters of a lane that are meant.
func (s Queues) chosenDead(ctx context.Context, q *queue, lane int, d *millrace.DeadOf) (list []millrace.QueuedMessage, err error) {
	if d.All {
		return s.b.engine.Dead(ctx, lane, millrace.DeadPage{Queue: q.uid, Tenant: d.Tenant, Limit: d.Max})
	}
	size := 0
	for _, name := range d.Names {
		if size > millrace.MaxLeaseBytes {
			break
		}
		found, err := s.b.engine.Dead(ctx, lane, millrace.DeadPage{Queue: q.uid, After: name - 1, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(found) == 1 && found[0].Name == name {
			list, size = append(list, found[0]), size+len(found[0].Body)
		}
	}
	return list, nil
}

// DropDead removes dead letters; see millrace.QueueService.
func (s Queues) DropDead(ctx context.Context, name string, which millrace.DeadSelection) (done, left int, err error) {
	return s.eachDead(ctx, name, which, func(q *queue, lane int, d millrace.DeadOf) (int, int, error) {
		done, left, err := s.b.engine.DropDead(ctx, lane, d)
		if err == nil && s.b.logging(ctx) {
			s.b.logDeadDropped(ctx, q, d, done)
		}
		return done, left, err
	})
}

// eachDead does something with dead letters, at most 1,000 in all.
func (s Queues) eachDead(ctx context.Context, name string, which millrace.DeadSelection, do func(*queue, int, millrace.DeadOf) (int, int, error)) (done, left int, err error) {
	q, err := s.enterFor(ctx, name, selectionFaults(&which))
	if err != nil {
		return 0, 0, err
	}
	defer s.b.gate.leave()
	byLane := make([][]uint64, s.b.identity.Lanes)
	for _, id := range which.IDs {
		if n, ok := millrace.ParseMessageID(id); ok {
			lane := millrace.LaneOfSeq(n, s.b.identity.Lanes)
			byLane[lane] = append(byLane[lane], n)
		}
	}
	for lane := range byLane {
		if !which.All && len(byLane[lane]) == 0 {
			continue
		}
		d := millrace.DeadOf{Queue: q.uid, Names: byLane[lane], All: which.All, Tenant: which.Tenant, Max: millrace.MaxPage - done}
		err := s.inLane(ctx, q, lane, func() error {
			n, rest, err := do(q, lane, d)
			done, left = done+n, left+rest
			return err
		})
		if err != nil {
			return done, left, err
		}
	}
	if len(which.IDs) == 1 && done == 0 {
		return 0, 0, millrace.Errorf(millrace.CodeNotFound, "there is no such dead letter")
	}
	return done, left, nil
}

func selectionFaults(which *millrace.DeadSelection) []millrace.Fault {
	faults := tenantFaults(which.Tenant)
	for i, id := range which.IDs {
		if id == "" {
			faults = append(faults, millrace.Fault{Location: "ids[" + strconv.Itoa(i) + "]", Message: "must not be empty"})
		}
	}
	switch {
	case which.All == (len(which.IDs) > 0):
		faults = append(faults, millrace.Fault{Location: "ids", Message: "must be given, or all, but not both"})
	case !which.All && which.Tenant != "":
		faults = append(faults, millrace.Fault{Location: "tenant", Message: "goes with all"})
	case len(which.IDs) > millrace.MaxPage:
		faults = append(faults, millrace.Fault{Location: "ids", Message: "must be at most " + strconv.Itoa(millrace.MaxPage)})
	}
	return faults
}

// Purge removes what waits or is delayed; see millrace.QueueService.
func (s Queues) Purge(ctx context.Context, name, tenant string) (done, left int, err error) {
	q, err := s.enterFor(ctx, name, tenantFaults(tenant))
	if err != nil {
		return 0, 0, err
	}
	defer s.b.gate.leave()
	defer func() { s.b.logDropped(ctx, q, tenant, "purge", done) }() // also what a failed purge took
	until := time.Now().Add(purgeTime)
	for lane := range s.b.identity.Lanes {
		for {
			n, rest := 0, 0
			p := millrace.Purge{Queue: q.uid, Tenant: tenant, Max: millrace.MaxPage}
			if time.Now().After(until) {
				p.Max = 0
			}
			err := s.inLane(ctx, q, lane, func() (err error) {
				n, rest, err = s.b.engine.Purge(ctx, lane, p)
				return err
			})
			done += n
			if err != nil {
				return done, left, err
			}
			if rest == 0 || n == 0 {
				left += rest
				break
			}
		}
	}
	return done, left, nil
}

// Release gives back what a consumer held; see millrace.QueueService.
func (s Queues) Release(ctx context.Context, name, consumer string) (total int, err error) {
	var faults []millrace.Fault
	if m := millrace.NameFault(consumer); m != "" {
		faults = append(faults, millrace.Fault{Location: "consumer", Message: m})
	}
	q, err := s.enterFor(ctx, name, faults)
	if err != nil {
		return 0, err
	}
	defer s.b.gate.leave()
	defer func() { s.b.logReleased(ctx, q, consumer, total) }()
	for lane := range s.b.identity.Lanes {
		for {
			n := 0
			err := s.inLane(ctx, q, lane, func() (err error) {
				n, err = s.b.engine.Release(ctx, lane, millrace.Release{Queue: q.uid, Consumer: consumer, Max: millrace.MaxPage})
				return err
			})
			total += n
			if err != nil {
				return total, err
			}
			if n < millrace.MaxPage {
				break
			}
		}
	}
	return total, nil
}
