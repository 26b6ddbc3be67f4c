package redis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// hand is a tenant's: how many of its messages are leased, whether it is in the ring, the
// names it gives next, and whether its facet holds more.
type hand struct {
	leased       int64
	inside, more bool
	names        []string
}

// readHands: whoever has one has something leased or is in the ring, and only there names.
func (q *queueChecker) readHands() {
	for tenant, s := range q.hashes[q.name+handKey] {
		if tenant == "" { // it keeps Redis from packing the hash
			continue
		}
		at := strings.IndexAny(s, "@.")
		leased, err := strconv.ParseInt(s[:max(at, 0)], 10, 64)
		if err != nil {
			q.bad("the hand of %s cannot be read", tenant)
			continue
		}
		names, more := strings.CutSuffix(s[at+1:], "+")
		h := hand{leased: leased, inside: s[at] == '@', more: more, names: strings.Fields(names)}
		if leased < 0 || !h.inside && (leased == 0 || more || names != "") || q.ordered && (more || names != "") {
			q.bad("the hand of %s is wrong: %s", tenant, s)
		}
		q.hands[tenant] = h
	}
}

// ring: the list and the hands name the same tenants, each once. Who has something
// leasable is there or parked, and parked is only who may not be there; who is there and
// has nothing leasable is hollow.
func (q *queueChecker) ring() {
	var in []string
	for tenant, h := range q.hands {
		if h.inside {
			in = append(in, tenant)
		}
	}
	slices.Sort(in)
	ring := slices.Sorted(slices.Values(q.lists[q.name+ringKey]))
	if !slices.Equal(ring, in) {
		q.bad("the ring holds %v, the hands %v", ring, in)
	}
	if len(slices.Compact(slices.Clone(ring))) != len(ring) {
		q.bad("a tenant is in the ring twice: %v", ring)
	}
	parked, hollow := q.scores[q.name+parkedKey], q.sets[q.name+hollowKey]
	for tenant := range q.leasable {
		if _, ok := parked[tenant]; ok == slices.Contains(ring, tenant) {
			q.bad("%s has something leasable; parked: %t, in the ring: %t", tenant, ok, !ok)
		}
	}
	for tenant := range parked {
		if !q.leasable[tenant] || q.few.wake == "" && !q.barred(tenant) {
			q.bad("%s is parked; leasable: %t, barred: %t", tenant, q.leasable[tenant], q.barred(tenant))
		}
	}
	for _, tenant := range ring {
		if empty := !q.leasable[tenant]; empty != slices.Contains(hollow, tenant) {
			q.bad("%s is in the ring; empty: %t, hollow: %t", tenant, empty, !empty)
		}
	}
	for _, tenant := range hollow {
		if !slices.Contains(ring, tenant) {
			q.bad("%s is hollow and not in the ring", tenant)
		}
	}
	q.ringCounts(len(parked), len(hollow))
}

// ringCounts: the counts of the few are right, a turn that was cut short is the head's,
// and nobody waits for what is there.
func (q *queueChecker) ringCounts(parked, hollow int) {
	f, special, ring := q.few, len(q.hashes[q.name+tenantKey]), q.lists[q.name+ringKey]
	if f.parked != int64(parked) || f.hollow != int64(hollow) || f.special != int64(special) {
		q.bad("%d parked, %d hollow, %d with settings; counted as %d, %d, %d", parked, hollow, special, f.parked, f.hollow, f.special)
	}
	if f.credit > 0 && (len(ring) == 0 || ring[0] != f.turn) {
		q.bad("the turn of %s goes on, but it is not the head", f.turn)
	}
	if q.counts[2] == 1 != slices.Contains(q.sets[wantedKey], q.uid) {
		q.bad("wanted: %t, listed so: %t", q.counts[2] == 1, q.counts[2] != 1)
	}
	paused := strings.Fields(q.hashes[q.name]["conf"] + " 0 0 0 0")[3] == "1"
	if len(ring) > 0 && q.counts[2] == 1 && !paused {
		q.bad("wanted, though there is something")
	}
}

// barred tells whether a tenant may not be in the ring.
func (q *queueChecker) barred(tenant string) bool {
	weight, limit := int64(1), q.limit
	if own := q.hashes[q.name+tenantKey][tenant]; own != "" {
		most := int64(-1)
		if _, err := fmt.Sscanf(own, "%d %d", &weight, &most); err != nil {
			q.bad("the settings of %s cannot be read", tenant)
		}
		if most >= 0 {
			limit = most
		}
	}
	return weight == 0 || limit > 0 && q.tenants[tenant]["leased"] >= limit
}

