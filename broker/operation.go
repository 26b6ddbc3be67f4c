package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-dev/millrace"
)

// Operations is what is done with operations. It is a millrace.OperationService.
type Operations struct{ b *Broker }

var _ millrace.OperationService = Operations{}

// Operations is what is done with operations.
func (b *Broker) Operations() millrace.OperationService { return Operations{b} }

// opening begins the operation of an event in a tracked queue. What the queue redacts is not in it.
func (q *queue) opening(e *millrace.Event) millrace.Opening {
	o := millrace.Opening{Queue: q.uid, Name: q.name, Type: e.Type, Subject: e.Key, Event: e.ID}
	_, _ = rand.Read(o.Secret[:]) // it never fails
	if e.IsJSON() {
		o.Payload = millrace.Redact(e.Data, q.spec.Redact)
	}
	return o
}

// Start enqueues one piece of work; see millrace.OperationService.
func (s Operations) Start(ctx context.Context, r millrace.OperationRequest) (millrace.StartedOperation, error) {
	if err := s.b.gate.enter(); err != nil {
		return millrace.StartedOperation{}, err
	}
	defer s.b.gate.leave()
	if err := millrace.Invalid(r.Faults("")); err != nil {
		return millrace.StartedOperation{}, err
	}
	q, err := s.tracked(ctx, r.Queue)
	if err != nil {
		return millrace.StartedOperation{}, err
	}
	if r.Delay > 0 && q.spec.Ordered {
		return millrace.StartedOperation{}, millrace.Invalid([]millrace.Fault{{Location: "delay", Message: "must be 0s in an ordered queue: it would hold up all that comes after it"}})
	}
	id, err := s.b.ids.next()
	if err != nil {
		return millrace.StartedOperation{}, err
	}
	lane, start := s.start(q, id, &r)
	var done millrace.Started
	err = s.b.registry.inLane(ctx, &q.definition, lane, func() (err error) {
		done, err = s.b.engine.Start(ctx, lane, start)
		return err
	})
	if err != nil {
		return millrace.StartedOperation{}, s.b.named(err)
	}
	s.b.reaper.note(lane, done.Due)
	s.b.logExits(ctx, done.Dropped)
	return millrace.StartedOperation{ID: done.ID.String(), Status: done.Status, Existing: done.Existing}, nil
}

// start is a request as its lane takes it, and the lane: that of the subject, or without one of what must not be open
// twice; otherwise any.
func (s Operations) start(q *queue, id string, r *millrace.OperationRequest) (lane int, start millrace.Start) {
	e := millrace.Event{
		ID: id, Topic: q.name, Type: r.Type, Tenant: cmp.Or(r.Tenant, millrace.DefaultTenant), Key: r.Subject,
		Time: time.Now().UTC(), ContentType: millrace.JSONContentType, Data: r.Payload, Unchained: true,
	}
	start = millrace.Start{
		Tenant: e.Tenant, Key: e.Key, Body: millrace.AppendEvent(nil, &e), Delay: r.Delay, Opening: q.opening(&e),
		Deduped: r.DedupeKey != "", Dedupe: millrace.DigestTexts(e.Tenant, q.uid, r.Subject, r.DedupeKey),
	}
	lane = int(s.b.nextLane.Add(1) % uint64(s.b.identity.Lanes))
	if place := cmp.Or(r.Subject, r.DedupeKey); place != "" {
		lane = millrace.LaneOf(millrace.Hash(e.Tenant, place), s.b.identity.Lanes)
	}
	return lane, start
}

// tracked finds a tracked queue by name.
func (s Operations) tracked(ctx context.Context, name string) (*queue, error) {
	q, err := s.b.registry.queue(ctx, name)
	if err == nil && !q.spec.Tracked {
		return nil, millrace.Errorf(millrace.CodeNotTracked, "the messages of queue %s have no operations: define it with tracked", q.name)
	}
	return q, err
}

// Get returns one operation; see millrace.OperationService.
func (s Operations) Get(ctx context.Context, id string) (millrace.TrackedOperation, error) {
	if err := s.b.gate.enter(); err != nil {
		return millrace.TrackedOperation{}, err
	}
	defer s.b.gate.leave()
	o, err := s.read(ctx, id, false)
	return shownOperation(o), err
}

func errNoOperation() error {
	return millrace.Errorf(millrace.CodeNotFound, "there is no such operation, or it has expired")
}

