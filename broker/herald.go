package broker

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace-dev/millrace"
)

const (
	beatEvery = 5 * time.Second
	beatTTL   = 30 * time.Second // of silence, after which a node is gone
)

// herald tells the store that this node is alive, and learns who else is.
type herald struct {
	engine millrace.Engine
	node   millrace.Node
	log    *slog.Logger
}

func newHerald(e millrace.Engine, n millrace.Node, log *slog.Logger) *herald {
	return &herald{engine: e, node: n, log: log}
}

func (h *herald) beat(ctx context.Context) ([]millrace.Node, error) {
	return h.engine.Beat(ctx, h.node, beatTTL)
}

// run beats until ctx ends and hands on who is there.
func (h *herald) run(ctx context.Context, members func([]millrace.Node)) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			nodes, err := h.beat(ctx)
			if err == nil {
				members(nodes)
			} else if ctx.Err() == nil {
				h.log.Warn("beat", "error", err)
			}
		}
	}
}

// Nodes lists the processes that have joined the store.
func (b *Broker) Nodes(ctx context.Context) ([]millrace.Node, error) {
	if err := b.gate.enter(); err != nil {
		return nil, err
	}
	defer b.gate.leave()
	return b.engine.Beat(ctx, millrace.Node{}, beatTTL)
}
