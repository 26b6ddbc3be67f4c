package embedded

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace"
)

// meta is what a lane remembers of itself.
type meta struct {
	n          int64  // the hybrid clock of seq
	t          int64  // the last now, in milliseconds
	offset     int64  // by which the lane's clock runs ahead of the machine's
	version    uint64 // of the registry
	published  int64
	duplicates int64
	unrouted   int64
	dropped    int64
	digests    generation
	lasts      generation
	leases     int64 // number of the last lease record
}

// generation counts the generations of what is remembered for a time.
type generation struct {
	no    uint32 // of the one being written; the one before is read too
	until int64  // when the next one begins, in milliseconds; 0 before the first
}

func (m *meta) fields() []*int64 {
	return []*int64{&m.n, &m.t, &m.offset, &m.published, &m.duplicates, &m.unrouted, &m.dropped, &m.digests.until, &m.lasts.until, &m.leases}
}

func (m *meta) append(b []byte) []byte {
	for _, f := range m.fields() {
		b = binary.AppendVarint(b, *f)
	}
	b = binary.AppendUvarint(b, m.version)
	b = binary.AppendUvarint(b, uint64(m.digests.no))
	return binary.AppendUvarint(b, uint64(m.lasts.no))
}

func (m *meta) decode(b []byte) error {
	r := reader{rest: b}
	for _, f := range m.fields() {
		*f = r.varint()
	}
	m.version = r.uvarint()
	m.digests.no, m.lasts.no = uint32(r.uvarint()), uint32(r.uvarint())
	return r.err("a lane's record")
}

// stamp is the first answer to an id that was given.
type stamp struct {
	seq, prev uint64
	sinks     uint32
	due       int64 // of a delayed event, which has nothing else
}

// answer is the stamp as it is given.
func (s stamp) answer(duplicate bool) millrace.Stamp {
	if s.due != 0 {
		return millrace.Stamp{DueAt: milli(s.due), Duplicate: duplicate}
	}
	return millrace.Stamp{Seq: s.seq, Prev: s.prev, Sinks: int(s.sinks), Duplicate: duplicate}
}

func (s stamp) append(b []byte) []byte {
	b = binary.AppendUvarint(b, s.seq)
	b = binary.AppendUvarint(b, s.prev)
	b = binary.AppendUvarint(b, uint64(s.sinks))
	return binary.AppendVarint(b, s.due)
}

func decodeStamp(b []byte) (stamp, error) {
	r := reader{rest: b}
	s := stamp{seq: r.uvarint(), prev: r.uvarint(), sinks: uint32(r.uvarint()), due: r.varint()}
	return s, r.err("a remembered id")
}

// entry is a message that waits: what the index keeps of it.
type entry struct {
	seq  uint64 // of the lane: the message's name, and the event's own seq unless it was injected
	size uint32 // of the body
	mark uint32 // attempts so far, whether other queues hold the body too, and of a tracked queue what its operation is known by
}

// The parts of a mark. That of a message has grown by one attempt with +2.
const (
	markShared   = 1 // other queues hold the body too
	markAttempts = 1<<22 - 1
	driftShift   = 23 // by how many milliseconds its name runs ahead of when it was published
	maxDrift     = 1<<8 - 1
	markTicket   = 1 << 31 // it has a ticket
)

func newMark(attempts int, shared bool) uint32 {
	m := uint32(attempts) << 1
	if shared {
		m |= 1
	}
	return m
}

func (e entry) attempts() int { return attemptsOf(e.mark) }
func (e entry) shared() bool  { return e.mark&markShared != 0 }

func attemptsOf(mark uint32) int { return int(mark >> 1 & markAttempts) }

// tried is the mark after one more attempt; past four million they are not counted.
func tried(mark uint32) uint32 {
	if attemptsOf(mark) == markAttempts {
		return mark
	}
	return mark + 2
}

// append appends the value of the message's record.
func (e entry) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(e.mark)), uint64(e.size))
}

// appendFloor appends, to the record of a message that was leased before, the
// number of the last lease that does not hold it any more.
func appendFloor(b []byte, floor uint64) []byte {
	if floor == 0 {
		return b
	}
	return binary.AppendUvarint(b, floor)
}

// floor reads what appendFloor wrote, if it did.
func (r *reader) floor() uint64 {
	if len(r.rest) == 0 {
		return 0
	}
	return r.uvarint()
}

func decodeEntry(seq uint64, b []byte) (entry, error) {
	e, _, err := decodeFloor(seq, b)
	return e, err
}

// decodeFloor reads a message and the last lease that does not hold it any more.
func decodeFloor(seq uint64, b []byte) (entry, uint64, error) {
	r := reader{rest: b}
	e := entry{seq: seq, mark: uint32(r.uvarint()), size: uint32(r.uvarint())}
	return e, r.floor(), r.err("a message")
}

