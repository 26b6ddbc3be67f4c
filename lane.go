package millrace

import "github.com/cespare/xxhash/v2"

// MaxLanes is the greatest number of lanes a store can have.
const MaxLanes = 64

// SeqEpoch is the millisecond, since 1970, at which the hybrid clock of seq
// counts from: the start of 2025.
const SeqEpoch = 1735689600000

// SeqPerMilli is how many numbers the hybrid clock has for each millisecond.
const SeqPerMilli = 128

// Hash is the one hash that places an event: XXH64, seed 0, over the tenant, a
// zero byte, and the key (or, without a key, the id).
func Hash(tenant, key string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(tenant)
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(key)
	return d.Sum64()
}

// LaneOf is the lane of a hash in a store with the given number of lanes.
func LaneOf(hash uint64, lanes int) int { return int(hash % uint64(lanes)) }

// LaneOfSeq is the lane that stamped seq.
func LaneOfSeq(seq uint64, lanes int) int { return int(seq % uint64(lanes)) }

// MinuteOfSeq is the minute, since 1970, at which the hybrid clock stamped seq.
// It runs ahead of the recorded time only while a lane takes more than
// SeqPerMilli events in a millisecond.
func MinuteOfSeq(seq uint64, lanes int) int64 {
	return (int64(seq/uint64(lanes)/SeqPerMilli) + SeqEpoch) / 60000
}

// ValidLanes reports whether a store may have n lanes: a power of two up to MaxLanes.
func ValidLanes(n int) bool { return n >= 1 && n <= MaxLanes && n&(n-1) == 0 }
