package redis

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// commitArgs gathers the arguments of a publish call: every name once, events
// as small numbers that refer to them, so that the script has little to read.
type commitArgs struct {
	queues, facets, keys, topics table
	subs                         table  // subscriptions
	classes                      table  // of events: a tenant, and the queues and subscriptions that take them
	queueOf                      []byte // of each facet
	classFacets, classSubs       []byte
	requests, events, digests    []byte
	extras                       []byte // of events that are to be held or were
	openIndex                    []byte // of operations: their event, queue, subject, payload if it is long
	openings, payloads           []string
	subjects                     table
	bodies                       []string
	nRequests, nEvents, nDigests uint32
	scratch                      []byte
	used                         map[uint32]bool
	head                         []byte // of the request at hand: events, digests, queues
	last                         int    // where the last request that was told begins
	version                      uint64 // of it
}

// subsFrom is added to the numbers of subscriptions where a request names its sinks.
const subsFrom = 1 << 24

// requestHead is what stands before a request's head: its version, and how many are alike.
const requestHead = 8 + 4

// table numbers names from 1 in the order they come.
type table struct {
	index map[string]uint32
	names []string
}

func newCommitArgs() *commitArgs {
	p := &commitArgs{used: map[uint32]bool{}}
	for _, t := range []*table{&p.queues, &p.facets, &p.keys, &p.topics, &p.subs, &p.classes, &p.subjects} {
		t.index = map[string]uint32{}
	}
	return p
}

// of is a name's number; fresh says that it is new. name is stored for a new one.
func (t *table) of(key []byte, name func() string) (n uint32, fresh bool) {
	if n, ok := t.index[string(key)]; ok {
		return n, false
	}
	t.names = append(t.names, name())
	n = uint32(len(t.names))
	t.index[string(key)] = n
	return n, true
}

func (t *table) text(s string) uint32 {
	if n, ok := t.index[s]; ok {
		return n
	}
	t.names = append(t.names, s)
	t.index[s] = uint32(len(t.names))
	return uint32(len(t.names))
}

func (t *table) count() uint32 { return uint32(len(t.names)) }

// request adds one. Those that are alike, one after the other, are told once.
func (p *commitArgs) request(c *millrace.Commit) {
	clear(p.used)
	digests := p.nDigests
	for i := range c.Events {
		p.event(&c.Events[i])
	}
	p.nRequests++
	head := p.head[:0]
	for _, n := range [...]uint32{uint32(len(c.Events)), p.nDigests - digests, uint32(len(p.used))} {
		head = binary.LittleEndian.AppendUint32(head, n)
	}
	for _, q := range slices.Sorted(maps.Keys(p.used)) {
		head = binary.LittleEndian.AppendUint32(head, q)
	}
	p.head = head
	if p.nRequests > 1 && p.version == c.Version && bytes.Equal(head, p.requests[p.last+requestHead:]) {
		times := p.requests[p.last+8:]
		binary.LittleEndian.PutUint32(times, binary.LittleEndian.Uint32(times)+1)
		return
	}
	p.last, p.version = len(p.requests), c.Version
	p.requests = binary.LittleEndian.AppendUint64(p.requests, math.Float64bits(float64(c.Version)))
	p.requests = binary.LittleEndian.AppendUint32(p.requests, 1)
	p.requests = append(p.requests, head...)
}

func (p *commitArgs) event(ev *millrace.CommitEvent) {
	class := p.class(ev)
	topic := p.topics.text(ev.Topic)
	key, remembered := uint32(0), uint32(0)
	if ev.Key != "" {
		key = p.key(ev)
	}
	if ev.Remembered {
		remembered = 1
		p.nDigests++
		p.digests = append(p.digests, ev.Digest[:]...)
	}
	for _, n := range [...]uint32{class, topic, key, remembered} {
		p.events = binary.LittleEndian.AppendUint32(p.events, n)
	}
	p.nEvents++
	p.extra(ev)
	if len(ev.Operations) > 0 && ev.Delay <= 0 {
		p.opening(ev)
		p.bodies = append(p.bodies, storedTracked(ev.Body, &ev.Operations[0]))
		return
	}
	p.bodies = append(p.bodies, storedBody(ev.Body)) // also of one that goes nowhere: somebody may watch
}

