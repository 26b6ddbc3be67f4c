package redis

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-dev/millrace"
)

// operations: every message that is not dead has one operation, which is open unless it was
// cancelled in its place; what is noted is of such a message; and counts add up.
func (q *queueChecker) operations() {
	cancelled := int64(0)
	for name, state := range q.state {
		if state == "dead" {
			continue
		}
		n, ok := readNote(q.hashes[q.name+noteKey][name])
		if !ok {
			q.bad("what is noted of %s cannot be read", name)
		}
		number := name
		if n.number > 0 {
			number = strconv.FormatUint(n.number, 10)
		}
		if n.gone {
			cancelled++
			q.cancelledInPlace(name, number, state)
			continue
		}
		q.opened[number] = q.uid + " " + name
		if n.digest != "" && q.hashes[openKey][n.digest] != number {
			q.bad("the digest of %s is not open", name)
		}
	}
	for name := range q.hashes[q.name+noteKey] {
		if state := q.state[name]; state == "" || state == "dead" {
			q.bad("what is noted of %s is left over", name)
		}
	}
	if counted := q.count(q.name, "cancelled"); counted != cancelled {
		q.bad("%d were cancelled in their places, counted as %d", cancelled, counted)
	}
	q.counted()
}

// cancelledInPlace: its operation has finished, and may be forgotten by now.
func (q *queueChecker) cancelledInPlace(name, number, state string) {
	if state == "leased" {
		q.bad("%s is leased though it was cancelled", name)
	}
	end, ok := q.hashes[endKey][number]
	var o millrace.Operation
	if ok && (!readEnd(&o, end) || o.Status != millrace.OperationCancelled) {
		q.bad("%s was cancelled in its place, its operation %s ended otherwise", name, number)
	}
}

// counted: longer buckets hold at least what shorter ones do, and the total at least that.
func (q *queueChecker) counted() {
	var sums [4]millrace.Tally
	for i, key := range []string{minutesKey, hoursKey, daysKey} {
		for bucket, packed := range q.hashes[q.name+key] {
			c, ok := readCount(packed)
			if !ok {
				q.bad("the counts of %s in %s cannot be read", bucket, key)
			}
			sums[i] = sums[i].Plus(c.Tally)
		}
	}
	if packed := q.hashes[q.name+nowKey]["total"]; packed != "" {
		c, ok := readCount(packed)
		if !ok {
			q.bad("the total cannot be read")
		}
		sums[3] = c.Tally
	}
	for i := range sums[1:] {
		a, b := sums[i], sums[i+1]
		if a.Success > b.Success || a.Error > b.Error || a.Cancelled > b.Cancelled || a.Retried > b.Retried {
			q.bad("counts do not add up: %+v", sums)
		}
	}
}

// operationChecker verifies the operations of a lane.
type operationChecker struct {
	*checker
	known, trash []string
	found        map[string][]string // numbers by q and uid, and by s and subject
	expiring     map[string][]string // numbers by uid and minute
	long         []string            // numbers whose payload lies apart
}

// checkOperations: an operation is open if a message has it, and ended otherwise; it is found by
// queue and subject, and expires, exactly as its record says.
func (c *checker) checkOperations(known, trash []string) {
	o := &operationChecker{
		checker: c, known: known, trash: trash,
		found: map[string][]string{}, expiring: map[string][]string{},
	}
	for number, record := range c.hashes[opKey] {
		o.operation(number, record)
	}
	for number, message := range c.opened {
		if _, ok := c.hashes[opKey][number]; !ok {
			c.wrong("message %s has no operation", message)
		}
	}
	for number := range c.hashes[endKey] {
		if _, ok := c.hashes[opKey][number]; !ok {
			c.wrong("operation %s ended and is unknown", number)
		}
	}
	o.indexed()
	o.lapsing()
	if stored := slices.Sorted(maps.Keys(c.hashes[loadKey])); !slices.Equal(stored, slices.Sorted(slices.Values(o.long))) {
		c.wrong("payloads of %v lie apart, those of %v should", stored, o.long)
	}
	o.open()
	o.fired()
}

