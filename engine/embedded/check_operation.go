package embedded

import (
	"bytes"
	"encoding/binary"

	"github.com/millrace-dev/millrace"
)

// messageID names a message in a lane.
type messageID struct {
	queue uid
	name  uint64
}

// operationsOnDisk is all that the disk has of a lane's operations, and the messages that have one.
type operationsOnDisk struct {
	records  map[uint64]operationRecord
	states   map[uint64]operationState
	tickets  map[messageID]ticket
	marked   map[messageID]bool // wait in vain
	messages map[messageID]entry
	open     map[messageID]int // how many open operations name the message
	subjects map[uint64]string // key
	dedupes  map[millrace.Digest]uint64
	listed   map[uint64][]uid      // in the lists of which queues an operation is
	endings  map[uint64][]minuteIn // when it is to be forgotten
}

// checkOperations compares operations with the messages of tracked queues and with what finds them, both ways.
func (c *checker) checkOperations() error {
	d, err := c.readOperations()
	if err != nil {
		return err
	}
	for number, o := range d.records {
		if s := d.states[number]; !s.ended() {
			d.open[messageID{o.uid, s.messageOf(number)}]++
		}
	}
	for number, o := range d.records {
		c.checkOperation(d, number, &o)
	}
	for number := range d.states {
		if _, ok := d.records[number]; !ok {
			c.add("operation %d has a state and nothing else", number)
		}
	}
	for id, e := range d.messages {
		if err := c.checkTracked(d, id, e); err != nil {
			return err
		}
	}
	c.checkFinders(d)
	c.checkCounted()
	return nil
}