// extra tells what few events have: a delay and the id to find them by, or the name
// under which they were held.
func (p *commitArgs) extra(ev *millrace.CommitEvent) {
	if ev.Delay <= 0 && ev.From == 0 {
		return
	}
	p.extras = binary.LittleEndian.AppendUint32(p.extras, p.nEvents)
	for _, f := range [...]float64{float64(spanMillis(max(ev.Delay, 0))), float64(ev.From)} {
		p.extras = binary.LittleEndian.AppendUint64(p.extras, math.Float64bits(f))
	}
	alias := aliasOf(ev.Tenant, ev.ID)
	p.extras = binary.LittleEndian.AppendUint16(p.extras, uint16(len(alias)))
	p.extras = append(p.extras, alias...)
}

// opening tells of the operations of an event.
func (p *commitArgs) opening(ev *millrace.CommitEvent) {
	for i := range ev.Operations {
		o := &ev.Operations[i]
		text, payload := openingText([]byte{0}, ev.Tenant, o)
		subject, long := uint32(0), uint32(0)
		if o.Subject != "" {
			subject = p.subjects.text(bySubject(o.Subject))
		}
		if payload != "" {
			p.payloads = append(p.payloads, payload)
			long = uint32(len(p.payloads))
		}
		p.openings = append(p.openings, text)
		for _, n := range [...]uint32{p.nEvents, p.queues.text(o.Queue), subject, long} {
			p.openIndex = binary.LittleEndian.AppendUint32(p.openIndex, n)
		}
	}
}

func (p *commitArgs) key(ev *millrace.CommitEvent) uint32 {
	p.scratch = append(append(append(p.scratch[:0], ev.Tenant...), 0), ev.Key...)
	n, _ := p.keys.of(p.scratch, func() string { return string(p.scratch) })
	return n
}

// class is the number of the facets and subscriptions that an event goes to, taken together.
func (p *commitArgs) class(ev *millrace.CommitEvent) uint32 {
	p.scratch = append(p.scratch[:0], ev.Tenant...)
	for _, q := range ev.Queues {
		p.used[p.queues.text(q)] = true
		p.scratch = append(append(p.scratch, 0), q...)
	}
	for _, s := range ev.Batches {
		p.used[subsFrom+p.subs.text(s)] = true
		p.scratch = append(append(p.scratch, 1), s...)
	}
	n, fresh := p.classes.of(p.scratch, func() string { return "" })
	if fresh {
		p.classSubs = binary.LittleEndian.AppendUint32(p.classSubs, uint32(len(ev.Batches)))
		for _, s := range ev.Batches {
			p.classSubs = binary.LittleEndian.AppendUint32(p.classSubs, p.subs.text(s))
		}
		p.classFacets = binary.LittleEndian.AppendUint32(p.classFacets, uint32(len(ev.Queues)))
		for _, q := range ev.Queues {
			p.classFacets = binary.LittleEndian.AppendUint32(p.classFacets, p.facet(q, ev.Tenant))
		}
	}
	return n
}

func (p *commitArgs) facet(queue, tenant string) uint32 {
	q := p.queues.text(queue)
	p.scratch = append(binary.LittleEndian.AppendUint32(p.scratch[:0], q), tenant...)
	n, fresh := p.facets.of(p.scratch, func() string { return tenant })
	if fresh {
		p.queueOf = binary.LittleEndian.AppendUint32(p.queueOf, q)
	}
	return n
}

// args puts the arguments in the order in which the script reads them.
func (p *commitArgs) args(head []string) []string {
	var counts []byte
	for _, n := range [...]uint32{
		p.queues.count(), p.facets.count(), p.keys.count(), p.topics.count(), p.classes.count(),
		p.nRequests, p.nEvents, p.nDigests, p.subs.count(),
		uint32(len(p.openings)), p.subjects.count(), uint32(len(p.payloads)),
	} {
		counts = binary.LittleEndian.AppendUint32(counts, n)
	}
	list := append(head, string(counts))
	for _, t := range []*table{&p.queues, &p.facets, &p.keys, &p.topics, &p.subs} {
		list = append(list, t.names...)
	}
	if len(p.openings) > 0 {
		list = append(append(list, rueidis.BinaryString(p.openIndex)), p.openings...)
		list = append(append(list, p.subjects.names...), p.payloads...)
	}
	for _, packed := range [][]byte{p.queueOf, p.classFacets, p.requests, p.events, p.digests, p.extras} {
		list = append(list, rueidis.BinaryString(packed))
	}
	if p.subs.count() > 0 {
		list = append(list, rueidis.BinaryString(p.classSubs))
	}
	return append(list, p.bodies...)
}
