package enginetest

import (
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// modelSub is one subscription in one lane.
type modelSub struct {
	settings millrace.SubscriptionSettings
	batches  []*modelBatch // by name
	current  *modelBatch   // collects, if there is one
	blocking *modelBatch   // of an ordered one: failed, and waits for its next attempt

	fails, round int
	parked       int64 // until when; 0 if it is not
	probing      bool
	reason       string
	failingSince int64

	sent, failed, dropped, skipped int64
	log                            [][]byte // newest last
}

type modelBatch struct {
	name     uint64
	state    millrace.BatchState
	events   []modelEvent
	attempts int
	created  int64
	due      int64 // 0 for never
	token    millrace.Token
	node     string
	err      string
	format   string
}

type modelEvent struct {
	seq, prev uint64
	recorded  int64
	body      []byte
}

func (b *modelBatch) bytes() (n int) {
	for _, e := range b.events {
		n += len(e.body)
	}
	return n
}

func (s *modelSub) events() (n int) {
	for _, b := range s.batches {
		n += len(b.events)
	}
	return n
}

func (s *modelSub) count(state millrace.BatchState) (n int) {
	for _, b := range s.batches {
		if b.state == state {
			n++
		}
	}
	return n
}

// first is the batch in a state with the lowest name.
func (s *modelSub) first(state millrace.BatchState) *modelBatch {
	for _, b := range s.batches {
		if b.state == state {
			return b
		}
	}
	return nil
}

func (s *modelSub) named(name uint64) *modelBatch {
	for _, b := range s.batches {
		if b.name == name {
			return b
		}
	}
	return nil
}

// servable tells whether a batch of it may be taken.
func (s *modelSub) servable() bool {
	most := s.settings.Concurrency
	if s.probing || s.settings.Ordered {
		most = 1
	}
	return !s.settings.Paused && !s.settings.Disabled && s.parked == 0 && s.blocking == nil &&
		s.first(millrace.BatchReady) != nil && s.count(millrace.BatchPending) < most
}

// admit puts a subscription into the ring if it can be served and is not there.
func (m *Model) admit(l *modelLane, uid string) {
	if s := l.subs[uid]; !s.servable() || slices.Contains(l.subRing, uid) {
		return
	}
	l.subRing = append(l.subRing, uid)
	if l.subWanted {
		l.subWanted = false
		m.hints = append(m.hints, millrace.Hint{Kind: millrace.HintBatch, Lane: int(l.lane)})
	}
}

// applySubs gives subscriptions their settings.
func (m *Model) applySubs(l *modelLane, all []millrace.SubscriptionSettings) (gone []string) {
	for _, s := range all {
		switch old := l.subs[s.UID]; {
		case l.removed[s.UID]:
			gone = append(gone, s.UID)
		case old == nil:
			l.subs[s.UID] = &modelSub{settings: s}
		case s.Version >= old.settings.Version:
			s.Ordered = old.settings.Ordered
			old.settings = s
			m.admit(l, s.UID)
		}
	}
	return gone
}

// collect appends an event to the current batch of a subscription.
func (m *Model) collect(l *modelLane, uid string, name uint64, e modelEvent) {
	s := l.subs[uid]
	if s.settings.Disabled {
		s.skipped++
		return
	}
	if s.current != nil && s.current.bytes()+len(e.body) > s.settings.MaxBytes {
		m.promote(l, uid, s.current)
	}
	if s.current == nil {
		s.current = &modelBatch{
			name: name, state: millrace.BatchEarly, created: l.t, due: l.t + whole(s.settings.Timeout), format: s.settings.Format,
		}
		s.batches = append(s.batches, s.current)
	}
	s.current.events = append(s.current.events, e)
	if len(s.current.events) >= s.settings.MaxEvents {
		m.promote(l, uid, s.current)
	}
}

func (m *Model) injectBatch(l *modelLane, in millrace.Inject) error {
	if l.subs[in.Subscription] == nil {
		return millrace.Errorf(millrace.CodeNotFound, "no such subscription")
	}
	m.tick(l, in.Now)
	before := l.due()
	for _, e := range in.Events {
		m.collect(l, in.Subscription, l.next(), modelEvent{e.Seq, e.Prev, e.RecordedAt.UnixMilli(), slices.Clone(e.Body)})
	}
	m.hintDue(l, before)
	return nil
}

// promote makes a batch ready, wherever it waited.
func (m *Model) promote(l *modelLane, uid string, b *modelBatch) {
	s := l.subs[uid]
	b.state, b.due = millrace.BatchReady, 0
	s.let(b)
	m.admit(l, uid)
}

// let says that a batch neither collects nor blocks any more.
func (s *modelSub) let(b *modelBatch) {
	if s.current == b {
		s.current = nil
	}
	if s.blocking == b {
		s.blocking = nil
	}
}

func (s *modelSub) remove(gone *modelBatch) {
	s.let(gone)
	s.batches = slices.DeleteFunc(s.batches, func(b *modelBatch) bool { return b == gone })
}

// dropBatch removes a batch and counts its events.
func (m *Model) dropBatch(l *modelLane, uid string, b *modelBatch) {
	s := l.subs[uid]
	s.remove(b)
	s.dropped += int64(len(b.events))
	l.stats.Dropped += int64(len(b.events))
	m.admit(l, uid)
}

// Take gives batches to a node.
func (m *Model) Take(_ context.Context, lane int, t millrace.Take) (millrace.Taken, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Taken{}, err
	}
	defer m.leave()
	m.tick(l, t.Now)
	before := l.due()
	var done millrace.Taken
	for bytes := 0; len(l.subRing) > 0 && len(done.Batches) < t.Max; {
		uid := l.subRing[0]
		s := l.subs[uid]
		if !s.servable() {
			l.subRing = l.subRing[1:]
			continue
		}
		b := s.first(millrace.BatchReady)
		if bytes += b.bytes(); bytes > t.MaxBytes && len(done.Batches) > 0 {
			break
		}
		l.subRing = l.subRing[1:]
		b.state, b.attempts, b.token, b.node, b.due = millrace.BatchPending, b.attempts+1, t.Token, t.Node, l.t+whole(t.For)
		m.admit(l, uid)
		if m.gave != nil {
			m.gave(l, uid)
		}
		done.Batches = append(done.Batches, millrace.TakenBatch{
			Subscription: uid, Version: s.settings.Version, Name: b.name, Attempt: b.attempts, CreatedAt: at(b.created), Format: b.format, Events: b.shown(),
		})
	}
	done.More = len(l.subRing) > 0
	l.subWanted = l.subWanted || !done.More
	done.Due = m.hintDue(l, before)
	return done, nil
}

