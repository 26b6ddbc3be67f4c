package redis

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-dev/millrace"
)

// queueChecker verifies one queue of a lane.
type queueChecker struct {
	*checker
	uid, name string
	ordered   bool
	tracked   bool
	limit     int64
	few       few
	counts    []int64                     // waiting, came back, wanted, acked, spent, newest minute, unsettled of it
	hands     map[string]hand             // of tenants
	state     map[string]string           // of each message
	minutes   map[string]int64            // unsettled messages by minute
	tenants   map[string]map[string]int64 // messages of each tenant by state
	leasable  map[string]bool             // tenants
}

// few is what few queues have, as the scripts pack it.
type few struct {
	special, parked, hollow, dropped, named, ever, credit int64
	turn, wake, purged                                    string
}

func readFew(s string) (f few, ok bool) {
	numbers := []*int64{&f.special, &f.parked, &f.hollow, &f.dropped, &f.named, &f.ever, &f.credit}
	if s == "" {
		return f, true
	}
	for _, n := range numbers {
		if len(s) < 8 {
			return f, false
		}
		*n, s = int64(number(s[:8])), s[8:]
	}
	for _, text := range []*string{&f.turn, &f.wake, &f.purged} {
		if len(s) < 2 {
			return f, false
		}
		size := int(binary.LittleEndian.Uint16([]byte(s[:2])))
		if len(s) < 2+size {
			return f, false
		}
		*text, s = s[2:2+size], s[2+size:]
	}
	return f, s == ""
}

func newQueueChecker(c *checker, uid string) *queueChecker {
	q := &queueChecker{
		checker: c, uid: uid, name: queueKey + uid, state: map[string]string{}, minutes: map[string]int64{},
		tenants: map[string]map[string]int64{}, leasable: map[string]bool{}, hands: map[string]hand{},
	}
	if conf := strings.Fields(c.hashes[q.name]["conf"]); len(conf) >= 8 {
		q.ordered, q.tracked = conf[2] == "1", len(conf) > 8
		q.limit, _ = strconv.ParseInt(conf[4], 10, 64)
	}
	few, ok := readFew(c.hashes[q.name]["few"])
	if !ok {
		q.bad("what few queues have cannot be read")
	}
	q.few = few
	q.counts = readNumbers(c.hashes[q.name]["counts"], 7)
	q.readHands()
	return q
}

// bad names what is wrong with the queue.
func (q *queueChecker) bad(format string, args ...any) {
	q.wrong("queue %s: "+format, append([]any{q.uid}, args...)...)
}

func (q *queueChecker) check() {
	q.leases()
	q.delays()
	q.deadLetters()
	q.facets()
	if q.ordered {
		q.keys()
	}
	q.ring()
	q.tenantsHold()
	q.tries()
	q.consumers()
	q.ages()
	if q.tracked {
		q.operations()
	}
}

// ages: the unsettled messages are counted by minute.
func (q *queueChecker) ages() {
	newest, young := strconv.FormatInt(q.counts[5], 10), q.counts[6]
	if young != q.minutes[newest] {
		q.bad("%d are of the newest minute, counted as %d", q.minutes[newest], young)
	}
	delete(q.minutes, newest)
	if !maps.Equal(q.minutes, q.numbers(ageKey)) {
		q.bad("ages are %v, counted as %v", q.minutes, q.numbers(ageKey))
	}
	for minute, at := range q.scores[q.name+agesKey] {
		if minute != strconv.FormatFloat(at, 'f', 0, 64) || q.minutes[minute] == 0 {
			q.bad("minute %s is listed and has no message", minute)
		}
	}
	if len(q.scores[q.name+agesKey]) != len(q.minutes) {
		q.bad("%d minutes are listed, there are %d", len(q.scores[q.name+agesKey]), len(q.minutes))
	}
}

// put notes a message's state: it has exactly one.
func (q *queueChecker) put(name, tenant, state string) {
	if other := q.state[name]; other != "" {
		q.bad("message %s is %s and %s", name, other, state)
	}
	q.state[name] = state
	q.holders[name]++
	if q.tenants[tenant] == nil {
		q.tenants[tenant] = map[string]int64{}
	}
	q.tenants[tenant][state]++
	n, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		q.bad("%q is no name", name)
	}
	if state != "dead" {
		q.minutes[strconv.FormatInt(millrace.MinuteOfSeq(n, q.lanes), 10)]++
	}
}

// facets: what waits, and how much of it came back.
func (q *queueChecker) facets() {
	ready, back := q.fresh()+q.behindHeads(), int64(0)
	for key, names := range q.lists {
		if who, ok := strings.CutPrefix(key, q.name+behindKey); ok {
			ready += int64(len(names))
			tenant, _ := splitWho(who)
			for _, name := range names {
				q.put(name, tenant, "waiting")
			}
		}
	}
	for key, names := range q.scores {
		for member, score := range names {
			name := strconv.FormatFloat(score, 'f', 0, 64)
			if tenant, ok := strings.CutPrefix(key, q.name+backKey); ok {
				back++
				q.leasable[tenant] = true
				q.put(member, tenant, "waiting")
				if member != name {
					q.bad("%s came back at place %s", member, name)
				}
			}
			if tenant, ok := strings.CutPrefix(key, q.name+headsKey); ok {
				ready++
				q.leasable[tenant] = true
				q.put(name, tenant, "waiting")
			}
		}
	}
	if q.counts[0] != ready+back || q.counts[1] != back {
		q.bad("%d wait, %d of them came back; counted as %d and %d", ready+back, back, q.counts[0], q.counts[1])
	}
}

