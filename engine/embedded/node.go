package embedded

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

// nodes is who has joined the store. One process holds the directory, so whoever
// joined ends with it: nothing of this is written down.
type nodes struct {
	mu   sync.Mutex
	byID map[string]millrace.Node
}

// Beat records that a node is alive, forgets those not seen for ttl, and
// returns the others, by id.
func (e *Engine) Beat(ctx context.Context, n millrace.Node, ttl time.Duration) ([]millrace.Node, error) {
	if err := e.enterStore(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	return e.nodes.beat(n, e.clock().UTC().Truncate(time.Millisecond), ttl), nil
}

func (s *nodes) beat(n millrace.Node, now time.Time, ttl time.Duration) []millrace.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.ID != "" {
		if s.byID == nil {
			s.byID = map[string]millrace.Node{}
		}
		n.SeenAt = now
		n.Roles = slices.Clone(n.Roles)
		s.byID[n.ID] = n
	}
	var list []millrace.Node
	for id, other := range s.byID {
		if now.Sub(other.SeenAt) >= ttl && id != n.ID {
			delete(s.byID, id)
			continue
		}
		list = append(list, other)
	}
	slices.SortFunc(list, func(a, b millrace.Node) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Leave forgets a node at once.
func (e *Engine) Leave(ctx context.Context, id string) error {
	if err := e.enterStore(ctx); err != nil {
		return err
	}
	defer e.leave()
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	delete(e.nodes.byID, id)
	return nil
}
