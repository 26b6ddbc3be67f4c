package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Check verifies the invariants of every lane: the ring is who waits, counters
// are what they count, what is leased or delayed is due and nothing else is, a batch
// is in one state, a body has as many holders as name it, and nothing is left over.
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
		c := &checker{dump: d, lanes: len(e.own), holders: map[string]int64{}, due: map[string]float64{}, opened: map[string]string{}, state: readNumbers(d.hashes[""]["state"], 12)}
		c.lane()
		for _, f := range c.faults {
			faults = append(faults, fmt.Sprintf("lane %d: %s", lane, f))
		}
	}
	var all []error
	for _, f := range faults {
		all = append(all, errors.New(f))
	}
	return errors.Join(all...)
}

// checker verifies one lane.
type checker struct {
	*dump
	lanes   int
	state   []int64 // the lane's numbers, as the scripts pack them
	faults  []string
	holders map[string]int64   // by seq, as the queues name it
	due     map[string]float64 // as leases and delays ask for it
	opened  map[string]string  // number of each open operation, and the message that it is of
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
		newQueueChecker(c, uid).check()
	}
	for _, uid := range trash {
		c.leftovers(uid)
	}
	c.checkSubs(trash)
	c.checkHeld()
	c.checkOperations(known, trash)
	c.checkDue(trash)
	c.checkBodies()
}

// queues are the uids that the lane knows and those in the trash. Every key of
// a queue must belong to one of them.
func (c *checker) queues() (known, trash []string) {
	trash = c.lists[trashKey]
	if gone := c.state[2]; int64(len(trash)) != gone {
		c.wrong("gone says %d, the trash holds %d", gone, len(trash))
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
	for _, uid := range c.sets[wantedKey] {
		if !slices.Contains(known, uid) {
			c.wrong("queue %s is wanted and not known", uid)
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
	c.leftoverFields(name)
	for key, names := range c.lists {
		if strings.HasPrefix(key, name+facetKey) || strings.HasPrefix(key, name+behindKey) {
			for _, message := range names {
				c.holders[message]++
			}
		}
	}
	for key, names := range c.scores {
		for message, score := range names {
			switch {
			case strings.HasPrefix(key, name+headsKey):
				c.holders[strconv.FormatFloat(score, 'f', 0, 64)]++
			case strings.HasPrefix(key, name+backKey), strings.HasPrefix(key, name+lateKey), strings.HasPrefix(key, name+lostKey):
				c.holders[message]++
			}
		}
	}
}

// leftoverFields counts the messages that a removed queue's hashes name: what is leased,
// at a tenant's hand, or behind the head of a key.
func (c *checker) leftoverFields(name string) {
	for message := range c.hashes[name+leasedKey] {
		if message != "" {
			c.holders[message]++
		}
	}
	for tenant, hand := range c.hashes[name+handKey] {
		names := strings.TrimSuffix(hand[strings.IndexAny(hand, "@.")+1:], "+")
		if tenant == "" {
			names = ""
		}
		for message := range strings.FieldsSeq(names) {
			c.holders[message]++
		}
	}
	for _, line := range c.hashes[name+headKey] {
		for _, message := range strings.Fields(strings.TrimSuffix(line, "+"))[1:] {
			c.holders[message]++
		}
	}
}

// checkHeld: every delayed event is due and found by its id, and nothing else is; ids
// that are remembered for longer have a time at which they are forgotten.
func (c *checker) checkHeld() {
	found := 0
	for key, names := range c.scores {
		alias, ok := strings.CutPrefix(key, aliasKey)
		for name := range names {
			if !ok {
				break
			}
			found++
			if record := c.hashes[heldKey][name]; len(record) < 10 || !strings.HasPrefix(record[10:], alias) {
				c.wrong("delayed event %s is found by an id and not held", name)
			}
		}
	}
	if found != len(c.hashes[heldKey]) {
		c.wrong("%d delayed events are found by their ids, %d are held", found, len(c.hashes[heldKey]))
	}
	for name := range c.hashes[heldKey] {
		entry := fmt.Sprintf("E!%016s", name)
		at, ok := c.scores[dueKey][entry]
		if !ok {
			c.wrong("delayed event %s is never due", name)
		}
		c.due[entry] = at
	}
	if n := len(c.hashes[longKey]); n != len(c.scores[longsKey]) || int64(n) != c.state[11] {
		c.wrong("%d ids are remembered for longer, %d have a time, counted as %d", n, len(c.scores[longsKey]), c.state[11])
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
