package client

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/internal/tracing"
)

// Lease is asked once: a lease whose answer is lost comes back by itself, and
// asking again would take more than was wanted.
func (q queues) Lease(ctx context.Context, name string, o millrace.LeaseOptions) ([]millrace.Message, error) {
	if err := nameFault("queue", name); err != nil {
		return nil, err
	}
	return q.lease(ctx, name, post(api.AppendLease(nil, o), "queues", name, "lease"), o)
}

// LeaseAny is asked once, as Lease is.
func (q queues) LeaseAny(ctx context.Context, weights map[string]int, o millrace.LeaseOptions) ([]millrace.Message, error) {
	return q.lease(ctx, "", post(api.AppendLeaseAny(nil, weights, o), "lease"), o)
}

// lease asks for messages of one queue, or of several if it is not named.
func (q queues) lease(ctx context.Context, name string, k call, o millrace.LeaseOptions) ([]millrace.Message, error) {
	if o.AtMostOnce && o.Lease != 0 { // the wire says both with one word
		return nil, millrace.Invalid([]millrace.Fault{{Location: "lease", Message: "must not be given with at most once"}})
	}
	k.once, k.wait = true, max(o.Wait, 0)
	ctx, span := q.c.tracer.Start(ctx, tracing.Lease, trace.SpanKindClient, name, 0)
	messages, err := q.leased(ctx, k)
	span.Count(len(messages))
	span.End(err)
	return messages, err
}

func (q queues) leased(ctx context.Context, k call) ([]millrace.Message, error) {
	r, err := q.c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	messages, err := api.DecodeMessages(r.text)
	return messages, understood(err)
}

func (q queues) Ack(ctx context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error) {
	bare := make([]millrace.Settlement, len(items))
	for i := range items {
		bare[i] = millrace.Settlement{Receipt: items[i].Receipt, Output: items[i].Output}
		if out := items[i].Output; len(out) > 0 && !jsontext.Value(out).IsValid() {
			return millrace.SettleResult{}, millrace.Invalid([]millrace.Fault{{Location: "items[" + strconv.Itoa(i) + "].output", Message: "must be JSON"}})
		}
	}
	return q.settle(ctx, name, api.Ack, len(items), api.AppendSettle(nil, bare))
}

func (q queues) Retry(ctx context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error) {
	plain := make([]millrace.Settlement, len(items))
	for i := range items {
		plain[i] = items[i]
		plain[i].Output = nil
	}
	return q.settle(ctx, name, api.Retry, len(items), api.AppendSettle(nil, plain))
}

func (q queues) Bury(ctx context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error) {
	timeless := make([]millrace.Settlement, len(items))
	for i := range items {
		timeless[i] = millrace.Settlement{Receipt: items[i].Receipt, Error: items[i].Error}
	}
	return q.settle(ctx, name, api.Bury, len(items), api.AppendSettle(nil, timeless))
}

func (q queues) Extend(ctx context.Context, name string, lease time.Duration, receipts ...string) (millrace.SettleResult, error) {
	return q.settled(ctx, name, api.Extend, api.AppendExtend(nil, lease, receipts))
}

func (q queues) settle(ctx context.Context, name string, verb api.Verb, messages int, body []byte) (millrace.SettleResult, error) {
	ctx, span := q.c.tracer.Start(ctx, tracing.Operation(verb), trace.SpanKindClient, name, messages)
	result, err := q.settled(ctx, name, verb, body)
	span.End(err)
	return result, err
}

// settled asks for one of the verbs. Asked twice it changes nothing more: the
// second time the receipts are lost.
func (q queues) settled(ctx context.Context, name string, verb api.Verb, body []byte) (millrace.SettleResult, error) {
	if err := nameFault("queue", name); err != nil {
		return millrace.SettleResult{}, err
	}
	r, err := q.c.do(ctx, post(body, "queues", name, string(verb)))
	if err != nil {
		return millrace.SettleResult{}, err
	}
	result, err := api.DecodeSettled(r.text)
	return result, understood(err)
}

// Release is asked once: asked again it would take back what the consumer has
// leased meanwhile.
func (q queues) Release(ctx context.Context, name, consumer string) (int, error) {
	if err := api.Join(nameFault("queue", name), nameFault("consumer", consumer)); err != nil {
		return 0, err
	}
	k := post(api.AppendRelease(nil, consumer), "queues", name, "release")
	k.once = true
	r, err := q.c.do(ctx, k)
	if err != nil {
		return 0, err
	}
	n, err := api.DecodeReleased(r.text)
	return n, understood(err)
}