// read finds an operation by its id. Whoever does not know all of it finds nothing.
func (s Operations) read(ctx context.Context, text string, watch bool) (millrace.StoredOperation, error) {
	id, ok := millrace.ParseOperationID(text)
	if !ok {
		return millrace.StoredOperation{}, errNoOperation()
	}
	lane := millrace.LaneOfSeq(id.Number, s.b.identity.Lanes)
	o, err := s.b.engine.Operation(ctx, lane, millrace.ReadOperation{Number: id.Number, Watch: watch})
	switch {
	case millrace.CodeOf(err) == millrace.CodeNotFound:
		return o, errNoOperation()
	case err != nil:
		return o, err
	case subtle.ConstantTimeCompare(o.ID.Secret[:], id.Secret[:]) != 1:
		return millrace.StoredOperation{}, errNoOperation()
	}
	return o, nil
}

func shownOperation(o millrace.StoredOperation) millrace.TrackedOperation {
	return millrace.TrackedOperation{ID: o.ID.String(), Operation: o.Operation}
}

// Cancel ends an operation, or asks for its end; see millrace.OperationService.
func (s Operations) Cancel(ctx context.Context, id string) (millrace.TrackedOperation, error) {
	if err := s.b.gate.enter(); err != nil {
		return millrace.TrackedOperation{}, err
	}
	defer s.b.gate.leave()
	o, err := s.read(ctx, id, false)
	if err != nil {
		return millrace.TrackedOperation{}, err
	}
	o, err = s.b.engine.CancelOperation(ctx, millrace.LaneOfSeq(o.ID.Number, s.b.identity.Lanes), time.Time{}, o.ID.Number)
	switch millrace.CodeOf(err) {
	case millrace.CodeNotFound:
		err = errNoOperation()
	case millrace.CodeFinished:
		err = millrace.Errorf(millrace.CodeFinished, "the operation has finished")
	}
	if err != nil {
		return millrace.TrackedOperation{}, err
	}
	return shownOperation(o), nil
}

// Report tells how far an operation has come; see millrace.OperationService.
func (s Operations) Report(ctx context.Context, id, receipt string, p millrace.Progress) error {
	if err := s.b.gate.enter(); err != nil {
		return err
	}
	defer s.b.gate.leave()
	if err := millrace.Invalid(p.Faults("")); err != nil {
		return err
	}
	o, err := s.read(ctx, id, false)
	if err != nil {
		return err
	}
	lost := millrace.Errorf(millrace.CodeLost, "the receipt is not of a live lease of the operation's message")
	r, ok := millrace.ParseReceipt(receipt)
	if !ok {
		return lost
	}
	err = s.b.engine.Report(ctx, millrace.LaneOfSeq(o.ID.Number, s.b.identity.Lanes),
		millrace.ProgressReport{Number: o.ID.Number, Name: r.Name, Token: r.Token, Progress: p})
	if millrace.CodeOf(err) == millrace.CodeLost {
		return lost
	}
	return err
}

// List returns operations, newest first; see millrace.OperationService.
func (s Operations) List(ctx context.Context, q millrace.OperationQuery) ([]millrace.TrackedOperation, string, error) {
	if err := s.b.gate.enter(); err != nil {
		return nil, "", err
	}
	defer s.b.gate.leave()
	page := millrace.OperationPage{Subject: q.Subject, Status: q.Status, Tenant: q.Tenant}
	var faults []millrace.Fault
	page.Limit, faults = pageFaults(q.Limit, q.Tenant)
	if err := millrace.Invalid(append(faults, q.Faults()...)); err != nil {
		return nil, "", err
	}
	if q.Queue != "" {
		found, err := s.tracked(ctx, q.Queue)
		if err != nil {
			return nil, "", err
		}
		page.Queue = found.uid
	}
	if q.Cursor != "" {
		before, ok := millrace.ParseMessageID(q.Cursor)
		if !ok || before == 0 {
			return nil, "", millrace.Errorf(millrace.CodeBadCursor, "the cursor is not one that a list has given")
		}
		page.Before = before
	}
	return s.list(ctx, page)
}

// listPart is how many operations are read at a time: they may be large.
const listPart = 100

