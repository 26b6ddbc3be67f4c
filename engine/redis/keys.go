package redis

import (
	"strconv"
	"strings"

	"github.com/millrace-dev/millrace"
)

// keys names everything that a store keeps in Redis. A lane's keys and its
// channel share one hash tag, so that a script may touch all of them, also on a
// Cluster. A key is the lane's own key, a word, and for what belongs to a queue
// the queue's uid; text that users choose stands only at the end. Scripts derive
// the keys of their lane from the first one they are given.
type keys struct {
	namespace string
	lanes     int
}

// tags are hash tags whose slots are spaced evenly: the slot of the i-th is
// 256 i + 128. Masters hold ranges of slots, so lanes spread over them evenly.
var tags = [millrace.MaxLanes]int{
	40821, 5469, 3017, 2113, 574, 18834, 8518, 26368, 18617, 19713, 47996, 39599, 13318, 40602, 7842, 6946,
	3124, 2020, 40912, 41816, 46782, 15298, 447, 17090, 48132, 49036, 4093, 5197, 7971, 6875, 16559, 40731,
	712, 21474, 22778, 29899, 1079, 69524, 3271, 2375, 41560, 4928, 11376, 10272, 18471, 931, 9859, 11998,
	11688, 9749, 621, 12584, 3342, 2246, 4638, 69417, 8280, 9384, 41453, 12149, 29789, 22868, 1587, 802,
}

// lane is a lane's own key: it exists as long as the lane does.
func (k keys) lane(i int) string {
	step := millrace.MaxLanes / k.lanes
	return k.namespace + ":{" + strconv.Itoa(tags[i*step+step/2]) + "}"
}

// control is the own key of the registry and the nodes.
func (k keys) control() string { return k.namespace + ":{control}" }

// never is a key in the slot of own that never exists.
func never(own string) string { return own + "~" }

// channel is where the hints of a lane, or of the registry, are sent.
func channel(own string) string { return own + ":hint" }

// liveChannel is where nodes that watch a lane hear of its events.
func liveChannel(own string) string { return own + ":live" }

// addressChannels is what the channels begin with on which events are published
// for any client; the event's address follows.
func (k keys) addressChannels() string { return k.namespace + ":live:" }

// The keys of a lane beside its own.
const (
	bodyKey    = ":body"    // hash: name → prev, recorded, event
	holdersKey = ":holders" // hash: name → how many queues and batches hold the body, if more than one
	dueKey     = ":due"     // sorted set: what is due, by time
	topicsKey  = ":topics"  // hash: topic → count, last
	trashKey   = ":trash"   // list: uids of removed sinks that are to be swept
	wantedKey  = ":wanted"  // set: uids of queues of which a hint will tell
	removedKey = ":removed" // set: uids that were removed, for ever
	dedupeKey  = ":dedupe"  // hash, in two generations 0 and 1: digest → stamp
	lastKey    = ":key"     // hash, in two generations: tenant, NUL, key → seq
	heldKey    = ":held"    // hash: name → a delayed event: due time, alias, digest, body
	aliasKey   = ":alias:"  // sorted set: names of delayed events; tenant, NUL, id follow
	longKey    = ":long"    // hash: digest of a delayed event → stamp
	longsKey   = ":longs"   // sorted set: the same digests, by the time they are forgotten
	queueKey   = ":q:"      // hash: a queue's settings and counters; the uid follows
	subKey     = ":b:"      // hash: a subscription's settings and numbers; the uid follows
	turnsKey   = ":turns"   // list: subscriptions in the order of their turns
	batchesKey = ":batches" // sorted set: uid, !, name of batches that are not pending, by name
	firedKey   = ":fired"   // hash: a trigger's uid → how often it fired, when last, how often in that minute
)

// The keys of a lane's operations.
const (
	opKey       = ":op"    // hash: number → what the operation was opened with
	loadKey     = ":oload" // hash: number → its payload, if that is long
	endKey      = ":of"    // hash: number → how it ended
	indexKey    = ":oi"    // hash: q and a uid, or s and a subject → the newest numbers of its operations
	olderKey    = ":oi:"   // sorted set: the older ones, some in a member; the same follows
	expiringKey = ":ox:"   // list: numbers of operations that expire in one minute, some in an entry; the uid, a colon and the minute follow
	openKey     = ":od"    // hash: digest of what must not be open twice → number
	watchedKey  = ":ow"    // set: numbers whose next change somebody waits for
)

