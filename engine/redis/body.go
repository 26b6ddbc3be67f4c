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

	stampedPrefix  = 1 + 16 + 1
	injectedPrefix = 1 + 24
)

// body is a stored event with its stamps.
type body struct {
	name, seq, prev uint64
	recordedAt      time.Time
	event           []byte
}

// storedBody is an event as a script takes it.
func storedBody(event []byte) string {
	b := make([]byte, 1+len(event))
	b[0] = plainBody
	copy(b[1:], event)
	return rueidis.BinaryString(b)
}

func (e *Engine) readBody(name, text string) (body, error) {
	n, err := strconv.ParseUint(name, 10, 64)
	if err != nil || text == "" {
		return body{}, millrace.Errorf(millrace.CodeInternal, "the store holds a message that cannot be read")
	}
	b := body{name: n, seq: n}
	switch {
	case text[0] == plainBody:
		b.recordedAt = moment(int64(n/uint64(len(e.own))/millrace.SeqPerMilli) + millrace.SeqEpoch)
		b.event = []byte(text[1:])
	case text[0] == stampedBody && len(text) >= stampedPrefix:
		b.prev, b.recordedAt = number(text[1:9]), moment(int64(number(text[9:17])))
		b.event = []byte(text[stampedPrefix:])
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
