package embedded

import "github.com/millrace-dev/millrace"

// room refuses a commit that would have a tenant wait with more than a queue
// allows. Most queues allow any number: then it costs nothing.
func (p *publication) room() error {
	for _, q := range p.queues {
		if q.bounded() {
			return p.countRoom()
		}
	}
	return nil
}

// bounded reports whether the queue refuses what is over its limit.
func (q *queue) bounded() bool { return q.settings.MaxLength > 0 && !q.settings.DropOldest }

// countRoom adds up what the commit would append to bounded queues.
func (p *publication) countRoom() error {
	type facetOf struct {
		queue  *queue
		tenant string
	}
	added := map[facetOf]int64{}
	seen := map[millrace.Digest]bool{}
	taken := map[uint64]bool{}
	rest := p.queues
	for i := range p.commit.Events {
		ev := &p.commit.Events[i]
		queues := rest[:len(ev.Queues)]
		rest = rest[len(ev.Queues):]
		if !p.appends(i, ev, seen, taken) {
			continue
		}
		for _, q := range queues {
			at := facetOf{q, ev.Tenant}
			added[at]++
			if q.bounded() && q.waitingOf(ev.Tenant)+added[at] > int64(q.settings.MaxLength) {
				return errNoRoom(q)
			}
		}
	}
	return nil
}

func errNoRoom(q *queue) error {
	return &millrace.Error{Code: millrace.CodeFull, Sink: q.uid.String(), Detail: "the tenant has as many messages waiting as the queue allows"}
}

// appends reports whether an event will be appended to its queues.
func (p *publication) appends(i int, ev *millrace.CommitEvent, seen map[millrace.Digest]bool, taken map[uint64]bool) bool {
	if ev.From != 0 {
		again := taken[ev.From]
		taken[ev.From] = true
		return p.lane.held[ev.From] != nil && !again
	}
	if ev.Remembered {
		if _, known := p.first(i, ev); known || seen[ev.Digest] {
			return false
		}
		seen[ev.Digest] = true
	}
	return ev.Delay <= 0
}

func (q *queue) waitingOf(tenant string) int64 {
	if f := q.facets[tenant]; f != nil {
		return f.waiting()
	}
	return 0
}