// list gathers a page, part by part. It ends early, with a cursor, when it has grown large or a part looked at as much as
// one may.
func (s Operations) list(ctx context.Context, page millrace.OperationPage) ([]millrace.TrackedOperation, string, error) {
	out, limit, size := []millrace.TrackedOperation{}, page.Limit, 0
	for {
		page.Limit = min(listPart, limit-len(out))
		part, next, err := s.part(ctx, page)
		if err != nil {
			return nil, "", err
		}
		for _, o := range part {
			size += len(o.Payload) + len(o.Output)
			if len(out) > 0 && size > millrace.MaxLeaseBytes {
				return out, millrace.MessageID(page.Before), nil
			}
			out = append(out, shownOperation(o))
			page.Before = o.ID.Number
		}
		switch {
		case next == 0:
			return out, "", nil
		case len(out) == limit || len(part) < page.Limit:
			return out, millrace.MessageID(next), nil
		}
		page.Before = next
	}
}

// part merges what the lanes have, and says before which number the next part begins; 0 if there is none. A lane that
// was not looked at to its end has nothing to say of what is older than where the look ended.
func (s Operations) part(ctx context.Context, page millrace.OperationPage) ([]millrace.StoredOperation, uint64, error) {
	var all []millrace.StoredOperation
	var floor uint64
	lanes := s.b.identity.Lanes
	first, last := 0, lanes
	if page.Subject != "" && page.Tenant != "" { // what has a key lies in the key's lane
		first = millrace.LaneOf(millrace.Hash(page.Tenant, page.Subject), lanes)
		last = first + 1
	}
	for lane := first; lane < last; lane++ {
		list, next, err := s.b.engine.ListOperations(ctx, lane, page)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, list...)
		floor = max(floor, next)
	}
	slices.SortFunc(all, func(a, b millrace.StoredOperation) int { return cmp.Compare(b.ID.Number, a.ID.Number) })
	for i, o := range all {
		if o.ID.Number < floor {
			all = all[:i]
			break
		}
	}
	if len(all) > page.Limit {
		all = all[:page.Limit]
		floor = all[page.Limit-1].ID.Number
	}
	return all, floor, nil
}

// Counts returns what happened to the operations of a queue; see millrace.OperationService.
func (s Operations) Counts(ctx context.Context, q millrace.OperationCountQuery) (millrace.OperationCounts, error) {
	if err := s.b.gate.enter(); err != nil {
		return millrace.OperationCounts{}, err
	}
	defer s.b.gate.leave()
	q = q.WithDefaults(time.Now())
	if err := millrace.Invalid(q.Faults()); err != nil {
		return millrace.OperationCounts{}, err
	}
	found, err := s.tracked(ctx, q.Queue)
	if err != nil {
		return millrace.OperationCounts{}, err
	}
	out := millrace.OperationCounts{Queue: q.Queue, Bucket: q.Bucket, Since: q.Since, Until: q.Until}
	for at := q.Since; at.Before(q.Until); at = at.Add(q.Bucket.Span()) {
		out.Counts = append(out.Counts, millrace.OperationCount{At: at, Queued: millrace.Spans{}, Running: millrace.Spans{}})
	}
	for lane := range s.b.identity.Lanes {
		counts, total, err := s.b.engine.OperationCounts(ctx, lane, millrace.CountQuery{Queue: found.uid, Bucket: q.Bucket, Since: q.Since, Until: q.Until})
		if err != nil {
			return millrace.OperationCounts{}, err
		}
		out.Total = out.Total.Plus(total)
		for _, c := range counts {
			sum := &out.Counts[c.At.Sub(q.Since)/q.Bucket.Span()]
			sum.Tally = sum.Plus(c.Tally)
			sum.Queued.Add(c.Queued)
			sum.Running.Add(c.Running)
		}
	}
	return out, nil
}

// outputFaults checks what acks bring with them.
func outputFaults(items []millrace.Settlement) (faults []millrace.Fault) {
	for i, item := range items {
		switch {
		case len(item.Output) > millrace.MaxOutput:
			faults = append(faults, millrace.Fault{Location: "items[" + strconv.Itoa(i) + "].output", Message: "must be at most " + strconv.Itoa(millrace.MaxOutput) + " bytes"})
		case millrace.DeeperThan(item.Output, millrace.MaxOutputDepth):
			faults = append(faults, millrace.Fault{Location: "items[" + strconv.Itoa(i) + "].output", Message: "must nest at most " + strconv.Itoa(millrace.MaxOutputDepth) + " deep"})
		case len(item.Output) > 0 && !jsontext.Value(item.Output).IsValid(jsontext.AllowDuplicateNames(true)):
			faults = append(faults, millrace.Fault{Location: "items[" + strconv.Itoa(i) + "].output", Message: "must be JSON"})
		}
	}
	return faults
}
