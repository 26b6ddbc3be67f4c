package embedded

import "github.com/cockroachdb/pebble/v2"

// ending is when operations of a queue expire: by minutes, of which the first is in the due index.
type ending struct {
	due    due
	recent map[int64]uint64 // minutes that were written lately, and the group that wrote last
}

// recentMinutes is up to how many minutes are remembered though the disk has them.
const recentMinutes = 16

// endingsOf is when operations of a queue expire.
func (l *lane) endingsOf(u uid) *ending {
	x := l.endings[u]
	if x == nil {
		x = &ending{due: due{kind: dueEnding, seq: uint64(u), pos: -1}, recent: map[int64]uint64{}}
		l.endings[u] = x
	}
	return x
}

// expire notes that an operation expires within a minute.
func (l *lane) expire(g *group, u uid, minute int64, number uint64) {
	g.key, g.val = endingKey(g.key[:0], l.no, u, minute, number), g.val[:0]
	g.set()
	x := l.endingsOf(u)
	x.note(minute, g.no, l.applied)
	if at := (minute + 1) * 60000; x.due.pos < 0 || at < x.due.at {
		l.agenda.move(&x.due, at)
	}
}

func (x *ending) note(minute int64, group, applied uint64) {
	if len(x.recent) > recentMinutes {
		x.forgetApplied(applied)
	}
	x.recent[minute] = group
}

func (x *ending) forgetApplied(applied uint64) {
	for minute, group := range x.recent {
		if group <= applied {
			delete(x.recent, minute)
		}
	}
}

// forgetEnded frees up to most operations of a queue that expired in the minute that was over first,
// and returns how many. What is not applied yet is not seen and stays due.
func (l *lane) forgetEnded(g *group, x *ending, most int) (gone int, err error) {
	u, minute := uid(x.due.seq), x.due.at/60000-1
	numbers, err := l.endingIn(u, minute, most)
	if err != nil {
		return 0, err
	}
	for _, number := range numbers {
		g.key = endingKey(g.key[:0], l.no, u, minute, number)
		g.del()
		g.hide()
		if err := l.forgetOperation(g, u, number); err != nil {
			return gone, err
		}
		gone++
	}
	return gone, l.nextEnding(x)
}

// endingIn is up to most operations of a queue that expire within a minute, by number.
func (l *lane) endingIn(u uid, minute int64, most int) (numbers []uint64, err error) {
	it, err := l.overlay.prefixed(endingOf(nil, l.no, u, minute))
	if err != nil {
		return nil, err
	}
	for valid := it.First(); valid && len(numbers) < most; valid = it.Next() {
		numbers = append(numbers, lastNumber(it.Key()))
	}
	return numbers, it.Close()
}

// forgetOperation frees an operation and what finds it.
func (l *lane) forgetOperation(g *group, u uid, number uint64) error {
	o, err := l.operationRecord(number)
	if err == nil && o == nil {
		err = errIndex("an operation expires and is not there")
	}
	if err != nil {
		return err
	}
	g.touched = append(g.touched, number)
	g.key = seqKey(g.key[:0], kindOperation, l.no, number)
	g.del()
	g.key = queueSeqKey(g.key[:0], kindState, l.no, u, number)
	g.del()
	if o.subject != "" {
		g.key = subjectKey(g.key[:0], l.no, o.subject, number)
		g.del()
	}
	return nil
}

// nextEnding finds the minute in which operations of a queue expire next.
func (l *lane) nextEnding(x *ending) error {
	it, err := l.overlay.prefixed(queueKey(nil, kindEnding, l.no, uid(x.due.seq)))
	if err != nil {
		return err
	}
	next := int64(-1)
	if it.First() {
		next = minuteOf(it.Key())
	}
	x.forgetApplied(l.applied)
	for minute := range x.recent {
		if next < 0 || minute < next {
			next = minute
		}
	}
	if next < 0 {
		l.agenda.remove(&x.due)
		delete(l.endings, uid(x.due.seq))
	} else {
		l.agenda.move(&x.due, (next+1)*60000)
	}
	return it.Close()
}

// endOperations does what is due of operations. It reports whether there was anything.
func (s *stepping) endOperations(d *due) bool {
	l := s.lane
	gone, err := l.forgetEnded(s.group, l.endings[uid(d.seq)], s.most-s.done())
	if err != nil {
		l.engine.fail(err)
		return false
	}
	s.out.Ended += gone
	return gone > 0
}

// loadEndings finds when operations expire, of each queue the first minute.
func (l *lane) loadEndings(db *pebble.DB) error {
	prefix := laneKey(nil, kindEnding, l.no)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	for valid := it.First(); valid; {
		u := keyQueue(it.Key())
		l.agenda.move(&l.endingsOf(u).due, (minuteOf(it.Key())+1)*60000)
		valid = it.SeekGE(after(queueKey(nil, kindEnding, l.no, u)))
	}
	return it.Close()
}
