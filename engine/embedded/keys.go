package embedded

import (
	"encoding/binary"

	"github.com/millrace-dev/millrace"
)

// A key is its kind, the lane's number, then what names the record within its
// kind; numbers are big-endian, so that keys sort as their parts do.
const (
	kindIdentity     = 'I' //                                    store id, format, lanes, namespace
	kindVersion      = 'V' //                                    version of the registry, floor of its history
	kindDefinition   = 'R' // kind \0 name                       definition
	kindDeleted      = 'D' // version                            deleted definition
	kindMeta         = 'M' // lane                               clocks, version, counters
	kindSettings     = 's' // lane uid                           settings of a queue
	kindCounters     = 'c' // lane uid                           counters of a queue
	kindRemoved      = 'w' // lane uid                           a removed sink; whether its data waits for the sweep
	kindTopic        = 't' // lane topic                         events, last
	kindMessage      = 'm' // lane uid tenant \0 seq             mark, size; while waiting, leased or delayed
	kindLease        = 'l' // lane uid number                    deadline, token, (tenant, seq, attempt)...
	kindDelayed      = 'z' // lane uid seq                       due, tenant
	kindDead         = 'x' // lane uid seq                       why, when, attempts
	kindDeadOf       = 'f' // lane uid tenant \0 seq             a dead letter of a tenant
	kindDeadDue      = 'a' // lane uid due seq                   a dead letter whose retention ends
	kindChain        = 'o' // lane uid tenant \0 position        name, key, mark, size; as a message, of an ordered queue's key
	kindLine         = 'y' // lane uid tenant \0 key position    name, mark, size; likewise, of one that has cut in
	kindTenant       = 'p' // lane uid tenant                    weight and limit
	kindHeld         = 'h' // lane name                          due, id and digest of a delayed event
	kindHeldBody     = 'H' // lane name                          a delayed event, whole
	kindHeldID       = 'i' // lane tenant \0 id \0 name          a delayed event by its id
	kindSubscription = 'S' // lane uid                         settings of a subscription
	kindSubState     = 'C' // lane uid                           its counters, and how it backs off
	kindBatch        = 'b' // lane uid name                      header of a batch
	kindMember       = 'n' // lane uid name chunk                some events of a batch: names, sizes
	kindBatchError   = 'u' // lane uid name                      why the last attempt of a batch failed
	kindAttempt      = 'j' // lane uid number                    what is logged of an attempt
	kindBody         = 'e' // lane seq                           prev, recorded, event
	kindHolders      = 'r' // lane seq                           how many sinks hold the body, if more than one
	kindDigest       = 'd' // lane generation digest             first stamp of an id that was given
	kindLast         = 'k' // lane generation tenant \0 key      last seq of a key
	kindOperation    = 'O' // lane number                        what an operation begins with
	kindState        = 'P' // lane number                        what has become of it, if anything has
	kindOpened       = 'Q' // lane uid number                    operations of a queue that began together, by the first of them
	kindSubject      = 'B' // lane hash number                   uid; an operation by its subject
	kindTicket       = 'T' // lane uid name                      a message's operation, if its name does not say it
	kindCancelled    = 'X' // lane uid name                      a message that waits in vain
	kindDedupe       = 'U' // lane digest                        number of the open operation that must be the only one
	kindEnding       = 'E' // lane uid minute number             operations that are forgotten when the minute is over, by the first of them
	kindTally        = 'N' // lane uid                           what was counted of operations, in all and in the last minute
	kindCount        = 'G' // lane uid length start              what was counted in a minute, an hour, a day
	kindFired        = 'F' // lane uid                           how often a trigger fired
)

// uid is a sink's uid as its 16 hex digits say it.
type uid uint64

func parseUID(s string) (uid, bool) {
	if len(s) != 16 {
		return 0, false
	}
	var u uid
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			u = u<<4 | uid(c-'0')
		case 'a' <= c && c <= 'f':
			u = u<<4 | uid(c-'a'+10)
		default:
			return 0, false
		}
	}
	return u, true
}

func (u uid) String() string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[u>>(60-4*i)&15]
	}
	return string(b[:])
}

func laneKey(b []byte, kind byte, lane int) []byte { return append(b, kind, byte(lane)) }

func queueKey(b []byte, kind byte, lane int, q uid) []byte {
	return binary.BigEndian.AppendUint64(laneKey(b, kind, lane), uint64(q))
}

// queueSeqKey names a lease (by its number), a delayed or a dead message, a
// batch, its error, or an attempt.
func queueSeqKey(b []byte, kind byte, lane int, q uid, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(queueKey(b, kind, lane, q), seq)
}

// memberKey names a chunk of the events of a batch.
func memberKey(b []byte, lane int, s uid, name uint64, chunk int32) []byte {
	return binary.BigEndian.AppendUint32(queueSeqKey(b, kindMember, lane, s, name), uint32(chunk))
}

// memberBatch is the batch in the key of a chunk.
func memberBatch(key []byte) uint64 { return binary.BigEndian.Uint64(key[10:18]) }

func seqKey(b []byte, kind byte, lane int, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(laneKey(b, kind, lane), seq)
}

func facetKey(b []byte, lane int, q uid, tenant string) []byte {
	return tenantKey(b, kindMessage, lane, q, tenant)
}

