package redis

import (
	"encoding/binary"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// shortPayload is how many bytes a payload may have that lies in the operation's record.
const shortPayload = 1024

// How an operation's record tells of its payload.
const (
	noPayload   = 0
	ownPayload  = 1 // it follows
	longPayload = 2 // it lies apart
)

// openingArgs are what a script opens one operation with: a text, the payload if that is long,
// and how it is found by subject; empty for none.
func openingArgs(tenant string, o *millrace.Opening) []string {
	if o == nil {
		return []string{"", "", ""}
	}
	text, payload := openingText([]byte{0}, tenant, o)
	return []string{text, payload, bySubject(o.Subject)}
}

// reopeningArgs are the same for a message of which only the script knows the tenant.
func reopeningArgs(o *millrace.Opening) []string {
	text, payload := openingText(nil, "", o)
	return []string{text[2:], payload, bySubject(o.Subject)}
}

// bySubject is how the operations of a subject are found; empty for none.
func bySubject(subject string) string {
	if subject == "" {
		return ""
	}
	return "s" + subject
}

// openingText is what an operation's record holds: a zero byte, the tenant, the secret, then uid,
// queue, subject, type and event, each with its length, and the payload; that is apart if it is long.
func openingText(text []byte, tenant string, o *millrace.Opening) (packed, payload string) {
	text = append(appendText(text, tenant), o.Secret[:]...)
	for _, s := range []string{o.Queue, o.Name, o.Subject, o.Type, o.Event} {
		text = appendText(text, s)
	}
	switch {
	case o.Payload == nil:
		return rueidis.BinaryString(append(text, noPayload)), ""
	case len(o.Payload) <= shortPayload:
		return rueidis.BinaryString(append(append(text, ownPayload), o.Payload...)), ""
	}
	return rueidis.BinaryString(append(text, longPayload)), rueidis.BinaryString(o.Payload)
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

func openingBytes(list []millrace.Opening) int {
	n := 0
	for i := range list {
		n += len(list[i].Payload)
	}
	return n
}

// packed reads what a script packed, from the front. Reading past the end leaves it broken.
type packed struct {
	rest   string
	broken bool
}

func (p *packed) take(n int) string {
	if n > len(p.rest) {
		p.broken, p.rest = true, ""
		return ""
	}
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

func (p *packed) byte() byte {
	if s := p.take(1); s != "" {
		return s[0]
	}
	return 0
}

func (p *packed) double() uint64 {
	if s := p.take(8); s != "" {
		return number(s)
	}
	return 0
}

func (p *packed) small() int {
	if s := p.take(4); s != "" {
		return int(binary.LittleEndian.Uint32([]byte(s)))
	}
	return 0
}

func (p *packed) text() string {
	s := p.take(2)
	if s == "" {
		return ""
	}
	return p.take(int(binary.LittleEndian.Uint16([]byte(s))))
}

// storedOperation is an operation as a script shows it: number, record, end, lease, note, payload.
type storedOperation struct{ number, record, ended, lease, note, payload string }

const shownSize = 6 // texts of each

func readOperations(list []rueidis.RedisMessage, lanes int) ([]millrace.StoredOperation, error) {
	var all []millrace.StoredOperation
	for t := texts(list); len(t) >= shownSize; t = t[shownSize:] {
		o, err := storedOperation{t[0], t[1], t[2], t[3], t[4], t[5]}.read(lanes)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func (s storedOperation) read(lanes int) (millrace.StoredOperation, error) {
	var o millrace.StoredOperation
	id, err := strconv.ParseUint(s.number, 10, 64)
	o.ID.Number = id
	good := err == nil && s.readRecord(&o, lanes)
	switch {
	case s.ended != "":
		good = good && readEnd(&o.Operation, s.ended)
	default:
		good = good && s.readOpen(&o.Operation)
	}
	if !good {
		return o, millrace.Errorf(millrace.CodeInternal, "the store holds an operation that cannot be read")
	}
	return o, nil
}

// readRecord reads what an operation was opened with.
func (s storedOperation) readRecord(o *millrace.StoredOperation, lanes int) bool {
	p := packed{rest: s.record}
	o.QueuedAt, o.Message = timeOf(o.ID.Number, lanes), o.ID.Number
	if p.byte() == stampedBody {
		o.QueuedAt = moment(int64(p.double()))
		p.double() // from when it could run
		o.Message = p.double()
		p.byte()
	}
	o.Tenant = p.text()
	copy(o.ID.Secret[:], p.take(len(o.ID.Secret)))
	o.UID, o.Queue, o.Subject, o.Type, o.Event = p.text(), p.text(), p.text(), p.text(), p.text()
	switch p.byte() {
	case ownPayload:
		o.Payload = []byte(p.rest)
	case longPayload:
		o.Payload = []byte(s.payload)
	}
	return !p.broken
}

// readOpen reads where an operation stands that has not finished: leased is attempt and start.
func (s storedOperation) readOpen(o *millrace.Operation) bool {
	n, good := readNote(s.note)
	o.Status, o.Attempts, o.Error, o.CancelRequested = millrace.OperationQueued, n.attempts, n.err, n.wish
	started := n.started
	if s.lease != "" {
		p := packed{rest: s.lease}
		o.Status, o.Attempts, started = millrace.OperationRunning, p.small(), p.double()
		good = good && !p.broken
	}
	if started > 0 {
		o.StartedAt = moment(int64(started))
	}
	if n.told > 0 && n.told == o.Attempts {
		o.Progress = &n.progress
	}
	return good
}

// note is what few messages of a tracked queue have: how earlier attempts of their operation went,
// its progress, what must not be open twice, whether it is to be cancelled or was.
type note struct {
	wish, gone     bool
	number         uint64 // of the operation, if that is not the message's name
	attempts, told int    // told: by which attempt the progress was
	started        uint64
	progress       millrace.Progress
	digest, err    string
}

// noteFlags are the first byte of a note.
const (
	noteWish = 1
	noteGone = 2
)

func readNote(s string) (n note, ok bool) {
	if s == "" {
		return n, true
	}
	p := packed{rest: s}
	flags := p.byte()
	n.wish, n.gone = flags == noteWish, flags == noteGone
	n.number, n.attempts, n.started, n.told = p.double(), p.small(), p.double(), p.small()
	n.progress.Percent, n.progress.Note = int(p.byte()), p.text()
	n.digest, n.err = p.text(), p.text()
	return n, !p.broken
}

// endFlags are the second byte of an end.
const (
	endWish = 1
	endTold = 2 // progress
)

// readEnd reads how an operation ended.
func readEnd(o *millrace.Operation, s string) bool {
	p := packed{rest: s}
	o.Status = statusOf(p.byte())
	flags := p.byte()
	o.Attempts = p.small()
	if started := p.double(); started > 0 {
		o.StartedAt = moment(int64(started))
	}
	o.FinishedAt, o.ExpiresAt = moment(int64(p.double())), moment(int64(p.double()))
	told := millrace.Progress{Percent: int(p.byte()), Note: p.text()}
	if flags&endTold != 0 {
		o.Progress = &told
	}
	o.CancelRequested, o.Error = flags&endWish != 0, p.text()
	if p.rest != "" {
		o.Output = []byte(p.rest)
	}
	return !p.broken && o.Status != ""
}

// statusOf is the status that a script tells by its first letter.
func statusOf(letter byte) millrace.OperationStatus {
	for _, s := range []millrace.OperationStatus{
		millrace.OperationQueued, millrace.OperationRunning, millrace.OperationSuccess, millrace.OperationError, millrace.OperationCancelled,
	} {
		if s[0] == letter {
			return s
		}
	}
	return ""
}
