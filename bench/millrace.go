package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// mill is an open broker with one queue on an empty store.
type mill struct {
	*broker.Broker
	dir string
}

func (o ours) open(ctx context.Context) (*mill, error) {
	m := &mill{}
	store, err := o.emptyStore(m)
	if err != nil {
		return nil, fmt.Errorf("make an empty store: %w", err)
	}
	m.Broker, err = broker.Open(ctx, store, broker.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open broker: %w", err), os.RemoveAll(m.dir))
	}
	if _, _, err := m.Queues().Put(ctx, queueName, millrace.DefaultQueueSpec(":orders:order[.]")); err != nil {
		m.close()
		return nil, fmt.Errorf("define queue: %w", err)
	}
	return m, nil
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
			n, err := m.leaseHundred(ctx, 0)
			w.add(n)
			return n > 0, err
		}})
	}
}

// fill publishes a backlog of which each tenant has the same share.
func (m *mill) fill(ctx context.Context, backlog, tenants int) error {
	var turn atomic.Int64
	tenant := func() string { return "tenant-" + strconv.FormatInt(turn.Add(1)%int64(tenants), 10) }
	left := newQuota(backlog)
	return inParallel(batchers, func() error {
		for {
			n := left.take(hundred)
			if n == 0 {
				return nil
			}
			if err := m.publishSome(ctx, n, tenant); err != nil {
				return err
			}
		}
	})
}

// leaseHundred leases and acks up to a hundred and returns how many.
func (m *mill) leaseHundred(ctx context.Context, wait time.Duration) (int, error) {
	messages, err := m.Queues().Lease(ctx, queueName, millrace.LeaseOptions{Max: hundred, Wait: wait, Lease: leaseFor})
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
	done, err := m.Queues().Ack(ctx, queueName, items...)
	if err != nil {
		return 0, fmt.Errorf("ack: %w", err)
	}
	if done.Settled != len(messages) {
		return 0, fmt.Errorf("ack: %d of %d leases were lost", len(done.Lost), len(messages))
	}
	return done.Settled, nil
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
		n, err := m.leaseHundred(ctx, longestWait)
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
			if _, err := m.leaseHundred(ctx, millrace.MaxWait); err != nil {
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