// placeKey names a message of an ordered queue by its place.
func placeKey(b []byte, lane int, q uid, tenant string, p place) []byte {
	if p.cut {
		b = lineOf(b, lane, q, tenant, p.key)
	} else {
		b = tenantKey(b, kindChain, lane, q, tenant)
	}
	return binary.BigEndian.AppendUint64(b, p.pos)
}

// lineOf is what the keys of those begin with that have cut into a line.
func lineOf(b []byte, lane int, q uid, tenant string, key uint64) []byte {
	return binary.BigEndian.AppendUint64(tenantKey(b, kindLine, lane, q, tenant), key)
}

// tenantKey is what the keys of a tenant's records of a kind begin with.
func tenantKey(b []byte, kind byte, lane int, q uid, tenant string) []byte {
	b = append(queueKey(b, kind, lane, q), tenant...)
	return append(b, 0)
}

func deadOfKey(b []byte, lane int, q uid, tenant string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(tenantKey(b, kindDeadOf, lane, q, tenant), seq)
}

func deadDueKey(b []byte, lane int, q uid, due int64, seq uint64) []byte {
	b = binary.BigEndian.AppendUint64(queueKey(b, kindDeadDue, lane, q), uint64(due))
	return binary.BigEndian.AppendUint64(b, seq)
}

func settingsKey(b []byte, lane int, q uid, tenant string) []byte {
	return append(queueKey(b, kindTenant, lane, q), tenant...)
}

// heldIDs is what the keys of the delayed events with an id begin with.
func heldIDs(b []byte, lane int, tenant, id string) []byte {
	b = append(laneKey(b, kindHeldID, lane), tenant...)
	b = append(append(b, 0), id...)
	return append(b, 0)
}

func heldIDKey(b []byte, lane int, tenant, id string, name uint64) []byte {
	return binary.BigEndian.AppendUint64(heldIDs(b, lane, tenant, id), name)
}

func messageKey(b []byte, lane int, q uid, tenant string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(facetKey(b, lane, q, tenant), seq)
}

func generationKey(b []byte, kind byte, lane int, gen uint32) []byte {
	return binary.BigEndian.AppendUint32(laneKey(b, kind, lane), gen)
}

func digestKey(b []byte, lane int, gen uint32, d millrace.Digest) []byte {
	return append(generationKey(b, kindDigest, lane, gen), d[:]...)
}

func lastKey(b []byte, lane int, gen uint32, name string) []byte {
	return append(generationKey(b, kindLast, lane, gen), name...)
}

func topicKey(b []byte, lane int, topic string) []byte {
	return append(laneKey(b, kindTopic, lane), topic...)
}

func definitionKey(b []byte, kind millrace.Kind, name string) []byte {
	b = append(append(b, kindDefinition), kind...)
	return append(append(b, 0), name...)
}

func deletedKey(b []byte, version uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, kindDeleted), version)
}

// subjectOf is what the keys of the operations of a subject begin with.
func subjectOf(b []byte, lane int, subject string) []byte {
	return binary.BigEndian.AppendUint64(laneKey(b, kindSubject, lane), hashKey(subject))
}

func subjectKey(b []byte, lane int, subject string, number uint64) []byte {
	return binary.BigEndian.AppendUint64(subjectOf(b, lane, subject), number)
}

func dedupeKey(b []byte, lane int, d millrace.Digest) []byte {
	return append(laneKey(b, kindDedupe, lane), d[:]...)
}

// endingOf is what the keys of operations begin with that expire within a minute.
func endingOf(b []byte, lane int, q uid, minute int64) []byte {
	return binary.BigEndian.AppendUint64(queueKey(b, kindEnding, lane, q), uint64(minute))
}

func endingKey(b []byte, lane int, q uid, minute int64, number uint64) []byte {
	return binary.BigEndian.AppendUint64(endingOf(b, lane, q, minute), number)
}

// minuteOf is the minute in the key of an operation that expires.
func minuteOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[10:18])) }

// countsOf is what the keys of a queue's counts of one length begin with.
func countsOf(lane int, q uid, length millrace.CountBucket) []byte {
	return append(queueKey(nil, kindCount, lane, q), byte(length))
}

func countKey(lane int, q uid, length millrace.CountBucket, start int64) []byte {
	return binary.BigEndian.AppendUint64(countsOf(lane, q, length), uint64(start))
}

// after is the first key past all that begin with prefix.
func after(prefix []byte) []byte {
	b := append([]byte(nil), prefix...)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil
}

// splitMessageKey takes a message's key apart.
func splitMessageKey(key []byte) (q uid, tenant []byte, seq uint64, ok bool) {
	const before, least = 2 + 8, 2 + 8 + 1 + 8
	if len(key) < least || key[len(key)-9] != 0 {
		return 0, nil, 0, false
	}
	q = uid(binary.BigEndian.Uint64(key[2:before]))
	return q, key[before : len(key)-9], binary.BigEndian.Uint64(key[len(key)-8:]), true
}

// splitLineKey takes the key of an ordered queue's message apart.
func splitLineKey(key []byte) (q uid, tenant []byte, ok bool) {
	end := len(key) - 9
	if key[0] == kindLine {
		end = len(key) - 17
	}
	if end < 10 || key[end] != 0 {
		return 0, nil, false
	}
	return keyQueue(key), key[10:end], true
}

// lastNumber is the number that a key ends with.
func lastNumber(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// keyQueue is the uid in the key of a lease, a delayed or a dead message.
func keyQueue(key []byte) uid { return uid(binary.BigEndian.Uint64(key[2:10])) }
