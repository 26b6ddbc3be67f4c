package embedded

import (
	"bytes"
	"time"
)

// The kinds of what is due, in their order at one time.
const (
	dueBatch     = iota // a batch that collects, or waits for its next attempt
	dueRetry            // a message whose delay is over
	dueEvent            // a delayed event
	duePark             // the park of a subscription
	dueLease            // a lease that ends
	dueEnding           // the operations of a queue that expire first
	dueSending          // a batch that is pending
	dueDead             // the dead letters of a queue whose retention ends first
	dueDeadBatch        // a dead batch whose retention ends
)

// due is an entry of a lane's due index.
type due struct {
	kind  byte
	at    int64
	pos   int // in the heap; -1 outside
	queue *queue
	sub   *subscription
	lease *lease // of a lease
	seq   uint64 // of a delayed message or event, or of a batch; of operations the uid of their queue, which may be removed
}

// agenda is a lane's due index: a heap in which each entry knows its place, so
// that what is settled leaves no trace.
type agenda struct {
	heap []*due
}

func (a *agenda) push(d *due) {
	d.pos = len(a.heap)
	a.heap = append(a.heap, d)
	a.up(d.pos)
}

func (a *agenda) remove(d *due) {
	i, last := d.pos, len(a.heap)-1
	if i < 0 {
		return
	}
	a.swap(i, last)
	a.heap[last] = nil
	a.heap = a.heap[:last]
	d.pos = -1
	if i < last {
		a.down(i)
		a.up(i)
	}
}

// drop removes all entries that gone names.
func (a *agenda) drop(gone func(*due) bool) {
	kept := a.heap[:0]
	for _, d := range a.heap {
		if !gone(d) {
			d.pos = len(kept)
			kept = append(kept, d)
		}
	}
	clear(a.heap[len(kept):])
	a.heap = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		a.down(i)
	}
}

// move gives an entry another time, inside the heap or outside.
func (a *agenda) move(d *due, at int64) {
	a.remove(d)
	d.at = at
	a.push(d)
}

// first is the entry that is due first, nil if there is none.
func (a *agenda) first() *due {
	if len(a.heap) == 0 {
		return nil
	}
	return a.heap[0]
}

// until is the time from now to the first entry; negative if there is none.
func (a *agenda) until(now int64) time.Duration {
	d := a.first()
	if d == nil {
		return -1
	}
	return time.Duration(max(0, d.at-now)) * time.Millisecond
}

func (a *agenda) less(i, j int) bool { return a.heap[i].before(a.heap[j]) }

// uid is whose it is; 0 of a delayed event.
func (d *due) uid() uid {
	switch {
	case d.queue != nil:
		return d.queue.uid
	case d.sub != nil:
		return d.sub.uid
	case d.kind == dueEnding:
		return uid(d.seq)
	}
	return 0
}

// before is the order of what is due: by time, kind and uid; retries, events
// and batches by name, leases by token and number.
func (d *due) before(o *due) bool {
	if d.at != o.at {
		return d.at < o.at
	}
	if d.kind != o.kind {
		return d.kind < o.kind
	}
	if a, b := d.uid(), o.uid(); a != b {
		return a < b
	}
	if d.kind != dueLease {
		return d.seq < o.seq
	}
	if order := bytes.Compare(d.lease.token[:], o.lease.token[:]); order != 0 {
		return order < 0
	}
	return d.lease.no < o.lease.no
}

func (a *agenda) swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.heap[i].pos, a.heap[j].pos = i, j
}

func (a *agenda) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !a.less(i, parent) {
			return
		}
		a.swap(i, parent)
		i = parent
	}
}

func (a *agenda) down(i int) {
	for {
		kid := 2*i + 1
		if kid >= len(a.heap) {
			return
		}
		if kid+1 < len(a.heap) && a.less(kid+1, kid) {
			kid++
		}
		if !a.less(kid, i) {
			return
		}
		a.swap(i, kid)
		i = kid
	}
}
