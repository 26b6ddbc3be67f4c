package redis

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// subChecker verifies one subscription of a lane.
type subChecker struct {
	*checker
	uid, name string
	numbers   subNumbers
	batches   map[string]batchRecord
}

// subNumbers are a subscription's, as the scripts pack them.
type subNumbers struct {
	current, count, bytes, blocking, ready, pending, inside, fails, round, parked, probing, since int64
	sent, failed, dropped, skipped, queued, lost                                                  int64
}

func readSubNumbers(packed string) (s subNumbers) {
	into := []*int64{
		&s.current, &s.count, &s.bytes, &s.blocking, &s.ready, &s.pending, &s.inside, &s.fails, &s.round, &s.parked, &s.probing, &s.since,
		&s.sent, &s.failed, &s.dropped, &s.skipped, &s.queued, &s.lost,
	}
	for i, n := range readNumbers(packed, len(into)) {
		*into[i] = n
	}
	return s
}

// batchRecord is what is stored of a batch, as the scripts pack it.
type batchRecord struct {
	state                                string
	attempts, created, due, count, bytes int64
	token, node                          string
}

// recordPrefix is what stands before a batch's texts: state, five numbers, token.
const recordPrefix = 1 + 5*8 + 16

func readBatchRecord(s string) (b batchRecord, ok bool) {
	if len(s) < recordPrefix+2 {
		return b, false
	}
	b.state, b.token = s[:1], s[recordPrefix-16:recordPrefix]
	for i, n := range readNumbers(s[1:], 5) {
		*[]*int64{&b.attempts, &b.created, &b.due, &b.count, &b.bytes}[i] = n
	}
	size := int(binary.LittleEndian.Uint16([]byte(s[recordPrefix:])))
	if len(s) < recordPrefix+2+size {
		return b, false
	}
	b.node = s[recordPrefix+2:][:size]
	return b, true
}

// checkSubs verifies the subscriptions that the lane knows, and what removed ones left.
func (c *checker) checkSubs(trash []string) {
	known := c.subs(trash)
	listed, turns := map[string]float64{}, c.lists[turnsKey]
	for _, uid := range known {
		s := &subChecker{checker: c, uid: uid, name: subKey + uid, batches: map[string]batchRecord{}}
		s.numbers = readSubNumbers(c.hashes[s.name]["numbers"])
		s.check(listed)
	}
	for _, uid := range turns {
		if !slices.Contains(known, uid) {
			c.wrong("the ring of subscriptions holds %s, which is none", uid)
		}
	}
	if c.hashes[""]["wanted"] != "" && len(turns) > 0 {
		c.wrong("the lane waits for batches, and %d subscriptions are in the ring", len(turns))
	}
	for entry, at := range c.scores[batchesKey] {
		uid, name, _ := strings.Cut(entry, "!")
		if slices.Contains(trash, uid) {
			continue
		}
		if want, ok := listed[entry]; !ok || want != at {
			c.wrong("batch %s of %s is listed at %.0f and should not be", name, uid, at)
		}
		delete(listed, entry)
	}
	for entry := range listed {
		c.wrong("batch %s is not listed", entry)
	}
}

// subs are the uids that the lane knows. What removed ones left is counted; every other
// key of a subscription must belong to one that is known.
func (c *checker) subs(trash []string) (known []string) {
	for name, fields := range c.hashes {
		if uid, ok := strings.CutPrefix(name, subKey); ok && !strings.Contains(uid, ":") && fields["version"] != "" {
			known = append(known, uid)
			if slices.Contains(c.sets[removedKey], uid) {
				c.wrong("subscription %s is known though it was removed", uid)
			}
		}
	}
	for name := range c.allNames() {
		rest, ok := strings.CutPrefix(name, subKey)
		uid, kind, _ := strings.Cut(rest, ":")
		switch {
		case !ok || slices.Contains(known, uid):
		case !slices.Contains(trash, uid):
			c.wrong("key %q belongs to no subscription", name)
		case strings.HasPrefix(":"+kind, eventsKey):
			c.hold(c.lists[name])
		}
	}
	return known
}

func (c *checker) hold(names []string) {
	for _, name := range names {
		c.holders[name]++
	}
}

// bad names what is wrong with the subscription.
func (s *subChecker) bad(format string, args ...any) {
	s.wrong("subscription %s: "+format, append([]any{s.uid}, args...)...)
}

func (s *subChecker) check(listed map[string]float64) {
	for name, record := range s.hashes[s.name+batchKey] {
		b, ok := readBatchRecord(record)
		if !ok || letterKeys()[b.state] == "" {
			s.bad("batch %s cannot be read", name)
			continue
		}
		s.batches[name] = b
		s.batch(name, b)
		if b.state != "P" {
			listed[s.uid+"!"+name], _ = strconv.ParseFloat(name, 64)
		}
	}
	s.stateSets()
	s.eventLists()
	s.counts()
	s.turn()
	s.park()
	if n := len(s.lists[s.name+logKey]); n > 100 {
		s.bad("%d attempts are logged", n)
	}
}