// The keys of a subscription, after its own; the dead ones are in deadKey.
const (
	batchKey   = ":batch"   // hash: name of a batch → its record
	eventsKey  = ":events:" // list: names of its events; its name follows
	earlyKey   = ":early"   // sorted set: batches that collect or wait
	readyKey   = ":ready"   // sorted set: batches to be sent
	pendingKey = ":pending" // sorted set: batches being sent
	logKey     = ":log"     // list: the last attempts, newest first
)

// The keys of a queue, after its own.
const (
	ringKey    = ":ring"    // list: tenants in the order of their turns
	handKey    = ":hand"    // hash: tenant → how many are leased, whether it is in the ring, the names it gives next
	parkedKey  = ":parked"  // sorted set: tenants with something leasable that may not be in the ring
	hollowKey  = ":hollow"  // set: tenants in the ring with nothing leasable
	tenantsKey = ":tenants" // sorted set: tenants that hold anything or have settings, by name
	tenantKey  = ":tenant"  // hash: tenant → its own weight and limit
	waitingKey = ":waiting" // hash, ordered: tenant → messages waiting
	headKey    = ":head"    // hash, ordered: tenant, NUL, key → its first message that is not settled
	headsKey   = ":heads:"  // sorted set, ordered: = and key, or a name, by the name of the head; the tenant follows
	behindKey  = ":behind:" // list, ordered: who waits behind the head; tenant, NUL, key follow
	linesKey   = ":lines:"  // set, ordered: tenant, NUL, key of all with someone behind, and more; the tenant follows
	lateKey    = ":late:"   // sorted set: delayed names; the tenant follows
	lostKey    = ":lost:"   // sorted set: names of dead letters; the tenant follows
	whoseKey   = ":whose"   // hash: lease group → consumer
	byKey      = ":by:"     // sorted set: lease groups in the order they came about; the consumer follows
	facetKey   = ":facet:"  // list: seqs that never were leased; the tenant follows
	backKey    = ":back:"   // sorted set: seqs that came back; the tenant follows
	leasedKey  = ":leased"  // hash: name → deadline, token, attempt, tenant
	groupKey   = ":group"   // hash: lease group → seqs, in the order they joined
	leftKey    = ":left"    // hash: lease group → how many are still leased under it
	delayedKey = ":delayed" // hash: name → tenant; NUL and key if ordered
	triesKey   = ":tries"   // hash: name → attempts so far, after the first
	deadKey    = ":dead"    // sorted set: seqs of dead letters
	whyKey     = ":why"     // hash: name → why it is dead, when, attempts, whose, error
	ageKey     = ":age"     // hash: minute → unsettled messages
	agesKey    = ":ages"    // sorted set: these minutes
	noteKey    = ":note"    // hash, tracked: name → what few have: how earlier attempts went, progress, a wish to cancel
	nowKey     = ":now"     // hash, tracked: what is counted in the current minute, and the total before it
	minutesKey = ":minutes" // hash, tracked: minute → what was counted in it
	hoursKey   = ":hours"   // hash, tracked: the same by hour
	daysKey    = ":days"    // hash, tracked: the same by day
)

// The keys of the registry and the nodes, after the control key.
const (
	namesKey   = ":names"   // sorted set: kind/name by version
	nameKey    = ":name:"   // hash: a definition; kind/name follows
	deletedKey = ":deleted" // sorted set: uid and kind/name of deleted ones, by version
	tracesKey  = ":traces"  // hash: the same → the definition
	nodesKey   = ":nodes"   // hash: node → when it was seen, its record
)

// queue is the own key of a queue in a lane.
func queue(lane, uid string) string { return lane + queueKey + uid }

// facet is where a tenant's messages wait that never were leased.
func facet(lane, uid, tenant string) string { return queue(lane, uid) + facetKey + tenant }

// back is where a tenant's messages wait that came back.
func back(lane, uid, tenant string) string { return queue(lane, uid) + backKey + tenant }

// goodUID reports whether a uid can be part of a key and of a due entry.
func goodUID(uid string) bool {
	return uid != "" && !strings.ContainsAny(uid, ":!{} \n\x00")
}

// aliasOf is how a delayed event is found by its id.
func aliasOf(tenant, id string) string { return tenant + "\x00" + id }

// whoOf is a message's place in an ordered queue: its tenant, and its key if it has one.
func whoOf(tenant, key string) string {
	if key == "" {
		return tenant
	}
	return tenant + "\x00" + key
}
