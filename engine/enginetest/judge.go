package enginetest

import "fmt"

// Shares judges weighted turns in one lane and queue: no tenant is served beyond
// its weight while another could have been served all the time since it was
// last. It knows nothing of rings or turns.
type Shares struct {
	waits map[string]map[string]share // what others had since one could be served
}

// share is how often a tenant was served, and the greatest weight it had then.
type share struct{ served, weight int }

// NewShares returns a judge that has seen nobody.
func NewShares() *Shares { return &Shares{map[string]map[string]share{}} }

// Can says whether a tenant could be served from now on.
func (s *Shares) Can(tenant string, can bool) {
	if !can {
		delete(s.waits, tenant)
	} else if s.waits[tenant] == nil {
		s.waits[tenant] = map[string]share{}
	}
}

// Served says that a message of a tenant is served, at a weight, and judges it.
func (s *Shares) Served(tenant string, weight int) (unfair error) {
	for other, had := range s.waits {
		if other == tenant {
			continue
		}
		now := share{had[tenant].served + 1, max(had[tenant].weight, weight)}
		had[tenant] = now
		if now.served > now.weight {
			unfair = fmt.Errorf("tenant %s is served %d times, at weights up to %d, while %s waits", tenant, now.served, now.weight, other)
		}
	}
	if s.waits[tenant] != nil {
		s.waits[tenant] = map[string]share{}
	}
	return unfair
}

// court is the judges of a pair: what engine and model answer alike must be fair and in order.
type court struct {
	shares   map[*modelQueue]*Shares
	turns    map[*modelLane]*Shares // of subscriptions
	redriven map[uint64]bool        // may come after later ones of their key
	verdict  error
}

// sit makes the pair's judges watch what the model serves.
func (p *pair) sit() {
	p.court = &court{shares: map[*modelQueue]*Shares{}, turns: map[*modelLane]*Shares{}, redriven: map[uint64]bool{}}
	for _, l := range p.model.lanes {
		p.court.turns[l] = NewShares()
	}
	p.model.gave = func(l *modelLane, uid string) {
		if p.turnsOpen || p.court.verdict != nil {
			return
		}
		p.court.verdict = p.court.turns[l].Served(uid, 1)
		p.court.turns[l].Can(uid, l.subs[uid].servable())
	}
	p.model.served = func(q *modelQueue, msg *modelMessage) {
		if p.turnsOpen || p.court.verdict != nil {
			return
		}
		s := p.court.of(q)
		p.court.verdict = s.Served(msg.tenant, q.weight(msg.tenant))
		s.Can(msg.tenant, q.canServe(msg.tenant))
		if p.court.verdict == nil && q.settings.Ordered {
			p.court.verdict = p.court.inOrder(q, msg)
		}
	}
}

func (b *court) of(q *modelQueue) *Shares {
	if b.shares[q] == nil {
		b.shares[q] = NewShares()
	}
	return b.shares[q]
}

func (q *modelQueue) canServe(tenant string) bool { return !q.barred(tenant) && q.first(tenant) != nil }

// inOrder fails if another message of the key is in flight, or an earlier one is not settled.
func (b *court) inOrder(q *modelQueue, msg *modelMessage) error {
	for _, other := range q.messages {
		if other == msg || other.tenant != msg.tenant || other.line() != msg.line() || other.state == dead {
			continue
		}
		if other.state != waiting {
			return fmt.Errorf("messages %d and %d of key %q are in flight", other.name, msg.name, msg.key)
		}
		if other.name < msg.name && !b.redriven[other.name] {
			return fmt.Errorf("message %d of key %q comes before %d", msg.name, msg.key, other.name)
		}
	}
	return nil
}

// judge fails the test on a verdict, and tells the judges who can be served now.
func (p *pair) judge() {
	p.Helper()
	if p.court.verdict != nil {
		p.Fatal(p.court.verdict)
	}
	for _, l := range p.model.lanes {
		for uid := range p.subs {
			p.court.turns[l].Can(uid, l.subs[uid] != nil && l.subs[uid].servable())
		}
		for _, q := range l.queues {
			for _, tenant := range []string{"a", "b", "c", "d", "e", "f"} {
				p.court.of(q).Can(tenant, q.canServe(tenant))
			}
		}
	}
}
