package client

import (
	"context"
	"iter"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// Operations is what is done with operations.
func (c *Client) Operations() millrace.OperationService { return operations{c} }

// operations is what is done with operations.
type operations struct{ c *Client }

// Start is asked once unless it has a DedupeKey: asked again, the work would be enqueued twice.
func (o operations) Start(ctx context.Context, r millrace.OperationRequest) (millrace.StartedOperation, error) {
	if err := millrace.Invalid(r.Faults("")); err != nil {
		return millrace.StartedOperation{}, err
	}
	k := post(api.AppendOperationRequest(nil, &r), "operations")
	k.once = r.DedupeKey == ""
	answer, err := o.c.do(ctx, k)
	if err != nil {
		return millrace.StartedOperation{}, err
	}
	started, err := api.DecodeStarted(answer.text)
	return started, understood(err)
}

// errNoOperation is the answer to an id that cannot be one.
func errNoOperation() error {
	return millrace.Errorf(millrace.CodeNotFound, "there is no such operation, or it has expired")
}

// one asks for something of one operation, which it is the answer to.
func (o operations) one(ctx context.Context, id string, k call) (millrace.TrackedOperation, bool, error) {
	if textFault("id", id) != nil {
		return millrace.TrackedOperation{}, false, errNoOperation()
	}
	r, err := o.c.do(ctx, k)
	if err != nil {
		return millrace.TrackedOperation{}, r.again, err
	}
	op, err := api.DecodeOperation(r.text)
	return op, r.again, understood(err)
}

func (o operations) Get(ctx context.Context, id string) (millrace.TrackedOperation, error) {
	op, _, err := o.one(ctx, id, get("operations", id))
	return op, err
}

func (o operations) Await(ctx context.Context, id string, seen millrace.OperationStatus, wait time.Duration) (millrace.TrackedOperation, error) {
	k := get("operations", id)
	k.query, k.wait = api.EncodeAwait(seen, wait), min(wait, millrace.MaxWait)
	if _, _, _, err := api.DecodeAwait(k.query); err != nil {
		return millrace.TrackedOperation{}, err
	}
	op, _, err := o.one(ctx, id, k)
	return op, err
}

// Watch ends with CodeUnavailable when the connection breaks before the operation has finished; whoever watches again sees it
// as it is then.
func (o operations) Watch(ctx context.Context, id string) (iter.Seq2[millrace.TrackedOperation, error], error) {
	if textFault("id", id) != nil {
		return nil, errNoOperation()
	}
	s, err := o.c.openStream(ctx, get("operations", id, "watch"))
	if err != nil {
		return nil, err
	}
	return func(yield func(millrace.TrackedOperation, error) bool) {
		readFrames(ctx, s, api.DecodeOperationFrame, func(op millrace.TrackedOperation, err error) bool {
			return yield(op, err) && !op.Status.Finished()
		})
	}, nil
}

func (o operations) List(ctx context.Context, q millrace.OperationQuery) ([]millrace.TrackedOperation, string, error) {
	if err := millrace.Invalid(q.Faults()); err != nil {
		return nil, "", err
	}
	k := get("operations")
	k.query = api.EncodeOperationQuery(q)
	r, err := o.c.do(ctx, k)
	if err != nil {
		return nil, "", err
	}
	list, next, err := api.DecodeOperations(r.text)
	return list, next, understood(err)
}

// Cancel may be asked again: an operation that the first asking cancelled is not one that had finished before.
func (o operations) Cancel(ctx context.Context, id string) (millrace.TrackedOperation, error) {
	op, again, err := o.one(ctx, id, post(nil, "operations", id, "cancel"))
	if !again || millrace.CodeOf(err) != millrace.CodeFinished {
		return op, err
	}
	found, getErr := o.Get(ctx, id)
	if getErr != nil || found.Status != millrace.OperationCancelled {
		return op, err
	}
	return found, nil
}

func (o operations) Report(ctx context.Context, id, receipt string, p millrace.Progress) error {
	if err := millrace.Invalid(p.Faults("")); err != nil {
		return err
	}
	if textFault("id", id) != nil {
		return errNoOperation()
	}
	if receipt == "" {
		return millrace.Errorf(millrace.CodeLost, "the receipt is not of a live lease of the operation's message")
	}
	_, err := o.c.do(ctx, post(api.AppendProgress(nil, receipt, p), "operations", id, "progress"))
	return err
}

func (o operations) Counts(ctx context.Context, q millrace.OperationCountQuery) (millrace.OperationCounts, error) {
	whole := q.WithDefaults(time.Now())
	if err := millrace.Invalid(whole.Faults()); err != nil {
		return millrace.OperationCounts{}, err
	}
	k := get("operations", "counts")
	k.query = api.EncodeCountQuery(q)
	r, err := o.c.do(ctx, k)
	if err != nil {
		return millrace.OperationCounts{}, err
	}
	counts, err := api.DecodeOperationCounts(r.text)
	return counts, understood(err)
}
