package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-dev/millrace"
)

// Check verifies the invariants of every lane: the ring is who waits, counters
// are what they count, what is leased or delayed is due and nothing else is, a
// body has as many holders as name it, and nothing is left over.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.usable(ctx); err != nil {
		return err
	}
	names, err := e.keyNames(ctx)
	if err != nil {
		return err
	}
	faults, err := e.checkRegistry(ctx)
	if err != nil {
		return err
	}
	for lane, own := range e.own {
		d, err := e.readLane(ctx, own, names[own])
		if err != nil {
			return err
		}
		c := &checker{dump: d, lanes: len(e.own), holders: map[string]int64{}, due: map[string]float64{}}
		c.lane()
		for _, f := range c.faults {
			faults = append(faults, fmt.Sprintf("lane %d: %s", lane, f))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return millrace.Errorf(millrace.CodeInternal, "%d invariants broken: %s", len(faults), strings.Join(faults[:min(len(faults), 20)], "; "))
}

// checker verifies one lane.
type checker struct {
	*dump
	lanes   int
	faults  []string
	holders map[string]int64   // by seq, as the queues name it
	due     map[string]float64 // as leases and delays ask for it
}

func (c *checker) wrong(format string, args ...any) {
	if len(c.faults) < 100 {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

func (c *checker) lane() {
	if c.hashes[""]["id"] == "" {
		c.wrong("the identity is missing")
		return
	}
	for _, name := range c.other {
		c.wrong("key %q is none of ours", name)
	}
	known, trash := c.queues()
	for _, uid := range known {
		q := &queueChecker{checker: c, uid: uid, name: queueKey + uid, state: map[string]string{}, minutes: map[string]int64{}}
		q.check()
	}
	for _, uid := range trash {
		c.leftovers(uid)
	}
	c.checkDue(trash)
	c.checkBodies()
}

// queues are the uids that the lane knows and those in the trash. Every key of
// a queue must belong to one of them.
func (c *checker) queues() (known, trash []string) {
	trash = c.lists[trashKey]
	if int64(len(trash)) != c.count("", "gone") {
		c.wrong("gone says %d, the trash holds %d", c.count("", "gone"), len(trash))
	}
	for name, fields := range c.hashes {
		if uid, ok := strings.CutPrefix(name, queueKey); ok && !strings.Contains(uid, ":") && fields["version"] != "" {
			known = append(known, uid)
			if slices.Contains(c.sets[removedKey], uid) {
				c.wrong("queue %s is known though it was removed", uid)
			}
		}
	}
	all := append(slices.Clone(known), trash...)
	for name := range c.allNames() {
		if rest, ok := strings.CutPrefix(name, queueKey); ok {
			if uid, _, _ := strings.Cut(rest, ":"); !slices.Contains(all, uid) {
				c.wrong("key %q belongs to no queue", name)
			}
		}
	}
	return known, trash
}

func (c *checker) allNames() map[string]bool {
	names := map[string]bool{}
	for n := range c.hashes {
		names[n] = true
	}
	for n := range c.lists {
		names[n] = true
	}
	for n := range c.scores {
		names[n] = true
	}
	for n := range c.sets {
		names[n] = true
	}
	return names
}

// leftovers counts what a removed queue still holds.
func (c *checker) leftovers(uid string) {
	name := queueKey + uid
	for seq := range c.hashes[name+leasedKey] {
		c.holders[seq]++
	}
	for seq := range c.hashes[name+delayedKey] {
		c.holders[seq]++
	}
	for seq := range c.scores[name+deadKey] {
		c.holders[seq]++
	}
	for _, tenant := range c.lists[name+ringKey] {
		for _, seq := range c.lists[name+facetKey+tenant] {
			c.holders[seq]++
		}
		for seq := range c.scores[name+backKey+tenant] {
			c.holders[seq]++
		}
	}
}

// checkDue compares the due index with what leases and delays ask for. What it
// still holds of removed queues falls out later.
func (c *checker) checkDue(trash []string) {
	have := c.scores[dueKey]
	for entry, at := range c.due {
		if got, ok := have[entry]; !ok || got != at {
			c.wrong("%q should be due at %.0f, is at %.0f (%t)", entry, at, got, ok)
		}
	}
	for entry := range have {
		uid, _, _ := strings.Cut(entry[1:], "!")
		if _, ok := c.due[entry]; !ok && !slices.Contains(trash, uid) {
			c.wrong("%q is due for nothing", entry)
		}
	}
}

func (c *checker) checkBodies() {
	bodies, counted := c.hashes[bodyKey], c.hashes[holdersKey]
	for seq, n := range c.holders {
		if _, ok := bodies[seq]; !ok {
			c.wrong("message %s has no body", seq)
		}
		want := ""
		if n > 1 {
			want = strconv.FormatInt(n, 10)
		}
		if counted[seq] != want {
			c.wrong("body %s has %d holders, counted as %q", seq, n, counted[seq])
		}
	}
	for seq := range bodies {
		if c.holders[seq] == 0 {
			c.wrong("body %s has no holder", seq)
		}
	}
	for seq := range counted {
		if c.holders[seq] == 0 {
			c.wrong("holders of %s are counted, but there are none", seq)
		}
	}
}

// queueChecker verifies one queue of a lane.
type queueChecker struct {
	*checker
	uid, name string
	state     map[string]string // of each message
	minutes   map[string]int64  // unsettled messages by minute
}

func (q *queueChecker) check() {
	q.ring()
	q.leases()
	q.delays()
	q.deadLetters()
	q.tries()
	if !maps.Equal(q.minutes, q.numbers(ageKey)) {
		q.wrong("queue %s: ages are %v, counted as %v", q.uid, q.minutes, q.numbers(ageKey))
	}
	for minute, at := range q.scores[q.name+agesKey] {
		if minute != strconv.FormatFloat(at, 'f', 0, 64) || q.minutes[minute] == 0 {
			q.wrong("queue %s: minute %s is listed and has no message", q.uid, minute)
		}
	}
	if len(q.scores[q.name+agesKey]) != len(q.minutes) {
		q.wrong("queue %s: %d minutes are listed, there are %d", q.uid, len(q.scores[q.name+agesKey]), len(q.minutes))
	}
}

// put notes a message's state: it has exactly one.
func (q *queueChecker) put(seq, state string) {
	if other := q.state[seq]; other != "" {
		q.wrong("queue %s: message %s is %s and %s", q.uid, seq, other, state)
	}
	q.state[seq] = state
	q.holders[seq]++
	n, err := strconv.ParseUint(seq, 10, 64)
	if err != nil {
		q.wrong("queue %s: %q is no seq", q.uid, seq)
	}
	if state != "dead" {
		q.minutes[strconv.FormatInt(millrace.MinuteOfSeq(n, q.lanes), 10)]++
	}
}

// ring: the list and the set name the same tenants, each once, and they are the
// ones that have something waiting; the counters say how much.
func (q *queueChecker) ring() {
	ring, in := slices.Sorted(slices.Values(q.lists[q.name+ringKey])), slices.Sorted(slices.Values(q.sets[q.name+inKey]))
	if !slices.Equal(ring, in) {
		q.wrong("queue %s: the ring holds %v, the set %v", q.uid, ring, in)
	}
	if len(slices.Compact(slices.Clone(ring))) != len(ring) {
		q.wrong("queue %s: a tenant is in the ring twice: %v", q.uid, ring)
	}
	waiting, ready, back := map[string]bool{}, int64(0), int64(0)
	for name, seqs := range q.lists {
		if tenant, ok := strings.CutPrefix(name, q.name+facetKey); ok {
			waiting[tenant] = true
			ready += int64(len(seqs))
			q.facet(tenant, seqs)
		}
	}
	for name, seqs := range q.scores {
		if tenant, ok := strings.CutPrefix(name, q.name+backKey); ok {
			waiting[tenant] = true
			back += int64(len(seqs))
			for seq, score := range seqs {
				q.put(seq, "waiting")
				if seq != strconv.FormatFloat(score, 'f', 0, 64) {
					q.wrong("queue %s: %s came back at place %.0f", q.uid, seq, score)
				}
			}
		}
	}
	if tenants := slices.Sorted(maps.Keys(waiting)); !slices.Equal(tenants, ring) {
		q.wrong("queue %s: %v wait, %v are in the ring", q.uid, tenants, ring)
	}
	if q.count(q.name, "ready") != ready+back || q.count(q.name, "back") != back {
		q.wrong("queue %s: %d wait, %d of them came back; counted as %d and %d", q.uid, ready+back, back, q.count(q.name, "ready"), q.count(q.name, "back"))
	}
	if len(ring) > 0 && q.hashes[q.name]["wanted"] == "1" {
		q.wrong("queue %s: wanted, though there is something", q.uid)
	}
}

// facet: the oldest first, and what came back is older still.
func (q *queueChecker) facet(tenant string, seqs []string) {
	last := uint64(0)
	for seq := range q.scores[q.name+backKey+tenant] {
		n, _ := strconv.ParseUint(seq, 10, 64)
		last = max(last, n)
	}
	for _, seq := range seqs {
		q.put(seq, "waiting")
		n, _ := strconv.ParseUint(seq, 10, 64)
		if n <= last {
			q.wrong("queue %s: tenant %s: %s is out of order", q.uid, tenant, seq)
		}
		last = n
	}
}

// leases: every leased message is in exactly one group, and every group is due once.
func (q *queueChecker) leases() {
	left := map[string]int64{}
	for seq, record := range q.hashes[q.name+leasedKey] {
		q.put(seq, "leased")
		if len(record) < 28 {
			q.wrong("queue %s: the lease of %s cannot be read", q.uid, seq)
			continue
		}
		deadline := number(record[:8])
		group := record[8:24] + strconv.FormatUint(deadline, 10)
		left[group]++
		q.due["L"+q.uid+"!"+group] = float64(deadline)
		if !slices.Contains(strings.Fields(q.hashes[q.name+groupKey][group]), seq) {
			q.wrong("queue %s: %s is not listed in its lease group", q.uid, seq)
		}
	}
	if !maps.Equal(left, q.numbers(leftKey)) {
		q.wrong("queue %s: lease groups hold %v, counted as %v", q.uid, left, q.numbers(leftKey))
	}
	for group := range q.hashes[q.name+groupKey] {
		if left[group] == 0 {
			q.wrong("queue %s: an empty lease group is left over", q.uid)
		}
	}
}

func (q *queueChecker) delays() {
	for seq := range q.hashes[q.name+delayedKey] {
		q.put(seq, "delayed")
		entry := fmt.Sprintf("D%s!%016s", q.uid, seq)
		at, ok := q.scores[dueKey][entry]
		if !ok {
			q.wrong("queue %s: %s is delayed and never due", q.uid, seq)
		}
		q.due[entry] = at
	}
}

func (q *queueChecker) deadLetters() {
	for seq := range q.scores[q.name+deadKey] {
		q.put(seq, "dead")
		if q.hashes[q.name+whyKey][seq] == "" {
			q.wrong("queue %s: nobody knows why %s is dead", q.uid, seq)
		}
	}
	if len(q.hashes[q.name+whyKey]) != len(q.scores[q.name+deadKey]) {
		q.wrong("queue %s: %d reasons for %d dead letters", q.uid, len(q.hashes[q.name+whyKey]), len(q.scores[q.name+deadKey]))
	}
}

// tries: who was tried before is known by it, and nobody else.
func (q *queueChecker) tries() {
	tried := q.numbers(triesKey)
	for seq := range tried {
		if s := q.state[seq]; s == "" || s == "dead" {
			q.wrong("queue %s: attempts of %s are left over", q.uid, seq)
		}
	}
	for seq, state := range q.state {
		if state == "delayed" && tried[seq] == 0 {
			q.wrong("queue %s: the attempts of %s are lost", q.uid, seq)
		}
		if state != "leased" {
			continue
		}
		attempt := int64(binary.LittleEndian.Uint32([]byte(q.hashes[q.name+leasedKey][seq][24:28])))
		if attempt != tried[seq]+1 {
			q.wrong("queue %s: %s is leased for attempt %d after %d", q.uid, seq, attempt, tried[seq])
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