func (b *modelBatch) shown() (events []millrace.BatchEvent) {
	for _, e := range b.events {
		events = append(events, millrace.BatchEvent{Seq: e.seq, Prev: e.prev, RecordedAt: at(e.recorded), Body: slices.Clone(e.body)})
	}
	return events
}

// SettleBatches ends pending batches.
func (m *Model) SettleBatches(_ context.Context, lane int, o millrace.Outcomes) (millrace.SettledBatches, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.SettledBatches{}, err
	}
	defer m.leave()
	m.tick(l, o.Now)
	before := l.due()
	var done millrace.SettledBatches
	for _, item := range o.Items {
		done.Items = append(done.Items, m.settleBatch(l, item))
	}
	done.Due = m.hintDue(l, before)
	return done, nil
}

func (m *Model) settleBatch(l *modelLane, item millrace.Outcome) (settled millrace.SettledBatch) {
	s := l.subs[item.Subscription]
	if s == nil {
		return millrace.SettledBatch{Lost: true}
	}
	if len(item.Log) > 0 {
		s.log = append(s.log, slices.Clone(item.Log))
		s.log = s.log[max(0, len(s.log)-millrace.MaxAttemptLog):]
	}
	b := s.named(item.Name)
	switch {
	case b == nil || b.state != millrace.BatchPending || b.token != item.Token || b.due <= l.t:
		settled.Lost = true
	case item.OK:
		s.sent += int64(len(b.events))
		s.remove(b)
		s.fails, s.round, s.parked, s.probing, s.reason, s.failingSince = 0, 0, 0, false, "", 0
		m.admit(l, item.Subscription)
	default:
		settled.Dead = m.failBatch(l, item.Subscription, b, item)
	}
	if s.failingSince > 0 {
		settled.FailingSince = at(s.failingSince)
	}
	return settled
}

// failBatch says that the sending of a batch failed, and tells whether it is dead.
func (m *Model) failBatch(l *modelLane, uid string, b *modelBatch, why millrace.Outcome) bool {
	s := l.subs[uid]
	s.failed++
	s.reason, b.err, b.node, b.token = why.Error, why.Error, "", millrace.Token{}
	if s.failingSince == 0 {
		s.failingSince = l.t
	}
	wait := func(n int) int64 {
		if why.After > 0 {
			return whole(why.After)
		}
		return why.Jitter.Spread(s.settings.Schedule[min(n, len(s.settings.Schedule)-1)]).Milliseconds()
	}
	spent := b.attempts > len(s.settings.Schedule)
	if spent {
		b.state, b.due = millrace.BatchDead, 0
		if keep := whole(s.settings.Retention); keep > 0 {
			b.due = l.t + keep
		}
	} else {
		b.state, b.due = millrace.BatchEarly, l.t+wait(b.attempts-1)
		if s.settings.Ordered {
			s.blocking = b
		}
	}
	if s.parked == 0 && len(s.settings.Schedule) > 0 {
		if s.fails++; s.fails >= 3 || s.probing {
			s.parked, s.probing = l.t+wait(s.round), true
			s.round++
		}
	}
	m.admit(l, uid)
	return spent
}

// batchEntries is what is due of subscriptions.
func (l *modelLane) batchEntries() (all []dueEntry) {
	for uid, s := range l.subs {
		if s.parked > 0 {
			all = append(all, dueEntry{at: s.parked, kind: 'K', uid: uid, sub: s})
		}
		for _, b := range s.batches {
			if b.due > 0 {
				kind := map[millrace.BatchState]byte{millrace.BatchEarly: 'B', millrace.BatchPending: 'T', millrace.BatchDead: 'Y'}[b.state]
				all = append(all, dueEntry{at: b.due, kind: kind, uid: uid, name: b.name, sub: s, batch: b})
			}
		}
	}
	return all
}

func (m *Model) stepBatch(l *modelLane, e dueEntry, done *millrace.Stepped) {
	switch e.kind {
	case 'B':
		done.Promoted++
		m.promote(l, e.uid, e.batch)
	case 'K':
		e.sub.parked = 0
		m.admit(l, e.uid)
	case 'T':
		done.Scrubbed++
		m.failBatch(l, e.uid, e.batch, millrace.Outcome{Error: "lost", Jitter: millrace.NoJitter})
	case 'Y':
		done.Forgotten++
		m.dropBatch(l, e.uid, e.batch)
	}
}
