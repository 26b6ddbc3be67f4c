package embedded

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

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

// minuteIn is a minute in which operations of a queue expire.
type minuteIn struct {
	queue  uid
	minute int64
}

// expire notes that an operation expires within a minute. It is written with the others of its group.
func (l *lane) expire(g *group, u uid, minute int64, number uint64) {
	at := minuteIn{u, minute}
	list := l.ended[at]
	if len(list) == 0 {
		x := l.endingsOf(u)
		x.note(minute, g.no, l.applied)
		if at := (minute + 1) * 60000; x.due.pos < 0 || at < x.due.at {
			l.agenda.move(&x.due, at)
		}
	}
	l.ended[at] = append(list, number)
}

// sealOperations writes which operations began in the group and which ended.
func (l *lane) sealOperations(g *group) {
	for u, numbers := range l.began {
		g.key = queueSeqKey(g.key[:0], kindOpened, l.no, u, numbers[0])
		g.val = appendRising(g.val[:0], numbers)
		g.set()
		delete(l.began, u)
	}
	for at, numbers := range l.ended {
		slices.Sort(numbers)
		g.key = endingKey(g.key[:0], l.no, at.queue, at.minute, numbers[0])
		g.val = appendRising(g.val[:0], numbers)
		g.set()
		delete(l.ended, at)
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

// forgetEnded frees up to most operations of a queue that expired in the minute that was over first, by
// number, and returns how many. What is not applied yet is not seen and stays due.
func (l *lane) forgetEnded(g *group, x *ending, most int) (gone int, err error) {
	u, minute := uid(x.due.seq), x.due.at/60000-1
	chunks, err := l.endingIn(u, minute, most)
	if err != nil {
		return 0, err
	}
	numbers := lowest(chunks, most)
	for _, number := range numbers {
		if err := l.forgetOperation(g, number); err != nil {
			return 0, err
		}
	}
	for _, c := range chunks {
		l.shorten(g, c, numbers, func(b []byte, first uint64) []byte { return endingKey(b, l.no, u, minute, first) })
	}
	if err := l.unlist(g, u, numbers); err != nil {
		return 0, err
	}
	return len(numbers), l.nextEnding(x)
}

// endingIn reads, of the operations of a queue that expire within a minute, those among which the lowest are.
func (l *lane) endingIn(u uid, minute int64, most int) (chunks []chunk, err error) {
	it, err := l.overlay.prefixed(endingOf(nil, l.no, u, minute))
	if err != nil {
		return nil, err
	}
	defer it.Close()
	n := 0
	for valid := it.First(); valid; valid = it.Next() {
		if n >= most && below(chunks, lastNumber(it.Key())) >= most {
			break
		}
		c, err := chunkAt(it)
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, c)
		n += len(c.numbers)
	}
	return chunks, it.Error()
}

// forgetOperation frees an operation and what finds it by its subject.
func (l *lane) forgetOperation(g *group, number uint64) error {
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
	g.key = seqKey(g.key[:0], kindState, l.no, number)
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
