package embedded

import (
	"github.com/cockroachdb/pebble/v2"
)

// loadSubs reads the subscriptions and the headers of their batches.
func (l *lane) loadSubs(db *pebble.DB) error {
	err := scan(db, laneKey(nil, kindSubscription, l.no), func(key, value []byte) (err error) {
		s := newSubscription(keyQueue(key))
		l.subs[s.uid] = s
		s.settings, err = decodeSubscription(value)
		return err
	})
	if err != nil {
		return err
	}
	err = scan(db, laneKey(nil, kindSubState, l.no), func(key, value []byte) (err error) {
		s := l.subs[keyQueue(key)]
		if s == nil {
			return nil
		}
		if s.subscriptionState, err = decodeSubState(value); s.parked > 0 {
			l.agenda.move(&s.park, s.parked)
		}
		return err
	})
	if err != nil {
		return err
	}
	return scan(db, laneKey(nil, kindBatch, l.no), func(key, value []byte) error {
		s := l.subs[keyQueue(key)]
		if s == nil {
			return nil // swept some day
		}
		r, err := decodeBatch(value)
		if err == nil {
			l.loadBatch(s, lastNumber(key), &r)
		}
		return err
	})
}

// loadBatch takes up a batch. One that is early and was never sent collects; one
// that was waits for its next attempt, and all others of an ordered
// subscription wait for it.
func (l *lane) loadBatch(s *subscription, name uint64, r *batchRecord) {
	if r.format == s.settings.Format {
		r.format = s.settings.Format // one string for all
	}
	b := newBatch(s, name, r.batchHeader)
	b.onDisk, b.sending = b.chunks, r.sending
	s.batches = append(s.batches, b)
	s.queued += int64(b.count)
	l.put(b, r.state, r.due)
	switch {
	case r.state != batchEarly:
	case r.attempts == 0:
		s.current = b
	case s.settings.Ordered:
		s.blocking = b
	}
}
