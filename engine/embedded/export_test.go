package embedded

import (
	"time"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"
)

// SetFreeSpace makes the engine believe that so much space is free.
func (e *Engine) SetFreeSpace(reserve uint64, free func() (uint64, error)) {
	e.space.reserve, e.space.free = reserve, free
}

// SetClock gives the engine another clock of the machine.
func (e *Engine) SetClock(clock func() time.Time) { e.clock = clock }

// KeepMembers says how many events of batches that collect no more each lane
// keeps in memory.
func (e *Engine) KeepMembers(n int) {
	for _, l := range e.lanes {
		l.mu.Lock()
		l.kept.limit = n
		l.mu.Unlock()
	}
}

// LoseDeadLetters deletes the records of dead letters beneath the engine.
func (e *Engine) LoseDeadLetters() {
	if err := e.db.DeleteRange([]byte{kindDead}, []byte{kindDead + 1}, pebble.NoSync); err != nil {
		panic(err)
	}
}

// MembersInMemory is how many events of batches the index holds itself.
func (e *Engine) MembersInMemory() (n int) {
	for _, l := range e.lanes {
		l.mu.Lock()
		for _, s := range l.subs {
			for _, b := range s.batches {
				n += len(b.recent())
			}
		}
		l.mu.Unlock()
	}
	return n
}

// EntriesInMemory is how many waiting messages the index holds itself.
func (e *Engine) EntriesInMemory() (n int) {
	for _, l := range e.lanes {
		l.mu.Lock()
		for _, q := range l.queues {
			for _, f := range q.facets {
				n += f.head.len() + f.tail.len() + len(f.back)
			}
		}
		l.mu.Unlock()
	}
	return n
}

// RecordsOfSinks counts, by their kinds, the records that belong to queues and
// subscriptions.
func (e *Engine) RecordsOfSinks() map[string]int {
	return e.records([]byte{kindMessage, kindChain, kindLine, kindLease, kindDelayed, kindDead, kindDeadOf, kindDeadDue, kindTenant, kindBody, kindHolders, kindSettings, kindCounters,
		kindSubscription, kindSubState, kindBatch, kindMember, kindBatchError, kindAttempt,
		kindTicket, kindCancelled, kindDedupe, kindTally, kindCount})
}

// RecordsOfOperations counts, by their kinds, the records that stay until operations are forgotten.
func (e *Engine) RecordsOfOperations() map[string]int {
	return e.records([]byte{kindOperation, kindState, kindOpened, kindSubject, kindEnding})
}

func (e *Engine) records(kinds []byte) map[string]int {
	found := map[string]int{}
	for _, kind := range kinds {
		err := scan(e.db, []byte{kind}, func(_, _ []byte) error { found[string(kind)]++; return nil })
		if err != nil {
			panic(err)
		}
	}
	return found
}

// BatchSize is how many bytes of memory the header of a batch takes.
const BatchSize = unsafe.Sizeof(batch{})
