package millrace

import (
	"context"
	"time"
)

// Node is one running process that has joined the store.
type Node struct {
	ID        string
	Host      string
	Version   string
	Roles     []string
	StartedAt time.Time
	SeenAt    time.Time
}

// Nodes is the part of an engine that knows who is there.
type Nodes interface {
	// Beat records that a node is alive (SeenAt is set by the store), forgets
	// those not seen for ttl, and returns the ones that are left, by id. One
	// atomic step. A node with an empty ID only looks.
	Beat(ctx context.Context, n Node, ttl time.Duration) ([]Node, error)

	// Leave forgets a node at once.
	Leave(ctx context.Context, id string) error
}
