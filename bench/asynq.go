package main

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/millrace-dev/millrace/internal/redistest"
)

const (
	asynqBacklog = 20000 // more than it processes in a window
	asynqWorkers = 50
)

// asynqPeer is asynq on the same Redis server.
type asynqPeer struct{ redis *redistest.Server }

func (a asynqPeer) option() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: a.redis.Addr(), PoolSize: singles}
}

// client opens a client on an empty server.
func (a asynqPeer) client() (*asynq.Client, error) {
	if _, err := a.redis.Call("FLUSHALL", "SYNC"); err != nil {
		return nil, fmt.Errorf("empty redis: %w", err)
	}
	return asynq.NewClient(a.option()), nil
}

// enqueue enqueues one by one.
func (a asynqPeer) enqueue(ctx context.Context, w *window) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return w.drive(ctx, crew{singles, func(ctx context.Context, _ int) (bool, error) {
		if err := enqueueOne(ctx, c); err != nil {
			return false, err
		}
		w.add(1)
		return true, nil
	}})
}

func enqueueOne(ctx context.Context, c *asynq.Client) error {
	if _, err := c.EnqueueContext(ctx, asynq.NewTask("bench", payload())); err != nil {
		return fmt.Errorf("enqueue task: %w", err)
	}
	return nil
}

func fillTasks(ctx context.Context, c *asynq.Client, n int) error {
	left := newQuota(n)
	return inParallel(singles, func() error {
		for left.take(1) > 0 {
			if err := enqueueOne(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// process processes a backlog with a handler that does nothing.
func (a asynqPeer) process(ctx context.Context, w *window) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := fillTasks(ctx, c, asynqBacklog); err != nil {
		return err
	}
	finished := make(chan struct{})
	left := newQuota(asynqBacklog)
	server := a.server()
	err = server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		w.add(1)
		if left.takeLast() {
			close(finished)
		}
		return nil
	}))
	if err != nil {
		return fmt.Errorf("start asynq: %w", err)
	}
	defer server.Shutdown()
	return w.watch(ctx, finished)
}

func (a asynqPeer) server() *asynq.Server {
	return asynq.NewServer(a.option(), asynq.Config{Concurrency: asynqWorkers, LogLevel: asynq.FatalLevel})
}

// endToEnd enqueues and processes at once. It begins with something to process,
// because a server that finds its queue empty sleeps for a second.
func (a asynqPeer) endToEnd(ctx context.Context, w *window) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	flow := newFlow()
	if err := fillTasks(ctx, c, inFlight/2); err != nil {
		return err
	}
	server := a.server()
	err = server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		w.add(1)
		flow.out(1)
		return nil
	}))
	if err != nil {
		return fmt.Errorf("start asynq: %w", err)
	}
	defer server.Shutdown()
	return w.drive(ctx, crew{singles, func(ctx context.Context, _ int) (bool, error) {
		if !flow.in(ctx) {
			return false, nil
		}
		return true, enqueueOne(ctx, c)
	}})
}

// idle keeps a server with nothing to do until the function it returns is called.
func (a asynqPeer) idle() (stop func(), err error) {
	server := a.server()
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })); err != nil {
		return nil, fmt.Errorf("start asynq: %w", err)
	}
	return server.Shutdown, nil
}