// body is an event as it is stored.
type body struct {
	seq      uint64 // of an injected event; 0 if it is the message's name
	prev     uint64
	recorded int64
	blob     []byte
	secret   *millrace.OperationSecret // of the operation that has the message's name
}

// secretFollows, which is no event's seq, says that a secret comes before it.
const secretFollows = 1

// seqOf is the event's own seq, in a message of that name.
func (y body) seqOf(name uint64) uint64 {
	if y.seq != 0 {
		return y.seq
	}
	return name
}

func (y body) append(b []byte) []byte {
	if y.secret != nil {
		b = append(binary.AppendUvarint(b, secretFollows), y.secret[:]...)
	}
	b = binary.AppendUvarint(b, y.seq)
	b = binary.AppendUvarint(b, y.prev)
	b = binary.AppendVarint(b, y.recorded)
	return append(b, y.blob...)
}

func decodeBody(b []byte) (body, error) {
	r := reader{rest: b}
	y := body{seq: r.uvarint()}
	if y.seq == secretFollows {
		y.secret = &millrace.OperationSecret{}
		copy(y.secret[:], r.take(len(y.secret)))
		y.seq = r.uvarint()
	}
	y.prev, y.recorded = r.uvarint(), r.varint()
	y.blob = r.rest
	return y, r.err("a body")
}

// leaseRecord is one lease call, or one extension, as it is stored. A message
// that it names is leased under it if the message's own record does not say that
// this lease is over, and no later lease names it.
type leaseRecord struct {
	deadline int64
	token    millrace.Token
	consumer string
	names    []uint64
	started  int64 // of a tracked queue: when the messages were leased
}

func (l *leaseRecord) append(b []byte) []byte {
	b = binary.AppendVarint(b, l.deadline)
	b = append(b, l.token[:]...)
	b = appendText(b, l.consumer)
	b = binary.AppendUvarint(b, uint64(len(l.names)))
	for _, name := range l.names {
		b = binary.AppendUvarint(b, name)
	}
	if l.started != 0 {
		b = binary.AppendVarint(b, l.started)
	}
	return b
}

func decodeLease(b []byte) (leaseRecord, error) {
	r := reader{rest: b}
	l := leaseRecord{deadline: r.varint()}
	copy(l.token[:], r.take(len(l.token)))
	l.consumer = r.text()
	n := r.uvarint()
	for ; n > 0 && !r.bad; n-- {
		l.names = append(l.names, r.uvarint())
	}
	if len(r.rest) > 0 {
		l.started = r.varint()
	}
	return l, r.err("a lease")
}

// delayedRecord is a message that waits for its time.
type delayedRecord struct {
	due    int64
	tenant string
}

func (d delayedRecord) append(b []byte) []byte {
	return appendText(binary.AppendVarint(b, d.due), d.tenant)
}

func decodeDelayed(b []byte) (delayedRecord, error) {
	r := reader{rest: b}
	d := delayedRecord{due: r.varint(), tenant: r.text()}
	return d, r.err("a delayed message")
}

// The reasons of a dead letter.
const (
	deadAttempts = 'a' // its attempts were spent
	deadBuried   = 'b' // a consumer said so
)

// deadRecord is a dead letter.
type deadRecord struct {
	tenant string
	key    uint64 // of an ordered queue's message that has one
	mark   uint32
	size   uint32
	reason byte
	at     int64
	due    int64 // when its retention ends; 0 for never
	err    string
}

func (d *deadRecord) append(b []byte) []byte {
	b = appendText(b, d.tenant)
	b = binary.AppendUvarint(b, d.key)
	b = binary.AppendUvarint(b, uint64(d.mark))
	b = binary.AppendUvarint(b, uint64(d.size))
	b = append(b, d.reason)
	b = binary.AppendVarint(b, d.at)
	b = binary.AppendVarint(b, d.due)
	return appendText(b, d.err)
}

func decodeDead(b []byte) (deadRecord, error) {
	r := reader{rest: b}
	d := deadRecord{tenant: r.text(), key: r.uvarint(), mark: uint32(r.uvarint()), size: uint32(r.uvarint())}
	if c := r.take(1); len(c) == 1 {
		d.reason = c[0]
	}
	d.at, d.due, d.err = r.varint(), r.varint(), r.text()
	return d, r.err("a dead letter")
}

func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func decodeNumbers(b []byte, what string, numbers ...*int64) error {
	r := reader{rest: b}
	for _, n := range numbers {
		*n = r.varint()
	}
	return r.err(what)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// wholeMilli is a duration in milliseconds, rounded up.
func wholeMilli(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

func milli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// reader reads a record; after the first fault it reads zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) err(what string) error {
	if r.bad {
		return fmt.Errorf("decode %s: truncated or corrupt", what)
	}
	return nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.rest, r.bad = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.rest, r.bad = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.rest, r.bad = nil, true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.rest, r.bad = nil, true
		return ""
	}
	return string(r.take(int(n)))
}
