// Package broker is the heart of Millrace: it validates and routes events,
// commits them through an engine, leases messages in fair turns and runs the
// agents that keep a store moving.
package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/tracing"
	"github.com/millrace-dev/millrace/webhook"
)

// Options are the settings of a broker. The zero value is usable.
type Options struct {
	Engine  millrace.EngineOptions // how the store is opened, or created
	Roles   []string               // RoleWeb, RoleDeliver, RoleMonitor; all of them if empty
	Version string                 // of the program, shown in the list of nodes

	// AllowCallbacksTo are ranges of addresses that subscriptions may call though they are
	// not of the internet, also by plain http.
	AllowCallbacksTo []netip.Prefix

	// MaxBytes bounds the store, as Stats counts its bytes; 0 for the bound that a Redis has by
	// itself, if any. Above HighWater percent of it [85] the oldest batches of
	// subscriptions are dropped, down to LowWater percent [75].
	MaxBytes            int64
	HighWater, LowWater int

	Logger *slog.Logger // slog.Default() if nil

	Observer       Observer             // told of what is done; nobody if nil
	TracerProvider trace.TracerProvider // of OpenTelemetry spans; none if nil
}

// The roles of a node.
const (
	RoleWeb     = "web"     // answers requests
	RoleDeliver = "deliver" // pushes to subscriptions
	RoleMonitor = "monitor" // ends leases, returns what is due, sweeps
)

func allRoles() []string { return []string{RoleWeb, RoleDeliver, RoleMonitor} }

// Broker is a node of the backbone, in this process. It is a millrace.Backbone.
type Broker struct {
	engine   millrace.Engine
	identity millrace.Identity
	log      *slog.Logger
	node     millrace.Node

	gate     *gate
	registry *registry
	waiting  *waitingRoom
	reaper   *reaper
	sweeper  *sweeper
	autodrop *autodrop
	herald   *herald
	gallery  *gallery
	lookout  *lookout
	missed   seldom // looks for triggers that this node does not know
	observer Observer
	tracer   tracing.Tracer

	guard     *webhook.Guard
	sender    *webhook.Sender
	deliverer *deliverer

	ids      ids
	nextLane atomic.Uint64
	refused  atomic.Int64

	stopAgents context.CancelFunc
	agents     sync.WaitGroup
	unwatch    func()
	closing    sync.Once
}

var _ millrace.Backbone = (*Broker)(nil)

// New starts a broker on an engine, which it closes when it is closed itself.
func New(ctx context.Context, e millrace.Engine, o Options) (*Broker, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if len(o.Roles) == 0 {
		o.Roles = allRoles()
	}
	if err := rolesFault(o.Roles); err != nil {
		return nil, err
	}
	if err := waterFault(o); err != nil {
		return nil, err
	}
	b := &Broker{engine: e, identity: e.Identity(), log: o.Logger, gate: newGate(), observer: observerOf(o.Observer), tracer: tracing.New(o.TracerProvider)}
	id, err := b.ids.next()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	b.node = millrace.Node{ID: id, Host: host, Version: o.Version, Roles: o.Roles, StartedAt: time.Now()}
	b.registry = newRegistry(e, b.identity.Lanes, b.log)
	b.waiting = newWaitingRoom(b.identity.Lanes)
	b.reaper = newReaper(e, b.identity.Lanes, b.node.ID, b.log)
	b.reaper.held, b.reaper.left = b.deliverHeld, b.logExits
	b.sweeper = newSweeper(e, b.identity.Lanes, b.log)
	b.herald = newHerald(e, b.node, b.log)
	b.guard = webhook.NewGuard(o.AllowCallbacksTo...)
	b.sender = webhook.NewSender("millrace/"+cmp.Or(o.Version, "dev"), b.guard)
	b.deliverer = newDeliverer(b, b.sender)
	b.gallery = newGallery(e, b.log)
	b.lookout = newLookout()
	b.autodrop = newAutodrop(b, o)
	return b, b.start(ctx)
}

func rolesFault(roles []string) error {
	for _, r := range roles {
		if r != RoleWeb && r != RoleDeliver && r != RoleMonitor {
			return millrace.Errorf(millrace.CodeInvalid, "a role must be one of %s, %s and %s", RoleWeb, RoleDeliver, RoleMonitor)
		}
	}
	return nil
}

