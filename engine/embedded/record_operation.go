package embedded

import (
	"encoding/binary"

	"github.com/millrace-dev/millrace"
)

// operationRecord is what an operation begins with; it never changes.
type operationRecord struct {
	uid     uid // of the queue
	secret  millrace.OperationSecret
	queued  int64
	queue   string // name
	tenant  string
	kind    string
	subject string
	event   string // id
	payload []byte
}

func (o *operationRecord) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(o.uid))
	b = append(b, o.secret[:]...)
	b = binary.AppendVarint(b, o.queued)
	for _, s := range [...]string{o.queue, o.tenant, o.kind, o.subject, o.event} {
		b = appendText(b, s)
	}
	return append(b, o.payload...)
}

func decodeOperation(b []byte) (operationRecord, error) {
	r := reader{rest: b}
	var o operationRecord
	o.uid = uid(r.number())
	copy(o.secret[:], r.take(len(o.secret)))
	o.queued = r.varint()
	for _, s := range [...]*string{&o.queue, &o.tenant, &o.kind, &o.subject, &o.event} {
		*s = r.text()
	}
	o.payload = r.rest
	return o, r.err("an operation")
}

// number reads one of eight bytes.
func (r *reader) number() uint64 {
	if b := r.take(8); len(b) == 8 {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// The statuses that the state of an operation says itself. Of one that is open the index says
// whether it runs, unless its queue was removed.
const (
	statusOpen      = 0
	statusRunning   = 'r' // it ran when its queue was removed
	statusSuccess   = 's'
	statusError     = 'e'
	statusCancelled = 'c'
)

// operationState is what has become of an operation; it is zero as long as nothing has.
type operationState struct {
	message  uint64 // name; 0 if it is the operation's number
	status   byte
	wish     bool // to cancel it
	told     bool // the attempt has told of progress
	attempts int64
	started  int64
	finished int64
	expires  int64
	percent  int64
	note     string
	err      string
	output   []byte
}

func (s *operationState) ended() bool { return s.status != statusOpen && s.status != statusRunning }

// messageOf is the name of the message of the operation with a number.
func (s *operationState) messageOf(number uint64) uint64 {
	if s.message != 0 {
		return s.message
	}
	return number
}

// What the flags of a state say.
const (
	stateWish = 1 << iota
	stateTold
	stateNamed
)

func (s *operationState) append(b []byte) []byte {
	flags := stateWish*number(s.wish) | stateTold*number(s.told) | stateNamed*number(s.message != 0)
	b = append(b, s.status, byte(flags))
	if s.message != 0 {
		b = binary.AppendUvarint(b, s.message)
	}
	b = appendNumbers(b, s.attempts, s.started, s.finished, s.expires-s.finished)
	if s.told {
		b = appendText(binary.AppendVarint(b, s.percent), s.note)
	}
	return append(appendText(b, s.err), s.output...)
}

func decodeState(b []byte) (operationState, error) {
	var s operationState
	if len(b) == 0 {
		return s, nil
	}
	r := reader{rest: b}
	flags := byte(0)
	if head := r.take(2); len(head) == 2 {
		s.status, flags = head[0], head[1]
	}
	s.wish, s.told = flags&stateWish != 0, flags&stateTold != 0
	if flags&stateNamed != 0 {
		s.message = r.uvarint()
	}
	s.attempts, s.started, s.finished = r.varint(), r.varint(), r.varint()
	s.expires = s.finished + r.varint()
	if s.told {
		s.percent, s.note = r.varint(), r.text()
	}
	s.err, s.output = r.text(), r.rest
	return s, r.err("an operation's state")
}

// ticket is what a message's operation is known by when the message's name, its body and its mark
// do not tell.
type ticket struct {
	number  uint64
	secret  millrace.OperationSecret
	ready   int64 // from when it could have been leased for the first time
	deduped bool
	dedupe  millrace.Digest
}

func (t *ticket) append(b []byte) []byte {
	b = binary.AppendUvarint(b, t.number)
	b = append(b, t.secret[:]...)
	b = binary.AppendVarint(b, t.ready)
	if t.deduped {
		b = append(b, t.dedupe[:]...)
	}
	return b
}

func decodeTicket(b []byte) (ticket, error) {
	r := reader{rest: b}
	t := ticket{number: r.uvarint()}
	copy(t.secret[:], r.take(len(t.secret)))
	t.ready = r.varint()
	if t.deduped = len(r.rest) > 0; t.deduped {
		copy(t.dedupe[:], r.take(len(t.dedupe)))
	}
	return t, r.err("a message's ticket")
}

// counted is what was counted of a queue's operations within some time.
type counted struct {
	millrace.Tally
	queued, running spans
}

func (c *counted) empty() bool {
	return c.Tally == (millrace.Tally{}) && len(c.queued) == 0 && len(c.running) == 0
}

// plus adds what was counted elsewhere.
func (c *counted) plus(o *counted) {
	c.Tally = c.Tally.Plus(o.Tally)
	c.queued.plus(o.queued)
	c.running.plus(o.running)
}

func (c *counted) append(b []byte) []byte {
	b = appendTally(b, c.Tally)
	return c.running.append(c.queued.append(b))
}

func (c *counted) read(r *reader) {
	c.Tally = r.tally()
	c.queued.read(r)
	c.running.read(r)
}

func appendTally(b []byte, t millrace.Tally) []byte {
	return appendNumbers(b, t.Success, t.Error, t.Cancelled, t.Retried)
}

func (r *reader) tally() millrace.Tally {
	return millrace.Tally{Success: r.varint(), Error: r.varint(), Cancelled: r.varint(), Retried: r.varint()}
}

// spans counts lengths of time by their classes.
type spans []int64

// maxSpan is past the highest class.
const maxSpan = 8 * 65

func (s *spans) add(class int, n int64) {
	for len(*s) <= class {
		*s = append(*s, 0)
	}
	(*s)[class] += n
}

func (s *spans) plus(o spans) {
	for class, n := range o {
		if n != 0 {
			s.add(class, n)
		}
	}
}

// answer is the classes as they are told.
func (s spans) answer() millrace.Spans {
	var out millrace.Spans
	for class, n := range s {
		if n != 0 {
			if out == nil {
				out = millrace.Spans{}
			}
			out[class] = n
		}
	}
	return out
}

// append appends the classes that have any, each as the step from the one before.
func (s spans) append(b []byte) []byte {
	classes := 0
	for _, n := range s {
		classes += int(number(n != 0))
	}
	b = binary.AppendUvarint(b, uint64(classes))
	last := 0
	for class, n := range s {
		if n != 0 {
			b = binary.AppendUvarint(b, uint64(class-last))
			b = binary.AppendVarint(b, n)
			last = class
		}
	}
	return b
}

func (s *spans) read(r *reader) {
	class := uint64(0)
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		class += r.uvarint()
		count := r.varint()
		if r.bad = r.bad || class >= maxSpan; !r.bad {
			s.add(int(class), count)
		}
	}
}

// appendRising appends numbers that rise.
func appendRising(b []byte, numbers []uint64) []byte {
	last := uint64(0)
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n-last)
		last = n
	}
	return b
}

func decodeRising(b []byte) (numbers []uint64, err error) {
	r := reader{rest: b}
	last := uint64(0)
	for len(r.rest) > 0 {
		last += r.uvarint()
		numbers = append(numbers, last)
	}
	if len(numbers) == 0 {
		r.bad = true
	}
	return numbers, r.err("a list of operations")
}

// firedRecord is how often a trigger fired.
type firedRecord struct {
	count, last  int64
	minute, many int64 // how many in the minute of the last
}

func (f *firedRecord) append(b []byte) []byte {
	return appendNumbers(b, f.count, f.last, f.minute, f.many)
}

func decodeFired(b []byte) (f firedRecord, err error) {
	if b == nil {
		return f, nil
	}
	err = decodeNumbers(b, "a trigger's firings", &f.count, &f.last, &f.minute, &f.many)
	return f, err
}
