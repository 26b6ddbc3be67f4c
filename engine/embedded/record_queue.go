package embedded

import (
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/millrace-dev/millrace"
)

// appendSettings appends the settings of a queue as they are stored: durations
// in milliseconds, switches as 0 or 1.
func appendSettings(b []byte, s *millrace.QueueSettings) []byte {
	b = appendNumbers(b, int64(s.Version), int64(s.MaxAttempts), number(s.Block), wholeMilli(s.BlockDelay),
		number(s.Ordered), number(s.Paused), int64(s.TenantLimit), int64(s.MaxLength), number(s.DropOldest), wholeMilli(s.DeadRetention))
	if s.Tracked {
		b = appendNumbers(b, wholeMilli(s.Retention), wholeMilli(s.ErrorRetention))
	}
	return b
}

func decodeSettings(b []byte) (millrace.QueueSettings, error) {
	var version, attempts, block, delay, ordered, paused, limit, length, drop, retention int64
	r := reader{rest: b}
	for _, n := range [...]*int64{&version, &attempts, &block, &delay, &ordered, &paused, &limit, &length, &drop, &retention} {
		*n = r.varint()
	}
	s := millrace.QueueSettings{
		Version: uint64(version), MaxAttempts: int(attempts), Block: block != 0, BlockDelay: time.Duration(delay) * time.Millisecond,
		Ordered: ordered != 0, Paused: paused != 0, TenantLimit: int(limit), MaxLength: int(length), DropOldest: drop != 0,
		DeadRetention: time.Duration(retention) * time.Millisecond,
	}
	if s.Tracked = len(r.rest) > 0; s.Tracked {
		s.Retention = time.Duration(r.varint()) * time.Millisecond
		s.ErrorRetention = time.Duration(r.varint()) * time.Millisecond
	}
	return s, r.err("a queue's settings")
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// whole rounds a duration up to milliseconds.
func whole(d time.Duration) time.Duration { return time.Duration(wholeMilli(d)) * time.Millisecond }

// place is where a message of an ordered queue lies: its key, by a hash, and
// its position. Keys of one tenant with one hash share a line.
type place struct {
	key uint64
	pos uint64
	cut bool // it has cut in: the position is one of the key's own; else one of the tenant's chains
}

// hashKey is the key of a line, never 0.
func hashKey(key string) uint64 { return max(1, xxhash.Sum64String(key)) }

// chainedAfter is the position in a chain of the message after the one of a
// name, or, if there is no such one, of the first, by its own name. So each
// message of a chain is found from the one before it, and messages lie in about
// the order they came in, which is several times cheaper to write than by their keys.
func chainedAfter(name, own uint64) uint64 {
	if name == 0 {
		return own << 1
	}
	return name<<1 | 1
}

// lined is a message in a line, as it is stored under its place.
type lined struct {
	entry
	place
	floor uint64 // the last lease that does not hold it any more
}

func (e *lined) append(b []byte) []byte {
	if e.cut {
		b = binary.AppendUvarint(b, e.seq)
	} else {
		b = binary.AppendUvarint(b, e.seq-e.pos>>1)
		b = binary.BigEndian.AppendUint64(b, e.key)
	}
	return appendFloor(e.entry.append(b), e.floor)
}

// decodeLined decodes a message in a line from its record.
func decodeLined(key, value []byte) (lined, error) {
	r := reader{rest: value}
	var e lined
	e.seq = r.uvarint()
	e.pos, e.cut = lastNumber(key), key[0] == kindLine
	if e.cut {
		e.key = binary.BigEndian.Uint64(key[len(key)-16:])
	} else {
		e.seq += e.pos >> 1
		if hash := r.take(8); len(hash) == 8 {
			e.key = binary.BigEndian.Uint64(hash)
		}
	}
	e.mark, e.size = uint32(r.uvarint()), uint32(r.uvarint())
	e.floor = r.floor()
	return e, r.err("a message in a line")
}

// heldRecord is a delayed event without its body.
type heldRecord struct {
	due, next  int64 // when it is due, and when it is handed out next
	size       uint32
	remembered bool
	digest     millrace.Digest
	tenant, id string
}

func (h *heldRecord) append(b []byte) []byte {
	b = appendNumbers(b, h.due, h.next, int64(h.size), number(h.remembered))
	b = append(b, h.digest[:]...)
	return appendText(appendText(b, h.tenant), h.id)
}

func decodeHeld(b []byte) (heldRecord, error) {
	r := reader{rest: b}
	h := heldRecord{due: r.varint(), next: r.varint(), size: uint32(r.varint()), remembered: r.varint() != 0}
	copy(h.digest[:], r.take(len(h.digest)))
	h.tenant, h.id = r.text(), r.text()
	return h, r.err("a delayed event")
}
