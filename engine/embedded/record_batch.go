package embedded

import (
	"encoding/binary"
	"time"

	"github.com/millrace-dev/millrace"
)

// encodeSubscription is the settings of a subscription as they are stored:
// durations in nanoseconds, switches as 0 or 1.
func encodeSubscription(s *millrace.SubscriptionSettings) []byte {
	b := appendNumbers(nil, int64(s.Version), int64(s.Timeout), int64(s.MaxEvents), int64(s.MaxBytes), number(s.Ordered),
		int64(s.Concurrency), int64(s.Retention), number(s.Paused), number(s.Disabled))
	b = appendText(b, s.Format)
	b = binary.AppendUvarint(b, uint64(len(s.Schedule)))
	for _, wait := range s.Schedule {
		b = binary.AppendVarint(b, int64(wait))
	}
	return b
}

func decodeSubscription(b []byte) (millrace.SubscriptionSettings, error) {
	r := reader{rest: b}
	s := millrace.SubscriptionSettings{
		Version: uint64(r.varint()), Timeout: time.Duration(r.varint()), MaxEvents: int(r.varint()), MaxBytes: int(r.varint()),
		Ordered: r.varint() != 0, Concurrency: int(r.varint()), Retention: time.Duration(r.varint()),
		Paused: r.varint() != 0, Disabled: r.varint() != 0, Format: r.text(),
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		s.Schedule = append(s.Schedule, time.Duration(r.varint()))
	}
	return s, r.err("a subscription's settings")
}

// subscriptionState is what is stored of a subscription beside its settings and batches.
type subscriptionState struct {
	fails, round int64
	parked       int64 // until when; 0 if it is not
	failingSince int64
	probing      bool
	reason       string // of the last failure since the last success

	sent, failed, dropped, skipped int64
	logged                         int64 // attempts; the last ones are stored
}

func (s subscriptionState) append(b []byte) []byte {
	b = appendNumbers(b, s.fails, s.round, s.parked, s.failingSince, number(s.probing), s.sent, s.failed, s.dropped, s.skipped, s.logged)
	return appendText(b, s.reason)
}

func decodeSubState(b []byte) (subscriptionState, error) {
	r := reader{rest: b}
	s := subscriptionState{
		fails: r.varint(), round: r.varint(), parked: r.varint(), failingSince: r.varint(), probing: r.varint() != 0,
		sent: r.varint(), failed: r.varint(), dropped: r.varint(), skipped: r.varint(), logged: r.varint(), reason: r.text(),
	}
	return s, r.err("a subscription's state")
}

// batchRecord is a batch as it is stored, without its members.
type batchRecord struct {
	batchHeader
	state   batchState
	due     int64
	sending *sending // pending
}

func (h batchRecord) append(b []byte) []byte {
	b = append(b, byte(h.state))
	b = appendNumbers(b, h.due, int64(h.count), int64(h.bytes), int64(h.chunks), int64(h.attempts), h.created, number(h.failed))
	b = appendText(b, h.format)
	if h.state != batchPending {
		return b
	}
	return appendText(append(b, h.sending.token[:]...), h.sending.node)
}

func decodeBatch(b []byte) (batchRecord, error) {
	r := reader{rest: b}
	var h batchRecord
	if c := r.take(1); len(c) == 1 {
		h.state = batchState(c[0])
	}
	h.due, h.count, h.bytes, h.chunks = r.varint(), int32(r.varint()), int32(r.varint()), int32(r.varint())
	h.attempts, h.created, h.failed, h.format = int32(r.varint()), r.varint(), r.varint() != 0, r.text()
	if h.state == batchPending {
		h.sending = &sending{}
		copy(h.sending.token[:], r.take(len(h.sending.token)))
		h.sending.node = r.text()
	}
	r.bad = r.bad || h.state < batchEarly || h.state > batchDead
	return h, r.err("a batch")
}

// appendMembers appends events of a batch: by how much each name is above the
// one before, from the batch's own on, then its size and whether others hold it.
func appendMembers(b []byte, name uint64, list []entry) []byte {
	for _, e := range list {
		b = binary.AppendUvarint(b, e.seq-name)
		b = binary.AppendUvarint(b, uint64(e.size)<<1|uint64(e.mark&1))
		name = e.seq
	}
	return b
}

// decodeMembers appends the events of one chunk to a list.
func decodeMembers(list []entry, name uint64, b []byte) ([]entry, error) {
	r := reader{rest: b}
	for len(r.rest) > 0 {
		name += r.uvarint()
		size := r.uvarint()
		list = append(list, entry{seq: name, size: uint32(size >> 1), mark: uint32(size & 1)})
	}
	return list, r.err("the events of a batch")
}