// start loads the registry, joins the store and sets the agents going.
func (b *Broker) start(ctx context.Context) error {
	h, err := b.registry.reload(ctx)
	if err != nil {
		return fmt.Errorf("load definitions: %w", err)
	}
	if err := b.registry.repair(ctx, h); err != nil {
		return fmt.Errorf("tell the lanes of the definitions: %w", err)
	}
	members, err := b.herald.beat(ctx)
	if err != nil {
		return fmt.Errorf("join the store: %w", err)
	}
	b.reaper.setMembers(members)
	if b.has(RoleMonitor) {
		b.registry.removed = b.sweeper.removed // of what was removed before, the lanes have just been told
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.stopAgents = cancel
	b.unwatch = b.engine.Watch(b.heed)
	b.agents.Go(func() { b.registry.run(run) })
	b.agents.Go(func() { b.herald.run(run, b.reaper.setMembers) })
	b.agents.Go(func() { b.waiting.run(run, b.engine.Wanted) })
	b.agents.Go(func() { b.gallery.run(run) })
	if b.has(RoleMonitor) {
		b.agents.Go(func() { b.reaper.run(run) })
		b.agents.Go(func() { b.sweeper.run(run) })
		b.agents.Go(func() { b.autodrop.run(run) })
	}
	if b.has(RoleDeliver) {
		b.agents.Go(func() { b.deliverer.run(run) })
	}
	return nil
}

func (b *Broker) has(role string) bool {
	for _, r := range b.node.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// heed passes a hint on to whom it concerns. It does not block.
func (b *Broker) heed(h millrace.Hint) {
	switch h.Kind {
	case millrace.HintQueue:
		b.waiting.hint(h.Queue, h.Lane)
	case millrace.HintDue:
		b.reaper.note(h.Lane, h.In)
	case millrace.HintRegistry:
		b.registry.nudge()
	case millrace.HintBatch:
		b.deliverer.wake(h.Lane)
	case millrace.HintOperation:
		b.lookout.wake(h.Operation)
	case millrace.HintAll:
		b.lookout.wakeAll()
		b.waiting.hintAll()
		b.reaper.noteAll()
		b.deliverer.wakeAll()
		b.registry.nudge()
		b.sweeper.nudge()
	}
}

// Close takes no more requests, lets those under way, deliveries too, finish for as long as ctx
// lasts, then stops the agents, leaves the store and closes the engine. A second
// Close does nothing.
func (b *Broker) Close(ctx context.Context) error {
	var err error
	b.closing.Do(func() { err = b.close(ctx) })
	return err
}

func (b *Broker) close(ctx context.Context) error {
	b.Drain()
	drained := b.gate.wait(ctx)
	b.unwatch()
	stop := context.AfterFunc(ctx, b.deliverer.cutOff)
	b.stopAgents()
	b.agents.Wait()
	stop()
	b.sender.Close()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	left := b.engine.Leave(leaving, b.node.ID)
	return errors.Join(drained, left, b.engine.Close())
}

// Drain makes Ready fail and refuses what comes from now on with CodeDraining;
// waiting leases answer empty and live readers end. Close still has to be called.
func (b *Broker) Drain() {
	b.gate.close()
	b.waiting.close()
	b.gallery.close()
	b.lookout.close()
}

// Ready reports whether the broker takes requests and its store answers.
func (b *Broker) Ready(ctx context.Context) error {
	if err := b.gate.enter(); err != nil {
		return err
	}
	defer b.gate.leave()
	return b.engine.Ping(ctx)
}

// Durability is the level that answers have now.
func (b *Broker) Durability() millrace.Durability { return b.engine.Durability() }

// ids makes ULIDs that sort in the order they were made.
type ids struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
}

func (s *ids) next() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entropy == nil {
		s.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	return millrace.NewID(time.Now(), s.entropy)
}

// newToken names the leases of one call.
func newToken() (t millrace.Token) {
	_, _ = rand.Read(t[:]) // it never fails
	return t
}

// newUID names the data of a new sink.
func newUID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
