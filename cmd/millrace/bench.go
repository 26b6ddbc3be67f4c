package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	store                                               string
	events, size, tenants, publishers, batch, consumers int
}

func newBench(r *remote) *cobra.Command {
	b := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server, or a store without one",
		Long: "Publish events, then lease and acknowledge them, then both at once, and print the\n" +
			"throughput and how long calls took. It measures the server of --server through HTTP, or\n" +
			"with --store the library on a store. It works on a queue and a topic of its own, and\n" +
			"removes both in the end; what else the store does shares the machine with it.",
		Example: "  millrace bench --store memory: --batch 100\n  millrace bench --server http://127.0.0.1:7070 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.check(); err != nil {
				return err
			}
			return b.run(cmd.Context(), r, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.store, "store", "", "measure the library on this store instead of a server")
	f.IntVar(&b.events, "events", 50000, "events of each phase")
	f.IntVar(&b.size, "size", 256, "bytes of each event's data")
	f.IntVar(&b.tenants, "tenants", 100, "tenants they are spread over")
	f.IntVar(&b.publishers, "publishers", 16, "publishers at a time")
	f.IntVar(&b.batch, "batch", 1, "events of one publish")
	f.IntVar(&b.consumers, "consumers", 4, "consumers at a time, each leasing hundreds")
	return cmd
}

func (b *benchFlags) check() error {
	for _, n := range []struct {
		name        string
		value, most int
	}{
		{"events", b.events, 100_000_000}, {"size", b.size, millrace.MaxEventSize / 2}, {"tenants", b.tenants, 1_000_000},
		{"publishers", b.publishers, 1000}, {"batch", b.batch, millrace.MaxEvents}, {"consumers", b.consumers, 1000},
	} {
		if n.value < 1 || n.value > n.most {
			return usagef("--%s must be 1 to %d", n.name, n.most)
		}
	}
	return nil
}

// run measures what the flags name and prints the figures.
func (b *benchFlags) run(ctx context.Context, r *remote, out io.Writer) error {
	target, stop, err := b.open(ctx, r)
	if err != nil {
		return err
	}
	figures, err := b.measure(ctx, target)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	if r.json {
		return printJSON(out, benchJSON(figures))
	}
	return table(out, benchRows(figures))
}

func (b *benchFlags) open(ctx context.Context, r *remote) (millrace.Backbone, func() error, error) {
	if b.store == "" {
		c, err := r.open()
		return c, func() error { return nil }, err
	}
	engine, err := broker.Open(ctx, b.store, broker.Options{Version: version, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, fmt.Errorf("open the store: %w", err)
	}
	return engine, func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return engine.Close(closing)
	}, nil
}

// measure runs the phases on a queue of its own, which it removes in the end.
func (b *benchFlags) measure(ctx context.Context, target millrace.Backbone) (figures []benchFigure, err error) {
	name := "bench-" + strings.ToLower(ulid.Make().String())
	rig := &benchRig{flags: b, target: target, name: name, data: []byte(`"` + strings.Repeat("x", b.size-min(b.size, 2)) + `"`)}
	if _, _, err := target.Queues().Put(ctx, name, millrace.DefaultQueueSpec(":"+name+":")); err != nil {
		return nil, fmt.Errorf("define a queue: %w", err)
	}
	defer func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, target.Queues().Delete(cleaning, name, false), target.Topics().Delete(cleaning, name))
	}()
	published, err := rig.publish(ctx)
	if err != nil {
		return nil, err
	}
	leased, acked, err := rig.consume(ctx)
	if err != nil {
		return nil, err
	}
	whole, err := rig.both(ctx)
	if err != nil {
		return nil, err
	}
	return []benchFigure{published, leased, acked, whole}, nil
}
