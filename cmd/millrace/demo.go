package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/httpapi"
	"github.com/millrace-dev/millrace/worker"
)

const (
	demoQueue   = "orders"
	demoNoisy   = "noisy"
	demoWorkers = 4
	demoWork    = 20 * time.Millisecond  // one message's
	demoPause   = 300 * time.Millisecond // between a quiet tenant's events, about
	demoBurst   = 250                    // events that the noisy one sends at a time
	demoPile    = 5000                   // waiting, at which it holds its breath
)

func demoTenants() []string {
	return []string{demoNoisy, "acme", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris"}
}

// demoFlags are the flags of demo.
type demoFlags struct {
	listen, store string
	plain         bool
	lasts         time.Duration
}

func newDemo() *cobra.Command {
	d := &demoFlags{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See fairness at work: made-up tenants, one of them noisy",
		Long: "Run a server with made-up tenants that publish and workers that consume. One tenant\n" +
			"floods the queue; the picture shows that the others hardly notice.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.listen, "listen", "127.0.0.1:7070", "loopback address to listen on, for you to look around")
	f.StringVar(&d.store, "store", "memory:", "memory:, or an empty store of its own")
	f.BoolVar(&d.plain, "plain", false, "print the picture every second instead of drawing it")
	f.DurationVar(&d.lasts, "for", 0, "how long; until q or Ctrl-C if 0")
	return cmd
}

func (d *demoFlags) run(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if !loopback(d.listen) {
		return usagef("--listen must be a loopback address")
	}
	quiet := slog.New(slog.DiscardHandler)
	b, err := broker.Open(ctx, d.store, broker.Options{Version: version, Logger: quiet})
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	err = d.play(ctx, b, stdin, stdout)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, b.Close(closing))
}

// play serves the backbone, lets the tenants and the workers loose and shows them.
func (d *demoFlags) play(ctx context.Context, b *broker.Broker, stdin io.Reader, stdout io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.listen)
	if err != nil {
		return hint(fmt.Errorf("listen: %w", err), "Choose another address with --listen, such as 127.0.0.1:0.")
	}
	server := &http.Server{Handler: httpapi.Handler(b, httpapi.Options{Version: version, Logger: slog.New(slog.DiscardHandler)}), ReadHeaderTimeout: 5 * time.Second}
	stage := newStage(b, "http://"+listener.Addr().String())
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = server.Serve(listener) })
	err = stage.start(running, &all)
	if err == nil {
		err = d.show(running, stage, stdin, stdout)
	}
	stop()
	_ = server.Close()
	all.Wait()
	return err
}

// show shows the tenants until their time is over; what it took to begin does not count.
func (d *demoFlags) show(ctx context.Context, s *stage, stdin io.Reader, stdout io.Writer) error {
	if d.lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.lasts)
		defer cancel()
	}
	out, ok := stdout.(*os.File)
	if !d.plain && ok && term.IsTerminal(int(out.Fd())) {
		return drawDemo(ctx, s, stdin, out)
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
			now := s.look(ctx)
			fmt.Fprintln(stdout, now.render(100))
		}
	}
}

// stage is what the demo's tenants and workers play on.
type stage struct {
	b   *broker.Broker
	url string

	mu     sync.Mutex
	storm  bool
	weight int // of the noisy tenant
	actors map[string]*actor
	turns  []string // whose messages were served last
}

// actor is what is known of one tenant.
type actor struct {
	served int             // in all
	waits  []time.Duration // of the last messages served
}

func newStage(b *broker.Broker, url string) *stage {
	s := &stage{b: b, url: url, weight: 1, storm: true, actors: map[string]*actor{}}
	for _, name := range demoTenants() {
		s.actors[name] = &actor{}
	}
	return s
}

// start defines the queue, then sets publishers and workers going.
func (s *stage) start(ctx context.Context, all *sync.WaitGroup) error {
	if _, _, err := s.b.Queues().Put(ctx, demoQueue, millrace.DefaultQueueSpec(":orders:")); err != nil {
		return fmt.Errorf("define the queue: %w", err)
	}
	for _, name := range demoTenants() {
		if name == demoNoisy {
			all.Go(func() { every(ctx, 500*time.Millisecond, func() { s.burst(ctx) }) })
			continue
		}
		all.Go(func() { every(ctx, demoPause, func() { s.publish(ctx, name, 1) }) })
	}
	all.Go(func() {
		_ = worker.Consume(ctx, s.b, demoQueue, s.work, worker.Options{
			Concurrency: demoWorkers, Prefetch: -1, Drain: time.Second, Logger: slog.New(slog.DiscardHandler),
		})
	})
	return nil
}

// every calls f again and again, about a pause apart, until ctx ends.
func every(ctx context.Context, pause time.Duration, f func()) {
	for wait(ctx, pause/2+rand.N(pause)) {
		f()
	}
}

// wait reports whether the time is over, rather than ctx.
func wait(ctx context.Context, d time.Duration) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// burst is what makes the noisy tenant noisy.
func (s *stage) burst(ctx context.Context) {
	s.mu.Lock()
	storm := s.storm
	s.mu.Unlock()
	t, err := s.b.Queues().Tenant(ctx, demoQueue, demoNoisy)
	if storm && (err != nil || t.Ready < demoPile) {
		s.publish(ctx, demoNoisy, demoBurst)
	}
}

func (s *stage) publish(ctx context.Context, tenant string, n int) {
	events := make([]millrace.Event, n)
	for i := range events {
		events[i] = millrace.Event{Topic: "orders", Type: "created", Tenant: tenant, Data: []byte(`{"total":12}`)}
	}
	_, _ = s.b.Publish(ctx, events...) // a demo that ends is no failure
}

func (s *stage) work(ctx context.Context, m millrace.Message) error {
	waited := time.Since(m.Event.Time)
	s.mu.Lock()
	if a := s.actors[m.Event.Tenant]; a != nil {
		a.served++
		a.waits = last(append(a.waits, waited), 200)
	}
	s.turns = last(append(s.turns, m.Event.Tenant), 60)
	s.mu.Unlock()
	wait(ctx, demoWork)
	return nil
}

// last is the end of a list.
func last[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// toggle begins or ends the storm.
func (s *stage) toggle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storm = !s.storm
}

// weigh gives the noisy tenant so many messages a turn; 0 pauses it.
func (s *stage) weigh(ctx context.Context, weight int) {
	if _, err := s.b.Queues().PutTenant(ctx, demoQueue, demoNoisy, millrace.TenantSettings{Weight: weight, Limit: -1}); err != nil {
		return // the picture still shows the old one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weight = weight
}