func (c *checker) readOperations() (*operationsOnDisk, error) {
	d := &operationsOnDisk{
		records: map[uint64]operationRecord{}, states: map[uint64]operationState{}, tickets: map[messageID]ticket{}, marked: map[messageID]bool{},
		messages: map[messageID]entry{}, open: map[messageID]int{}, subjects: map[uint64]string{}, dedupes: map[millrace.Digest]uint64{},
		listed: map[uint64][]uid{}, endings: map[uint64][]minuteIn{},
	}
	named := func(key []byte) messageID { return messageID{keyQueue(key), lastNumber(key)} }
	readers := map[byte]func(key, value []byte) error{
		kindOperation: func(key, value []byte) (err error) {
			d.records[lastNumber(key)], err = decodeOperation(bytes.Clone(value))
			return err
		},
		kindState: func(key, value []byte) (err error) {
			d.states[lastNumber(key)], err = decodeState(bytes.Clone(value))
			return err
		},
		kindOpened: func(key, value []byte) error {
			return eachListed(key, value, func(number uint64) { d.listed[number] = append(d.listed[number], keyQueue(key)) })
		},
		kindTicket: func(key, value []byte) (err error) {
			d.tickets[named(key)], err = decodeTicket(value)
			return err
		},
		kindCancelled: func(key, _ []byte) error { d.marked[named(key)] = true; return nil },
		kindSubject: func(key, value []byte) error {
			d.subjects[lastNumber(key)] = string(key) + string(value)
			return nil
		},
		kindDedupe: func(key, value []byte) error {
			d.dedupes[millrace.Digest(key[2:])] = binary.BigEndian.Uint64(value)
			return nil
		},
		kindEnding: func(key, value []byte) error {
			return eachListed(key, value, func(number uint64) {
				d.endings[number] = append(d.endings[number], minuteIn{keyQueue(key), minuteOf(key)})
			})
		},
		kindMessage: func(key, value []byte) error {
			e, err := decodeEntry(lastNumber(key), value)
			c.noteTracked(d, keyQueue(key), e)
			return err
		},
		kindChain: func(key, value []byte) error { return c.readTrackedLine(d, key, value) },
		kindLine:  func(key, value []byte) error { return c.readTrackedLine(d, key, value) },
	}
	for kind, read := range readers {
		if err := scan(c.db, laneKey(nil, kind, c.lane.no), read); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// eachListed calls f with each operation that a record lists; it must be named by the first.
func eachListed(key, value []byte, f func(number uint64)) error {
	numbers, err := decodeRising(value)
	if err == nil && numbers[0] != lastNumber(key) {
		err = errIndex("a list of operations has the name of another")
	}
	for _, number := range numbers {
		f(number)
	}
	return err
}

func (c *checker) readTrackedLine(d *operationsOnDisk, key, value []byte) error {
	e, err := decodeLined(key, value)
	c.noteTracked(d, keyQueue(key), e.entry)
	return err
}

// noteTracked notes a message whose queue is or was tracked.
func (c *checker) noteTracked(d *operationsOnDisk, u uid, e entry) {
	q := c.lane.queues[u]
	if _, retired := c.lane.retired[u]; retired || q != nil && q.settings.Tracked {
		d.messages[messageID{u, e.seq}] = e
	}
}

// checkOperation compares an operation with its state, its message and what finds it.
func (c *checker) checkOperation(d *operationsOnDisk, number uint64, o *operationRecord) {
	s := d.states[number]
	if in := d.listed[number]; len(in) != 1 || in[0] != o.uid {
		c.add("operation %d of queue %s is listed in %v", number, o.uid, in)
	}
	delete(d.listed, number)
	subject := ""
	if o.subject != "" {
		subject = string(binary.BigEndian.AppendUint64(subjectKey(nil, c.lane.no, o.subject, number), uint64(o.uid)))
	}
	if d.subjects[number] != subject {
		c.add("operation %d is not found by its subject %q", number, o.subject)
	}
	delete(d.subjects, number)
	ends, wanted := d.endings[number], 0
	delete(d.endings, number)
	if s.ended() {
		wanted = 1
	}
	if len(ends) != wanted || s.ended() && ends[0] != (minuteIn{o.uid, s.expires / 60000}) {
		c.add("operation %d is %s, expires at %d, and is to be forgotten in %v", number, s.shown(), s.expires, ends)
	}
	if !s.ended() {
		c.checkOpen(d, number, o, &s)
	}
}

// checkOpen compares an operation that is open with its message.
func (c *checker) checkOpen(d *operationsOnDisk, number uint64, o *operationRecord, s *operationState) {
	id := messageID{o.uid, s.messageOf(number)}
	e, ok := d.messages[id]
	if !ok {
		c.add("operation %d of queue %s is open and has no message", number, o.uid)
		return
	}
	t, hasTicket := d.tickets[id]
	if hasTicket && (t.number != number || t.secret != o.secret) || !hasTicket && (id.name != number || c.lane.readyAt(e) != o.queued) {
		c.add("operation %d of queue %s: its message %d leads to another", number, o.uid, id.name)
	}
	q := c.lane.queues[o.uid]
	if q == nil {
		return
	}
	most := int64(e.attempts())
	if q.out[id.name].state == stateLeased {
		most++
	}
	if s.status != statusOpen || s.attempts > most || s.attempts < int64(e.attempts()) {
		c.add("operation %d of queue %s says %c with %d attempts, its message %d", number, o.uid, s.status, s.attempts, most)
	}
}

// checkTracked compares a message of a tracked queue with its operation.
func (c *checker) checkTracked(d *operationsOnDisk, id messageID, e entry) error {
	t, hasTicket := d.tickets[id]
	wants := 1
	if d.marked[id] {
		wants = 0
		if q := c.lane.queues[id.queue]; q != nil && q.out[id.name].state == stateLeased {
			c.add("queue %s: message %d is leased though its operation was cancelled", id.queue, id.name)
		}
	}
	retired := c.lane.queues[id.queue] == nil // those may be cancelled without a mark
	if n := d.open[id]; n != wants && (!retired || n != 0) {
		c.add("queue %s: message %d has %d open operations, in vain %t", id.queue, id.name, n, d.marked[id])
	}
	if hasTicket != (e.mark&markTicket != 0 && d.open[id] == 1) {
		c.add("queue %s: message %d has a ticket: %t, mark %x", id.queue, id.name, hasTicket, e.mark)
	}
	if hasTicket {
		delete(d.tickets, id)
		if n, ok := d.dedupes[t.dedupe]; t.deduped && (!ok || n != t.number) {
			c.add("queue %s: message %d is not found by its dedupe key", id.queue, id.name)
		} else if t.deduped {
			delete(d.dedupes, t.dedupe)
		}
		return nil
	}
	return c.checkSecret(d, id)
}

// checkSecret compares the secret in a message's body with that of the operation of its name.
func (c *checker) checkSecret(d *operationsOnDisk, id messageID) error {
	o, ok := d.records[id.name]
	if !ok || d.open[id] == 0 {
		return nil
	}
	disk := overlay{db: c.db}
	value, err := disk.get(seqKey(nil, kindBody, c.lane.no, id.name))
	if err != nil || value == nil {
		return err // a body that is missing is said elsewhere
	}
	b, err := decodeBody(value)
	if err == nil && (b.secret == nil || *b.secret != o.secret) {
		c.add("queue %s: the body of message %d has not the secret of its operation", id.queue, id.name)
	}
	return err
}

// checkFinders names what finds operations that are not there.
func (c *checker) checkFinders(d *operationsOnDisk) {
	for id := range d.tickets {
		c.add("queue %s: message %d is not there but has a ticket", id.queue, id.name)
	}
	for digest, number := range d.dedupes {
		c.add("the dedupe key %x finds the operation %d, which is not open", digest, number)
	}
	for number := range d.subjects {
		c.add("a subject finds the operation %d, which is not there", number)
	}
	for number, in := range d.endings {
		c.add("the operation %d is to be forgotten in %v but is not there", number, in)
	}
	for number, in := range d.listed {
		c.add("the operation %d is listed in %v but is not there", number, in)
	}
	for id := range d.marked {
		if _, ok := d.messages[id]; !ok {
			c.add("queue %s: message %d waits in vain but is not there", id.queue, id.name)
		}
	}
}

// checkCounted compares what memory and disk know of counts, and of what expires.
func (c *checker) checkCounted() {
	l, fresh := c.lane, c.fresh
	for u, q := range l.queues {
		if f := fresh.queues[u]; f != nil && string(q.counts.append(nil)) != string(f.counts.append(nil)) {
			c.add("queue %s: what was counted of operations differs between memory and disk", u)
		}
	}
	for u, x := range l.endings {
		if f := fresh.endings[u]; f == nil || f.due.at != x.due.at || x.due.pos < 0 {
			c.add("queue %s: its operations expire otherwise on disk", u)
		}
	}
	if len(l.endings) != len(fresh.endings) || len(l.retired) != len(fresh.retired) {
		c.add("operations expire of %d queues, on disk of %d; removed queues were tracked: %d, %d", len(l.endings), len(fresh.endings), len(l.retired), len(fresh.retired))
	}
}