func (o *operationChecker) operation(number, record string) {
	stored := storedOperation{number: number, record: record, ended: o.hashes[endKey][number]}
	op, err := stored.read(o.lanes)
	if err != nil {
		o.wrong("operation %s cannot be read", number)
		return
	}
	if record[len(record)-1] == longPayload && op.Payload != nil && len(op.Payload) == 0 {
		o.long = append(o.long, number)
	}
	if slices.Contains(o.known, op.UID) || slices.Contains(o.trash, op.UID) {
		o.found["q"+op.UID] = append(o.found["q"+op.UID], number)
	}
	if op.Subject != "" {
		o.found["s"+op.Subject] = append(o.found["s"+op.Subject], number)
	}
	name := strconv.FormatUint(op.Message, 10)
	message, open := o.opened[number]
	switch {
	case stored.ended != "":
		minute := op.ExpiresAt.UnixMilli() / 60_000
		place := op.UID + ":" + strconv.FormatInt(minute, 10)
		o.expiring[place] = append(o.expiring[place], number)
		o.due["O"+op.UID+"!"+strconv.FormatInt(minute, 10)] = float64((minute + 1) * 60_000)
		if open {
			o.wrong("operation %s ended, and message %s is there", number, message)
		}
	case slices.Contains(o.trash, op.UID):
		if o.holders[name] == 0 {
			o.wrong("operation %s of a removed queue is open, and its message is gone", number)
		}
	case !open || message != op.UID+" "+name:
		o.wrong("operation %s of message %s %s is open, the message has another or is gone (%q)", number, op.UID, name, message)
	}
}

// indexed: operations are found by queue and subject, each once, in the order of their numbers.
func (o *operationChecker) indexed() {
	have := map[string][]string{}
	for key, members := range o.scores {
		if id, ok := strings.CutPrefix(key, olderKey); ok {
			have[id] = o.older(id, members)
		}
	}
	for id, text := range o.hashes[indexKey] {
		newest, more := strings.CutPrefix(text, "+")
		if more != (have[id] != nil) {
			o.wrong("the index of %q says that there are older ones: %t, there are %d", id, more, len(have[id]))
		}
		have[id] = append(have[id], strings.Fields(newest)...)
	}
	o.same("found", have, o.found)
}

// older reads the older operations of an index.
func (o *operationChecker) older(id string, members map[string]float64) []string {
	var all []string
	chunks := slices.Collect(maps.Keys(members))
	slices.SortFunc(chunks, func(a, b string) int { return cmp.Compare(members[a], members[b]) })
	for _, chunk := range chunks {
		numbers := strings.Fields(chunk)
		if len(numbers) == 0 || len(numbers) > 100 || numbers[0] != strconv.FormatFloat(members[chunk], 'f', 0, 64) {
			o.wrong("the index of %q has %q at place %.0f", id, chunk, members[chunk])
		}
		all = append(all, numbers...)
	}
	return all
}

// lapsing: operations that have ended expire, each in its minute.
func (o *operationChecker) lapsing() {
	have := map[string][]string{}
	for key, texts := range o.lists {
		if place, ok := strings.CutPrefix(key, expiringKey); ok {
			have[place] = strings.Fields(strings.Join(texts, " "))
			slices.SortFunc(have[place], byNumber)
		}
	}
	o.same("expiring", have, o.expiring)
}

// same compares lists of numbers with what they should be.
func (o *operationChecker) same(what string, have, want map[string][]string) {
	for id := range have {
		if want[id] == nil {
			o.wrong("%s by %q are %v, there should be none", what, id, have[id])
		}
	}
	for id, numbers := range want {
		slices.SortFunc(numbers, byNumber)
		if !slices.Equal(have[id], numbers) {
			o.wrong("%s by %q are %v, should be %v", what, id, have[id], numbers)
		}
	}
}

// byNumber orders numbers as texts.
func byNumber(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// open: what must not be open twice, and what is watched, is open.
func (o *operationChecker) open() {
	for digest, number := range o.hashes[openKey] {
		uid, name, _ := strings.Cut(o.opened[number], " ")
		n, _ := readNote(o.hashes[queueKey+uid+noteKey][name])
		if n.digest != digest && !o.left(number) {
			o.wrong("operation %s is open for a digest that it does not have", number)
		}
	}
	for _, number := range o.sets[watchedKey] {
		if o.opened[number] == "" && !o.left(number) {
			o.wrong("operation %s is watched and not open", number)
		}
	}
}

// left tells whether an open operation is of a removed queue that is not swept yet.
func (o *operationChecker) left(number string) bool {
	op, err := storedOperation{number: number, record: o.hashes[opKey][number]}.read(o.lanes)
	return err == nil && o.hashes[endKey][number] == "" && slices.Contains(o.trash, op.UID)
}

// fired: nothing is counted of what was removed.
func (o *operationChecker) fired() {
	for uid, record := range o.hashes[firedKey] {
		if len(record) != 24 || slices.Contains(o.sets[removedKey], uid) {
			o.wrong("trigger %s fired and was removed, or cannot be read", uid)
		}
	}
}
