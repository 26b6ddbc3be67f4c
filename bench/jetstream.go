package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const jetBacklog = 200000

// jetPeer is a NATS server in this process, with JetStream in files that are
// not fsynced for each message, which is its default. Clients reach it over the
// loopback address, which costs it less than its in-process pipe.
type jetPeer struct{}

// jet is a server that runs, with a stream that loses a message when it is acked.
type jet struct {
	dir      string
	server   *server.Server
	conn     *nats.Conn
	stream   jetstream.JetStream
	consumer jetstream.Consumer
}

func (jetPeer) open(ctx context.Context) (j *jet, err error) {
	j = &jet{}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	if j.dir, err = os.MkdirTemp("", "bench-nats-"); err != nil {
		return j, fmt.Errorf("make directory: %w", err)
	}
	j.server, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: j.dir, NoLog: true, NoSigs: true})
	if err != nil {
		return j, fmt.Errorf("make nats: %w", err)
	}
	j.server.Start()
	if !j.server.ReadyForConnections(10 * time.Second) {
		return j, errors.New("start nats: it is not ready")
	}
	if j.conn, err = nats.Connect(j.server.ClientURL()); err != nil {
		return j, fmt.Errorf("connect to nats: %w", err)
	}
	if j.stream, err = jetstream.New(j.conn, jetstream.WithPublishAsyncMaxPending(2000)); err != nil {
		return j, fmt.Errorf("open jetstream: %w", err)
	}
	return j, j.define(ctx)
}

func (j *jet) define(ctx context.Context) error {
	_, err := j.stream.CreateStream(ctx, jetstream.StreamConfig{
		Name: "bench", Subjects: []string{"bench"}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		return fmt.Errorf("create stream: %w", err)
	}
	j.consumer, err = j.stream.CreateConsumer(ctx, "bench", jetstream.ConsumerConfig{
		Durable: "bench", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: -1,
	})
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	return nil
}

func (j *jet) close() {
	if j.conn != nil {
		j.conn.Close()
	}
	if j.server != nil {
		j.server.Shutdown()
		j.server.WaitForShutdown()
	}
	_ = os.RemoveAll(j.dir)
}

// publish publishes one by one, each acknowledged by the stream.
func (p jetPeer) publish(ctx context.Context, w *window) error {
	j, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer j.close()
	return w.drive(ctx, crew{singles, func(ctx context.Context, _ int) (bool, error) {
		if err := j.publishOne(ctx); err != nil {
			return false, err
		}
		w.add(1)
		return true, nil
	}})
}

func (j *jet) publishOne(ctx context.Context) error {
	if _, err := j.stream.Publish(ctx, "bench", payload()); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// pull takes a backlog in hundreds and acks each message. Its acks are not
// confirmed by the server, which is JetStream's own cheapest way.
func (p jetPeer) pull(ctx context.Context, w *window) error {
	j, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer j.close()
	if err := j.fill(ctx, jetBacklog); err != nil {
		return err
	}
	return w.drive(ctx, crew{batchers, func(context.Context, int) (bool, error) {
		n, err := j.pullHundred()
		w.add(n)
		return n > 0, err
	}})
}

func (j *jet) fill(ctx context.Context, n int) error {
	for range n {
		if _, err := j.stream.PublishAsync("bench", payload(), jetstream.WithStallWait(10*time.Second)); err != nil {
			return fmt.Errorf("publish backlog: %w", err)
		}
	}
	select {
	case <-j.stream.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *jet) pullHundred() (int, error) {
	batch, err := j.consumer.Fetch(hundred, jetstream.FetchMaxWait(time.Second))
	if err != nil {
		return 0, fmt.Errorf("fetch: %w", err)
	}
	n := 0
	for m := range batch.Messages() {
		if err := m.Ack(); err != nil {
			return n, fmt.Errorf("ack: %w", err)
		}
		n++
	}
	return n, batch.Error()
}

// endToEnd publishes and pulls at once.
func (p jetPeer) endToEnd(ctx context.Context, w *window) error {
	j, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer j.close()
	flow := newFlow()
	publish := crew{singles, func(ctx context.Context, _ int) (bool, error) {
		if !flow.in(ctx) {
			return false, nil
		}
		return true, j.publishOne(ctx)
	}}
	pull := crew{batchers, func(context.Context, int) (bool, error) {
		n, err := j.pullHundred()
		flow.out(n)
		w.add(n)
		return true, err
	}}
	return w.drive(ctx, publish, pull)
}
