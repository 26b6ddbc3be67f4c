package redis

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// What stands before an event's bytes: prev and recorded, as doubles; of an injected
// event, whose prev is stored as -prev-1, also its seq.
const (
	bodyPrefix     = 16
	injectedPrefix = 24
)

// body is a stored event with its stamps.
type body struct {
	name, seq, prev uint64
	recordedAt      time.Time
	event           []byte
}

func readBody(name, text string) (body, error) {
	n, err := strconv.ParseUint(name, 10, 64)
	if err != nil || len(text) < bodyPrefix {
		return body{}, millrace.Errorf(millrace.CodeInternal, "the store holds a message that cannot be read")
	}
	prev := math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[:8])))
	b := body{name: n, seq: n, prev: uint64(max(prev, 0)), recordedAt: moment(int64(number(text[8:bodyPrefix])))}
	if prev >= 0 {
		b.event = []byte(text[bodyPrefix:])
		return b, nil
	}
	if len(text) < injectedPrefix {
		return body{}, millrace.Errorf(millrace.CodeInternal, "the store holds an injected message that cannot be read")
	}
	b.prev, b.seq = uint64(-prev-1), number(text[bodyPrefix:injectedPrefix])
	b.event = []byte(text[injectedPrefix:])
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
