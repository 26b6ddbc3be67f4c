package embedded

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// subscription is the index of one subscription in one lane. Of its batches the
// headers lie in memory; members and bodies lie on disk.
type subscription struct {
	uid      uid
	settings millrace.SubscriptionSettings
	removed  bool // the lane does not know it any more
	inRing   bool

	batches  []*batch // by name; some of them are gone
	gone     int      // how many
	living   uint64   // up to this name all batches are dead or gone
	current  *batch   // collects, if there is one
	blocking *batch   // of an ordered one: it failed and waits for its next attempt
	ready    agenda   // the ready batches, by name
	park     due      // in the lane's due index while it is parked
	subscriptionState

	queued, dead int64 // events in batches that are not dead, and in those that are
	pending      int   // batches
	deadBatches  int
	dirty        bool // the state has changed since it was written
}

func newSubscription(u uid) *subscription {
	s := &subscription{uid: u}
	s.park = due{kind: duePark, sub: s, pos: -1}
	return s
}

// subscription is the subscription of a uid, nil if the lane does not know it.
func (l *lane) subscription(name string) *subscription {
	u, ok := parseUID(name)
	if !ok {
		return nil
	}
	return l.subs[u]
}

func errNoSubscription() error {
	return millrace.Errorf(millrace.CodeNotFound, "the lane does not know this subscription")
}

// servable reports whether a batch of it may be taken.
func (s *subscription) servable() bool {
	most := s.settings.Concurrency
	if s.probing || s.settings.Ordered {
		most = 1
	}
	return !s.settings.Paused && !s.settings.Disabled && s.parked == 0 && s.blocking == nil &&
		s.ready.first() != nil && s.pending < most
}

// admit puts a subscription that can be served into the ring, once, and wakes
// who waits for batches.
func (l *lane) admit(g *group, s *subscription) {
	if s.inRing || !s.servable() {
		return
	}
	s.inRing = true
	l.subRing = append(l.subRing, s)
	if l.subWanted {
		l.subWanted = false
		g.hint(millrace.Hint{Kind: millrace.HintBatch, Lane: l.no})
	}
}

// leaveRing takes the first subscription out of the ring.
func (l *lane) leaveRing() {
	l.subRing[0].inRing = false
	l.subRing[0] = nil
	l.subRing = l.subRing[1:]
}

// changeSub notes that the state of a subscription is to be written.
func (l *lane) changeSub(s *subscription) {
	if !s.dirty {
		s.dirty = true
		l.dirtySubs = append(l.dirtySubs, s)
	}
}

// defineSub stores a subscription's settings unless the lane has later ones.
func (l *lane) defineSub(g *group, u uid, settings millrace.SubscriptionSettings) {
	s, known := l.subs[u]
	switch {
	case !known:
		s = newSubscription(u)
		l.subs[u] = s
	case s.settings.Version > settings.Version:
		return
	default:
		settings.Ordered = s.settings.Ordered
	}
	settings.UID, settings.Schedule = "", slices.Clone(settings.Schedule)
	value := encodeSubscription(&settings)
	if known && bytes.Equal(value, encodeSubscription(&s.settings)) {
		return
	}
	s.settings = settings
	g.key = queueKey(g.key[:0], kindSubscription, l.no, u)
	g.val = append(g.val[:0], value...)
	g.set()
	l.admit(g, s)
}

// removeSub makes a subscription unknown to the lane; its batches wait for the sweep.
func (l *lane) removeSub(g *group, s *subscription) {
	l.sealBatches(g) // what it has collected is found by the sweep
	s.removed = true
	l.agenda.drop(func(d *due) bool { return d.sub == s })
	l.subRing = slices.DeleteFunc(l.subRing, func(o *subscription) bool { return o == s })
	for _, b := range s.batches {
		l.kept.forget(b)
	}
	delete(l.subs, s.uid)
	for _, kind := range []byte{kindSubscription, kindSubState} {
		g.key = queueKey(g.key[:0], kind, l.no, s.uid)
		g.del()
	}
}

