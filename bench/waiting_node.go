package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-dev/millrace"
)

const (
	waitingNode = "waiting-node" // the argument that makes this program a node
	nodeReady   = "ready"
)

// runWaitingNode is the process that the waiting rows watch: a broker on a
// store, with leases that wait. It says when they do; then each line that it
// reads makes it publish one event and write how many microseconds passed until
// a lease had it. It ends with its input.
func runWaitingNode(ctx context.Context, store string, orders io.Reader, answers io.Writer) error {
	b, err := openBroker(ctx, store)
	if err != nil {
		return err
	}
	m := &mill{Broker: b}
	defer m.close()
	for i := range waitingQueues {
		if err := m.define(ctx, waitingQueue(i), millrace.DefaultQueueSpec(":"+waitingQueue(i)+":")); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	woken := make(chan time.Time)
	for i := range waitingLeases {
		g.Go(func() error { return m.waitForWork(ctx, waitingQueue(i%waitingQueues), woken) })
	}
	fmt.Fprintln(answers, nodeReady)
	err = m.obey(ctx, orders, answers, woken)
	stop()
	return errors.Join(err, g.Wait())
}

func waitingQueue(i int) string { return "queue-" + strconv.Itoa(i) }

// obey publishes to one queue after the other, as often as it is told to.
func (m *mill) obey(ctx context.Context, orders io.Reader, answers io.Writer, woken <-chan time.Time) error {
	lines := bufio.NewScanner(orders)
	for i := 0; lines.Scan(); i++ {
		begin := time.Now()
		e := millrace.Event{Topic: waitingQueue(i % waitingQueues), Type: "order.placed", Data: payload()}
		if _, err := m.Publish(ctx, e); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		select {
		case at := <-woken:
			fmt.Fprintln(answers, at.Sub(begin).Microseconds())
		case <-ctx.Done():
			return nil
		case <-time.After(millrace.MaxWait):
			return errors.New("no lease was woken")
		}
	}
	return lines.Err()
}

// waitForWork leases again and again, and tells when it got something.
func (m *mill) waitForWork(ctx context.Context, queue string, woken chan<- time.Time) error {
	for {
		messages, err := m.Queues().Lease(ctx, queue, millrace.LeaseOptions{Wait: millrace.MaxWait, AtMostOnce: true})
		at := time.Now()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lease: %w", err)
		}
		for range messages {
			select {
			case woken <- at:
			case <-ctx.Done():
				return nil
			}
		}
	}
}
