package httpapi

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// lease takes messages of a queue; it waits as long as the caller says and stays.
func (s *server) lease(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	o, err := api.DecodeLease(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	messages, err := s.backend.Queues().Lease(c.Context(), name, o)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendMessages(make([]byte, 0, sizeOf(messages)), messages))
}

// leaseAny takes messages of several queues, by their weights.
func (s *server) leaseAny(c *call) (answer, error) {
	weights, o, err := api.DecodeLeaseAny(c.body)
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	messages, err := s.backend.Queues().LeaseAny(c.Context(), weights, o)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendMessages(make([]byte, 0, sizeOf(messages)), messages))
}

// release gives back what a consumer held that was restarted.
func (s *server) release(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	consumer, err := api.DecodeRelease(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	n, err := s.backend.Queues().Release(c.Context(), name, consumer)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendReleased(nil, n))
}

// sizeOf guesses the length of an answer, so that it seldom grows.
func sizeOf(messages []millrace.Message) int {
	n := 64
	for i := range messages {
		n += 512 + len(messages[i].Event.Data)
	}
	return n
}

func (s *server) ack(c *call) (answer, error) {
	return s.settle(c, api.Ack, s.backend.Queues().Ack)
}

func (s *server) retry(c *call) (answer, error) {
	return s.settle(c, api.Retry, s.backend.Queues().Retry)
}

func (s *server) bury(c *call) (answer, error) {
	return s.settle(c, api.Bury, s.backend.Queues().Bury)
}

type settler func(ctx context.Context, name string, items ...millrace.Settlement) (millrace.SettleResult, error)

// settle ends leases by one of the verbs.
func (s *server) settle(c *call, verb api.Verb, do settler) (answer, error) {
	name, items, err := c.settlement(verb)
	if err != nil {
		return answer{}, err
	}
	settlements := make([]millrace.Settlement, len(items))
	for i := range items {
		settlements[i] = items[i].Settlement
	}
	result, err := do(c.Context(), name, settlements...)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendSettled(nil, verb, &result))
}

func (c *call) settlement(verb api.Verb) (string, []api.SettleItem, error) {
	name, nameErr := c.name("queue")
	items, err := api.DecodeSettle(c.body, verb)
	return name, items, c.check(nameErr, err)
}

// extend prolongs leases, those that ask for the same time together. The answer
// tells the earliest end.
func (s *server) extend(c *call) (answer, error) {
	name, items, err := c.settlement(api.Extend)
	if err != nil {
		return answer{}, err
	}
	all := millrace.SettleResult{}
	for _, group := range byLease(items) {
		result, err := s.backend.Queues().Extend(c.Context(), name, group.lease, group.receipts...)
		if err != nil {
			return answer{}, err
		}
		all.Settled += result.Settled
		all.Lost = append(all.Lost, result.Lost...)
		all.Cancelled = append(all.Cancelled, result.Cancelled...)
		if until := result.LeasedUntil; all.LeasedUntil.IsZero() || (!until.IsZero() && until.Before(all.LeasedUntil)) {
			all.LeasedUntil = until
		}
	}
	return ok(api.AppendSettled(nil, api.Extend, &all))
}

type extension struct {
	lease    time.Duration
	receipts []string
}

// byLease groups receipts by the time they ask for, in the order they are
// given; without receipts there is one group, so that the queue is looked up.
func byLease(items []api.SettleItem) []extension {
	groups := []extension{}
	place := map[time.Duration]int{}
	for _, item := range items {
		i, found := place[item.Lease]
		if !found {
			i = len(groups)
			place[item.Lease] = i
			groups = append(groups, extension{lease: item.Lease})
		}
		groups[i].receipts = append(groups[i].receipts, item.Receipt)
	}
	if len(groups) == 0 {
		groups = append(groups, extension{})
	}
	return groups
}