// tenantsHold: who holds anything or has settings is listed, and counted as it should.
func (q *queueChecker) tenantsHold() {
	held, flight, waiting := map[string]bool{}, map[string]int64{}, map[string]int64{}
	for tenant, counts := range q.tenants {
		held[tenant] = true
		if n := counts["leased"]; n > 0 {
			flight[tenant] = n
		}
		if n := counts["waiting"]; n > 0 && q.ordered {
			waiting[tenant] = n
		}
	}
	for tenant := range q.hashes[q.name+tenantKey] {
		held[tenant] = true
	}
	if want, have := slices.Sorted(maps.Keys(held)), slices.Sorted(maps.Keys(q.scores[q.name+tenantsKey])); !slices.Equal(want, have) {
		q.bad("%v hold something, listed are %v", want, have)
	}
	counted := map[string]int64{}
	for tenant, h := range q.hands {
		if h.leased > 0 {
			counted[tenant] = h.leased
		}
	}
	if !maps.Equal(flight, counted) {
		q.bad("leased by tenant %v, counted as %v", flight, counted)
	}
	if !maps.Equal(waiting, q.numbers(waitingKey)) {
		q.bad("waiting by tenant %v, counted as %v", waiting, q.numbers(waitingKey))
	}
}

// keys: a key of an ordered queue has one head, which is ready, leased or delayed, and
// whoever is behind it has a key with a head.
func (q *queueChecker) keys() {
	places := q.heads()
	for who, line := range q.hashes[q.name+headKey] {
		name, _, _ := strings.Cut(strings.TrimSuffix(line, "+"), " ")
		if got := places[who]; len(got) != 1 || got[0] != name {
			q.bad("key %q has the head %s, but %v are ready, leased or delayed", who, name, got)
		}
		delete(places, who)
	}
	for who := range places {
		q.bad("key %q has a message and no head", who)
	}
	for key := range q.lists {
		if who, ok := strings.CutPrefix(key, q.name+behindKey); ok && !strings.HasSuffix(q.hashes[q.name+headKey][who], "+") {
			q.bad("somebody waits behind no head of %q, or it does not tell", who)
		}
	}
	for key, keys := range q.sets {
		for _, who := range keys {
			if strings.HasPrefix(key, q.name+linesKey) && q.hashes[q.name+headKey][who] == "" {
				q.bad("%q is listed to have someone behind no head", who)
			}
		}
	}
}

// behindHeads: who is behind a head is told by it, and in a list if there are more; such
// keys are listed. Returns how many are not in lists.
func (q *queueChecker) behindHeads() int64 {
	count := 0
	for who, line := range q.hashes[q.name+headKey] {
		tenant, _ := splitWho(who)
		names, more := strings.CutSuffix(line, "+")
		behind := strings.Fields(names)[1:]
		for _, name := range behind {
			q.put(name, tenant, "waiting")
		}
		count += len(behind)
		list := q.lists[q.name+behindKey+who]
		if more != (len(list) > 0) || (more || len(behind) > 0) && !slices.Contains(q.sets[q.name+linesKey+tenant], who) {
			q.bad("behind the head of %q are %d, more: %t, in the list %d, or it is not listed", who, len(behind), more, len(list))
		}
	}
	return int64(count)
}

// heads are the messages of each key that are ready, leased or delayed.
func (q *queueChecker) heads() map[string][]string {
	places := map[string][]string{}
	add := func(who, name string) {
		if _, key := splitWho(who); key != "" {
			places[who] = append(places[who], name)
		}
	}
	for key, heads := range q.scores {
		tenant, ok := strings.CutPrefix(key, q.name+headsKey)
		for at, score := range heads {
			name := strconv.FormatFloat(score, 'f', 0, 64)
			of, who, keyed := strings.Cut(at, " ")
			if !ok {
				break
			}
			if owner, _ := splitWho(who); of != name || keyed && owner != tenant {
				q.bad("the head %s is listed as %s", name, at)
			}
			add(who, name)
		}
	}
	for name, record := range q.hashes[q.name+leasedKey] {
		if name != "" && len(record) >= q.leaseSize() {
			add(record[q.leaseSize():], name)
		}
	}
	for name, who := range q.hashes[q.name+delayedKey] {
		add(who, name)
	}
	return places
}

// consumers: a lease group of a consumer is listed with it, and no other.
func (q *queueChecker) consumers() {
	listed := 0
	for key, groups := range q.scores {
		if consumer, ok := strings.CutPrefix(key, q.name+byKey); ok {
			listed += len(groups)
			for group := range groups {
				if q.hashes[q.name+whoseKey][group] != consumer || q.hashes[q.name+groupKey][group] == "" {
					q.bad("%s has a lease group that is not there", consumer)
				}
			}
		}
	}
	if named := len(q.hashes[q.name+whoseKey]); named != listed || int64(named) != q.few.named {
		q.bad("%d lease groups have a consumer, %d are listed, counted as %d", named, listed, q.few.named)
	}
}