// letterKeys are the sorted sets of the states.
func letterKeys() map[string]string {
	return map[string]string{"E": earlyKey, "R": readyKey, "P": pendingKey, "D": deadKey}
}

// batch: it has its events, it is due as its state asks for, and only a pending one has a token.
func (s *subChecker) batch(name string, b batchRecord) {
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		s.bad("%q is no name of a batch", name)
	}
	current, events := s.numbers.current == n, s.lists[s.name+eventsKey+name]
	count := b.count
	if current {
		count = s.numbers.count
	}
	if int64(len(events)) != count || count == 0 {
		s.bad("batch %s has %d events, counted as %d", name, len(events), count)
	}
	s.hold(events)
	if kind := map[string]string{"E": "B", "P": "T", "D": "Y"}[b.state]; b.due > 0 && kind != "" {
		s.due[fmt.Sprintf("%s%s!%016s", kind, s.uid, name)] = float64(b.due)
	}
	if (b.due == 0) != (b.state == "R") && b.state != "D" {
		s.bad("batch %s is %s and due at %d", name, b.state, b.due)
	}
	if held := strings.Trim(b.token, "\x00") != ""; b.state != "P" && (held || b.node != "") {
		s.bad("batch %s is %s, and %q has it", name, b.state, b.node)
	}
	if current && (b.state != "E" || b.attempts > 0) {
		s.bad("batch %s collects, and is %s after %d attempts", name, b.state, b.attempts)
	}
}

// stateSets: each batch is in the set of its state, at its name, and in no other.
func (s *subChecker) stateSets() {
	for letter, key := range letterKeys() {
		want := map[string]float64{}
		for name, b := range s.batches {
			if b.state == letter {
				want[name], _ = strconv.ParseFloat(name, 64)
			}
		}
		if have := s.scores[s.name+key]; !maps.Equal(want, have) {
			s.bad("%s holds %v, want %v", key, have, want)
		}
	}
}

// eventLists: events are those of a batch that there is.
func (s *subChecker) eventLists() {
	for key := range s.lists {
		if name, ok := strings.CutPrefix(key, s.name+eventsKey); ok && s.batches[name].state == "" {
			s.bad("events of %s are left over", name)
		}
	}
}

// counts: they are what they count.
func (s *subChecker) counts() {
	n, have := s.numbers, subNumbers{}
	for name, b := range s.batches {
		size := int64(len(s.lists[s.name+eventsKey+name]))
		switch b.state {
		case "R":
			have.ready++
		case "P":
			have.pending++
		}
		if b.state == "D" {
			have.lost += size
		} else {
			have.queued += size
		}
	}
	if n.ready != have.ready || n.pending != have.pending || n.queued != have.queued || n.lost != have.lost {
		s.bad("ready, pending, events queued and lost are %d %d %d %d, counted as %d %d %d %d",
			have.ready, have.pending, have.queued, have.lost, n.ready, n.pending, n.queued, n.lost)
	}
	s.named()
}

// named: what collects and what blocks are batches.
func (s *subChecker) named() {
	n := s.numbers
	if n.current == 0 && (n.count != 0 || n.bytes != 0) || n.current != 0 && s.batches[strconv.FormatInt(n.current, 10)].state == "" {
		s.bad("%d collects, with %d events", n.current, n.count)
	}
	if b := s.batches[strconv.FormatInt(n.blocking, 10)]; n.blocking != 0 && (b.state != "E" || b.attempts == 0 || !s.flag(0)) {
		s.bad("%d blocks, and is %q after %d attempts", n.blocking, b.state, b.attempts)
	}
}

// flag is whether the subscription is ordered, paused, disabled.
func (s *subChecker) flag(i int) bool {
	conf := s.hashes[s.name]["conf"]
	return i < len(conf) && conf[i] == '1'
}

// turn: who can be served is in the ring, and nobody is there twice.
func (s *subChecker) turn() {
	n, conf := s.numbers, strings.Split(s.hashes[s.name]["conf"]+"     ", " ")
	most, _ := strconv.ParseInt(conf[4], 10, 64)
	if s.flag(0) || n.probing == 1 {
		most = 1
	}
	servable := n.ready > 0 && n.pending < most && n.parked == 0 && n.blocking == 0 && !s.flag(1) && !s.flag(2)
	times := int64(0)
	for _, uid := range s.lists[turnsKey] {
		if uid == s.uid {
			times++
		}
	}
	if times != n.inside || servable && times == 0 {
		s.bad("it is in the ring %d times, counted as %d; servable: %t", times, n.inside, servable)
	}
}

// park: its end is due, it is followed by probing, and whoever fails says why.
func (s *subChecker) park() {
	n := s.numbers
	if n.parked > 0 {
		s.due["K"+s.uid+"!"] = float64(n.parked)
	}
	if n.parked > 0 && n.probing == 0 || n.probing == 1 && n.fails == 0 {
		s.bad("parked until %d, probing %d, after %d failures", n.parked, n.probing, n.fails)
	}
	if _, told := s.hashes[s.name]["reason"]; told != (n.since > 0) {
		s.bad("it fails since %d, and says why: %t", n.since, told)
	}
}