// sealBatches writes what has changed of batches and subscriptions: once a
// group, however many events came.
func (l *lane) sealBatches(g *group) {
	for _, b := range l.dirtyBatches {
		b.dirty = false
		if !b.sub().removed {
			l.writeBatch(g, b)
		}
	}
	for _, s := range l.dirtySubs {
		s.dirty = false
		if !s.removed {
			g.key = queueKey(g.key[:0], kindSubState, l.no, s.uid)
			g.val = s.subscriptionState.append(g.val[:0])
			g.set()
		}
	}
	clear(l.dirtyBatches)
	clear(l.dirtySubs)
	l.dirtyBatches, l.dirtySubs = l.dirtyBatches[:0], l.dirtySubs[:0]
}

// startSubs gives every subscription that can be served its place, the one with
// the oldest ready batch first.
func (l *lane) startSubs() {
	for _, s := range l.subs {
		if s.servable() {
			s.inRing = true
			l.subRing = append(l.subRing, s)
		}
	}
	slices.SortFunc(l.subRing, func(a, b *subscription) int {
		return cmp.Or(cmp.Compare(a.ready.first().seq, b.ready.first().seq), cmp.Compare(a.uid, b.uid))
	})
}

// named is the batch of a name, nil if there is none.
func (s *subscription) named(name uint64) *batch {
	i := s.after(name - 1)
	if i < len(s.batches) && s.batches[i].name() == name && s.batches[i].state != batchGone {
		return s.batches[i]
	}
	return nil
}

// after is the place of the first batch past a name.
func (s *subscription) after(name uint64) int {
	i, found := slices.BinarySearchFunc(s.batches, name, func(b *batch, name uint64) int { return cmp.Compare(b.name(), name) })
	if found {
		i++
	}
	return i
}

// compact drops from the list what is gone, from its start at once.
func (s *subscription) compact() {
	for len(s.batches) > 0 && s.batches[0].state == batchGone {
		s.batches[0] = nil
		s.batches = s.batches[1:]
		s.gone--
	}
	if s.gone > 16 && s.gone > len(s.batches)/2 {
		s.batches = slices.DeleteFunc(s.batches, func(b *batch) bool { return b.state == batchGone })
		s.gone = 0
	}
}

// onSub runs one transition of a subscription at a moment.
func (e *Engine) onSub(ctx context.Context, lane int, name string, at time.Time, f func(l *lane, s *subscription, g *group, now int64) error) error {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return err
	}
	defer e.leave()
	return l.transition(ctx, at, func(g *group, now int64) error {
		s := l.subscription(name)
		if s == nil {
			return errNoSubscription()
		}
		return f(l, s, g, now)
	})
}

// lookSub looks at a subscription, or changes what needs no clock.
func (e *Engine) lookSub(ctx context.Context, lane int, name string, f func(l *lane, s *subscription, g *group) error) error {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return err
	}
	defer e.leave()
	return l.do(ctx, func(g *group) error {
		s := l.subscription(name)
		if s == nil {
			return errNoSubscription()
		}
		return f(l, s, g)
	})
}

// SubscriptionStats counts what a lane knows of a subscription.
func (e *Engine) SubscriptionStats(ctx context.Context, lane int, subscription string) (millrace.SubscriptionStats, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.SubscriptionStats{}, err
	}
	defer e.leave()
	var stats millrace.SubscriptionStats
	err = l.do(ctx, func(*group) error {
		if s := l.subscription(subscription); s != nil {
			stats = s.stats()
		}
		return nil
	})
	return stats, err
}

func (s *subscription) stats() millrace.SubscriptionStats {
	stats := millrace.SubscriptionStats{
		Queued: s.queued, Dead: s.dead, Sent: s.sent, Failed: s.failed, Dropped: s.dropped, Skipped: s.skipped,
		Batches: int64(len(s.batches) - s.gone), Pending: int64(s.pending),
		Reason: s.reason, FailingSince: moment(s.failingSince), NextAttemptAt: moment(s.parked), Parked: s.parked > 0 || s.probing,
	}
	if b := s.oldest(); b != nil {
		stats.Oldest = milli(b.created)
	}
	return stats
}

// oldest is the first batch that is not dead, nil if there is none. It begins
// where it ended last: the dead may be many.
func (s *subscription) oldest() *batch {
	for _, b := range s.batches[s.after(s.living):] {
		if b.state != batchGone && b.state != batchDead {
			return b
		}
		s.living = b.name()
	}
	return nil
}

// moment is a time that may be none.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return milli(ms)
}