// fresh: what never was leased is at hand, and in a list if there is more. Returns how many.
func (q *queueChecker) fresh() int64 {
	names := map[string][]string{}
	for tenant, h := range q.hands {
		names[tenant] = h.names
		if list := q.lists[q.name+facetKey+tenant]; h.inside && h.more != (len(list) > 0) {
			q.bad("tenant %s: the hand says there is more: %t, in the list are %d", tenant, h.more, len(list))
		}
	}
	for key, list := range q.lists {
		if tenant, ok := strings.CutPrefix(key, q.name+facetKey); ok {
			names[tenant] = append(names[tenant], list...)
		}
	}
	total := 0
	for tenant, list := range names {
		total += len(list)
		if len(list) > 0 {
			q.leasable[tenant] = true
			q.facet(tenant, list)
		}
	}
	return int64(total)
}

// facet: the oldest first, and what came back is older still.
func (q *queueChecker) facet(tenant string, names []string) {
	last := uint64(0)
	for name := range q.scores[q.name+backKey+tenant] {
		if q.tracked && q.hashes[q.name+triesKey][name] == "" { // it was delayed from the start
			continue
		}
		n, _ := strconv.ParseUint(name, 10, 64)
		last = max(last, n)
	}
	for _, name := range names {
		q.put(name, tenant, "waiting")
		n, _ := strconv.ParseUint(name, 10, 64)
		if n <= last {
			q.bad("tenant %s: %s is out of order", tenant, name)
		}
		last = n
	}
}

// leases: every leased message is in exactly one group, and every group is due once.
func (q *queueChecker) leases() {
	left := map[string]int64{}
	for name, record := range q.hashes[q.name+leasedKey] {
		if name == "" { // it keeps Redis from packing the hash
			continue
		}
		if len(record) < q.leaseSize() {
			q.bad("the lease of %s cannot be read", name)
			continue
		}
		tenant, _ := splitWho(record[q.leaseSize():])
		q.put(name, tenant, "leased")
		deadline := number(record[:8])
		group := record[8:24] + strconv.FormatUint(deadline, 10)
		left[group]++
		q.due["L"+q.uid+"!"+group] = float64(deadline)
		if !slices.Contains(strings.Fields(q.hashes[q.name+groupKey][group]), name) {
			q.bad("%s is not listed in its lease group", name)
		}
	}
	if !maps.Equal(left, q.numbers(leftKey)) {
		q.bad("lease groups hold %v, counted as %v", left, q.numbers(leftKey))
	}
	for group := range q.hashes[q.name+groupKey] {
		if left[group] == 0 {
			q.bad("an empty lease group is left over")
		}
	}
}

// leaseSize is what stands before the owner in the record of a lease.
func (q *queueChecker) leaseSize() int {
	if q.tracked {
		return 36
	}
	return 28
}

// delays: every delayed message is due, and listed with its tenant.
func (q *queueChecker) delays() {
	for name, who := range q.hashes[q.name+delayedKey] {
		tenant, _ := splitWho(who)
		q.put(name, tenant, "delayed")
		entry := fmt.Sprintf("D%s!%016s", q.uid, name)
		at, ok := q.scores[dueKey][entry]
		if !ok {
			q.bad("%s is delayed and never due", name)
		}
		q.due[entry] = at
	}
	q.listed(lateKey, "delayed")
}

// deadLetters: everybody knows why, and their ends are due.
func (q *queueChecker) deadLetters() {
	for name := range q.scores[q.name+deadKey] {
		var m millrace.QueuedMessage
		if err := readWhy(&m, q.hashes[q.name+whyKey][name]); err != nil {
			q.bad("nobody knows why %s is dead", name)
		}
		q.put(name, m.Tenant, "dead")
		entry := fmt.Sprintf("X%s!%016s", q.uid, name)
		if at, ok := q.scores[dueKey][entry]; ok {
			q.due[entry] = at
		}
	}
	if len(q.hashes[q.name+whyKey]) != len(q.scores[q.name+deadKey]) {
		q.bad("%d reasons for %d dead letters", len(q.hashes[q.name+whyKey]), len(q.scores[q.name+deadKey]))
	}
	q.listed(lostKey, "dead")
}

// listed: each tenant's messages of a state are listed with it, and no others.
func (q *queueChecker) listed(prefix, state string) {
	have := map[string]int64{}
	for key, names := range q.scores {
		if tenant, ok := strings.CutPrefix(key, q.name+prefix); ok {
			have[tenant] = int64(len(names))
			for name := range names {
				if q.state[name] != state {
					q.bad("%s of %s is listed as %s", name, tenant, state)
				}
			}
		}
	}
	want := map[string]int64{}
	for tenant, counts := range q.tenants {
		if counts[state] > 0 {
			want[tenant] = counts[state]
		}
	}
	if !maps.Equal(want, have) {
		q.bad("%s are %v, listed %v", state, want, have)
	}
}

// tries: who was tried before is known by it, and nobody else.
func (q *queueChecker) tries() {
	tried := q.numbers(triesKey)
	for name := range tried {
		if s := q.state[name]; s == "" || s == "dead" {
			q.bad("attempts of %s are left over", name)
		}
	}
	for name, state := range q.state {
		if state == "delayed" && tried[name] == 0 && !q.tracked {
			q.bad("the attempts of %s are lost", name)
		}
		if state != "leased" {
			continue
		}
		attempt := int64(binary.LittleEndian.Uint32([]byte(q.hashes[q.name+leasedKey][name][24:28])))
		if attempt != tried[name]+1 {
			q.bad("%s is leased for attempt %d after %d", name, attempt, tried[name])
		}
	}
}

// numbers reads a hash of counters of the queue.
func (q *queueChecker) numbers(key string) map[string]int64 {
	n := map[string]int64{}
	for field := range q.hashes[q.name+key] {
		n[field] = q.count(q.name+key, field)
	}
	return n
}
