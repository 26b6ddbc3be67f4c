package redis

import (
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// How a body is stored, told by its first byte. Most events follow no other of their key
// and were stamped in the millisecond that their seq tells: they are stored as they
// came to the script, for whatever it builds anew costs it as much as the rest.
const (
	plainBody    = 0 // the event
	stampedBody  = 1 // prev and recorded, as doubles; what a plain body is
	injectedBody = 2 // prev, recorded and seq, as doubles; the event
	trackedBody  = 3 // the secret of the event's first operation; the event: where a plain body may be

	stampedPrefix  = 1 + 16
	injectedPrefix = 1 + 24
	trackedPrefix  = 1 + len(millrace.OperationSecret{})
)

// body is a stored event with its stamps.
type body struct {
	name, seq, prev uint64
	recordedAt      time.Time
	event           []byte
	secret          millrace.OperationSecret // of the event's first operation, if it was published with one
	tracked         bool
}

// storedBody is an event as a script takes it.
func storedBody(event []byte) string {
	b := make([]byte, 1+len(event))
	b[0] = plainBody
	copy(b[1:], event)
	return rueidis.BinaryString(b)
}

// storedTracked is an event that is published with an operation, as a script takes it: whoever
// leases it learns the secret without reading the operation.
func storedTracked(event []byte, o *millrace.Opening) string {
	b := make([]byte, 0, trackedPrefix+len(event))
	b = append(append(append(b, trackedBody), o.Secret[:]...), event...)
	return rueidis.BinaryString(b)
}

func (e *Engine) readBody(name, text string) (body, error) {
	n, err := strconv.ParseUint(name, 10, 64)
	if err != nil || text == "" {
		return body{}, millrace.Errorf(millrace.CodeInternal, "the store holds a message that cannot be read")
	}
	b := body{name: n, seq: n, recordedAt: timeOf(n, len(e.own))}
	if text[0] == stampedBody && len(text) > stampedPrefix {
		b.prev, b.recordedAt = number(text[1:9]), moment(int64(number(text[9:17])))
		text = text[stampedPrefix:]
	}
	switch {
	case text[0] == plainBody:
		b.event = []byte(text[1:])
	case text[0] == trackedBody && len(text) >= trackedPrefix:
		b.tracked = true
		copy(b.secret[:], text[1:])
		b.event = []byte(text[trackedPrefix:])
	case text[0] == injectedBody && len(text) >= injectedPrefix:
		b.prev, b.recordedAt, b.seq = number(text[1:9]), moment(int64(number(text[9:17]))), number(text[17:25])
		b.event = []byte(text[injectedPrefix:])
	default:
		return body{}, millrace.Errorf(millrace.CodeInternal, "the store holds a body that cannot be read")
	}
	return b, nil
}

// heldEvents reads name, due time and body of each event.
func heldEvents(list []rueidis.RedisMessage) ([]millrace.HeldEvent, error) {
	var events []millrace.HeldEvent
	for ; len(list) >= 3; list = list[3:] {
		name, err := strconv.ParseUint(textOf(list[0]), 10, 64)
		due, err2 := strconv.ParseInt(textOf(list[1]), 10, 64)
		if err != nil || err2 != nil {
			return nil, millrace.Errorf(millrace.CodeInternal, "the store holds a delayed event that cannot be read")
		}
		events = append(events, millrace.HeldEvent{Name: name, DueAt: moment(due), Body: []byte(textOf(list[2]))})
	}
	return events, nil
}

// timeOf is when the lane's clock gave a number, unless it ran ahead.
func timeOf(number uint64, lanes int) time.Time {
	return moment(int64(number/uint64(lanes)/millrace.SeqPerMilli) + millrace.SeqEpoch)
}
