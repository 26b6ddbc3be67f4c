package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/internal/redistest"
)

const (
	queueName   = "bench"
	leaseFor    = time.Minute
	longestWait = time.Second
)

// ours is Millrace through its library, on one engine.
type ours struct {
	redis *redistest.Server // nil: the embedded engine, durable, on disk
}

// mill is an open broker that began on an empty store.
type mill struct {
	*broker.Broker
	redis     *redistest.Server // nil on the embedded engine
	stopRedis func()            // of a server that is the mill's own, else nil
	dir       string            // of the embedded engine
}

// open opens a broker with one queue.
func (o ours) open(ctx context.Context) (*mill, error) {
	m, err := o.openBare(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.define(ctx, queueName, millrace.DefaultQueueSpec(":orders:order[.]")); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// openBare opens a broker without any queue.
func (o ours) openBare(ctx context.Context) (*mill, error) {
	m := &mill{redis: o.redis}
	store, err := o.emptyStore(m)
	if err != nil {
		return nil, fmt.Errorf("make an empty store: %w", err)
	}
	m.Broker, err = openBroker(ctx, store)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(m.dir))
	}
	return m, nil
}

func openBroker(ctx context.Context, store string) (*broker.Broker, error) {
	b, err := broker.Open(ctx, store, broker.Options{
		Logger: slog.New(slog.DiscardHandler), AllowCallbacksTo: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		return nil, fmt.Errorf("open broker: %w", err)
	}
	return b, nil
}

func (m *mill) define(ctx context.Context, name string, spec millrace.QueueSpec) error {
	if _, _, err := m.Queues().Put(ctx, name, spec); err != nil {
		return fmt.Errorf("define queue %s: %w", name, err)
	}
	return nil
}

func (o ours) emptyStore(m *mill) (url string, err error) {
	if o.redis != nil {
		_, err = o.redis.Call("FLUSHALL", "SYNC")
		return o.redis.URL(), err
	}
	m.dir, err = os.MkdirTemp("", "bench-millrace-")
	return "embedded:" + m.dir, err
}

// close stops the broker. A measurement is over by then: what is not drained does not count.
func (m *mill) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = m.Close(ctx)
	if m.stopRedis != nil {
		m.stopRedis()
	}
	if m.dir != "" {
		_ = os.RemoveAll(m.dir)
	}
}

// publish publishes n events at a time from a number of goroutines.
func (o ours) publish(goroutines, n int) measurement {
	return func(ctx context.Context, w *window) error {
		m, err := o.open(ctx)
		if err != nil {
			return err
		}
		defer m.close()
		return w.drive(ctx, crew{goroutines, func(ctx context.Context, _ int) (bool, error) {
			if err := m.publishSome(ctx, n, sameTenant); err != nil {
				return false, err
			}
			w.add(n)
			return true, nil
		}})
	}
}

func sameTenant() string { return "" }

func (m *mill) publishSome(ctx context.Context, n int, tenant func() string) error {
	events := make([]millrace.Event, n)
	for i := range events {
		events[i] = millrace.Event{Topic: "orders", Type: "order.placed", Tenant: tenant(), Data: payload()}
	}
	if _, err := m.Publish(ctx, events...); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// lease takes a backlog of so many tenants in hundreds and acks each hundred.
func (o ours) lease(backlog, tenants int) measurement {
	return func(ctx context.Context, w *window) error {
		m, err := o.open(ctx)
		if err != nil {
			return err
		}
		defer m.close()
		if err := m.fill(ctx, backlog, tenants); err != nil {
			return err
		}
		return w.drive(ctx, crew{batchers, func(ctx context.Context, _ int) (bool, error) {
			n, err := m.leaseHundred(ctx, queueName, 0)
			w.add(n)
			return n > 0, err
		}})
	}
}

// fill publishes a backlog of which each tenant has the same share.
func (m *mill) fill(ctx context.Context, backlog, tenants int) error {
	return m.publishMany(ctx, backlog, millrace.MaxEvents, func(i int) millrace.Event {
		return millrace.Event{Topic: "orders", Type: "order.placed", Tenant: "tenant-" + strconv.Itoa(i%tenants), Data: payload()}
	})
}

// publishMany publishes n events, so many at a time, event(0) to event(n-1),
// about in this order.
func (m *mill) publishMany(ctx context.Context, n, each int, event func(i int) millrace.Event) error {
	var next atomic.Int64
	return inParallel(batchers, func() error {
		for {
			from := int(next.Add(int64(each))) - each
			if from >= n {
				return nil
			}
			events := make([]millrace.Event, min(each, n-from))
			for i := range events {
				events[i] = event(from + i)
			}
			if _, err := m.Publish(ctx, events...); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
	})
}

// leaseHundred leases and acks up to a hundred of a queue and returns how many.
func (m *mill) leaseHundred(ctx context.Context, queue string, wait time.Duration) (int, error) {
	messages, err := m.Queues().Lease(ctx, queue, millrace.LeaseOptions{Max: hundred, Wait: wait, Lease: leaseFor})
	if err != nil {
		return 0, fmt.Errorf("lease: %w", err)
	}
	if len(messages) == 0 {
		return 0, nil
	}
	items := make([]millrace.Settlement, len(messages))
	for i := range messages {
		items[i].Receipt = messages[i].Receipt
	}
	done, err := m.Queues().Ack(ctx, queue, items...)
	if err != nil {
		return 0, fmt.Errorf("ack: %w", err)
	}
	if done.Settled != len(messages) {
		return 0, fmt.Errorf("ack: %d of %d leases were lost", len(done.Lost), len(messages))
	}
	return done.Settled, nil
}

// drain leases and acks n messages of a queue, in hundreds.
func (m *mill) drain(ctx context.Context, queue string, n int) error {
	left := newQuota(n / hundred)
	return inParallel(batchers, func() error {
		for left.take(1) > 0 {
			got, err := m.leaseHundred(ctx, queue, 0)
			if err != nil {
				return err
			}
			if got != hundred {
				return fmt.Errorf("lease of queue %s: got %d messages, want %d", queue, got, hundred)
			}
		}
		return nil
	})
}

// endToEnd publishes one by one and leases in hundreds at once.
func (o ours) endToEnd(ctx context.Context, w *window) error {
	m, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	flow := newFlow()
	publish := crew{singles, func(ctx context.Context, _ int) (bool, error) {
		if !flow.in(ctx) {
			return false, nil
		}
		return true, m.publishSome(ctx, 1, sameTenant)
	}}
	lease := crew{batchers, func(ctx context.Context, _ int) (bool, error) {
		n, err := m.leaseHundred(ctx, queueName, longestWait)
		flow.out(n)
		w.add(n)
		return true, err
	}}
	return w.drive(ctx, publish, lease)
}

// idle keeps a node and a consumer that waits until the function it returns is called.
func (o ours) idle(ctx context.Context) (stop func(), err error) {
	m, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		for ctx.Err() == nil {
			if _, err := m.leaseHundred(ctx, queueName, millrace.MaxWait); err != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-waited
		m.close()
	}, nil
}
