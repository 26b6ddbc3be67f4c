package embedded

import (
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// What an opening reads of operations is bounded by what is in flight and by what waits in vain:
// their own records stay where they are.

// loadRemoved notes a removed sink, and how long operations of a queue that was tracked stay.
func (l *lane) loadRemoved(u uid, value string) error {
	keep, waits := strings.CutPrefix(value, unswept)
	l.removed[u] = waits
	if keep == "" {
		return nil
	}
	var ms int64
	err := decodeNumbers([]byte(keep), "a removed queue", &ms)
	l.retired[u] = time.Duration(ms) * time.Millisecond
	return err
}

// loadCancelled counts the messages that wait in vain.
func (l *lane) loadCancelled(db *pebble.DB) error {
	return scan(db, laneKey(nil, kindCancelled, l.no), func(key, _ []byte) error {
		if q := l.queues[keyQueue(key)]; q != nil {
			q.cancelled++
		}
		return nil
	})
}

func (l *lane) loadCounts(db *pebble.DB) error {
	return scan(db, laneKey(nil, kindTally, l.no), func(key, value []byte) error {
		if q := l.queues[keyQueue(key)]; q != nil {
			return q.counts.decode(value)
		}
		return nil
	})
}

// loadRunning reads what the operations of leased messages have told, and whether they are to be cancelled.
func (l *lane) loadRunning() error {
	for _, q := range l.queues {
		if !q.settings.Tracked {
			continue
		}
		for seq, h := range q.out {
			if h.state != stateLeased {
				continue
			}
			number, err := l.numberOf(q, h.entry(seq))
			if err != nil {
				return err
			}
			s, err := l.state(number)
			if err != nil {
				return err
			}
			h.wish = s.wish
			h.told = s.wish || s.told && s.attempts == int64(attemptsOf(h.mark))+1
			q.out[seq] = h
		}
	}
	return nil
}

// numberOf is the number of a message's operation.
func (l *lane) numberOf(q *queue, e entry) (uint64, error) {
	if e.mark&markTicket == 0 {
		return e.seq, nil
	}
	t, err := l.ticketOf(q.uid, e.seq)
	if err == nil && t == nil {
		err = errIndex("a message has no ticket")
	}
	if err != nil {
		return 0, err
	}
	return t.number, nil
}
