package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// operateOperations does one random operation on operations or triggers.
func (p *pair) operateOperations(lane int) {
	switch n := p.random.IntN(100); {
	case n < 15:
		p.startSome(lane)
	case n < 30:
		p.cancelOperation(lane)
	case n < 50:
		p.workSome(lane)
	case n < 60:
		p.reportSome()
	case n < 75:
		p.readSome(lane)
	case n < 85:
		p.listSome(lane)
	case n < 90:
		p.compareCounts(lane, p.someQueue())
	default:
		p.fireSome(lane)
	}
}

// workSome leases, tells of progress, sometimes wishes to cancel and extends, and settles or not, as a worker does.
func (p *pair) workSome(lane int) {
	before := len(p.out)
	for range 4 {
		if len(p.out) == before {
			p.leaseSome(lane)
		}
	}
	if len(p.out) == before {
		return
	}
	h := p.out[len(p.out)-1]
	for range p.random.IntN(4) {
		p.report(h, h.items())
	}
	if p.random.IntN(3) == 0 && p.queues[h.queue].Tracked {
		p.cancelNumber(lane, h.Messages[0].Operation.Number)
		p.extendItems(h, h.items())
	}
	if p.random.IntN(4) > 0 {
		p.settleItems(h, h.items())
	}
}

// startSome starts an operation, also in queues that refuse it; what is refused carries
// the lane's own time, so that it does not matter whether a refusal moves the clock.
func (p *pair) startSome(lane int) {
	q := append(slices.Clone(p.known), "00000000000000cc")[p.random.IntN(len(p.known)+1)]
	for range 3 {
		if !p.queues[q].Tracked {
			q = p.someQueue()
		}
	}
	p.ids++
	s := p.starting(q, p.someTenant()+fmt.Sprint(p.ids))
	s.Now, s.Key = p.when(), []string{"", "k", "k:2"}[p.random.IntN(3)]
	settings := p.queues[q]
	if !settings.Ordered && p.random.IntN(3) == 0 {
		s.Delay = p.soon()
	}
	if p.random.IntN(2) == 0 {
		s = deduped(s, fmt.Sprint(p.random.IntN(4)))
	}
	l := p.model.lanes[lane]
	full := l.queues[q] != nil && settings.MaxLength > 0 && l.queues[q].count(s.Tenant, waiting) >= settings.MaxLength
	if !settings.Tracked || full {
		s.Now = at(l.t)
	}
	both(p, fmt.Sprintf("start %s in %s in %d at %v after %v, %v", s.Body, q, lane, s.Now, s.Delay, s.Deduped), func(e millrace.Engine) (millrace.Started, error) {
		return e.Start(p.ctx(), lane, s)
	})
}

// someNumber is the number of an operation that is there, often an open one, or of none.
func (p *pair) someNumber(lane int) uint64 {
	all := p.model.lanes[lane].operations
	if len(all) == 0 || p.random.IntN(10) == 0 {
		return 77
	}
	op := all[p.random.IntN(len(all))]
	for range 3 {
		if op.Status.Finished() {
			op = all[p.random.IntN(len(all))]
		}
	}
	return op.ID.Number
}

func (p *pair) cancelOperation(lane int) { p.cancelNumber(lane, p.someNumber(lane)) }

func (p *pair) cancelNumber(lane int, number uint64) {
	now, l := p.when(), p.model.lanes[lane]
	if op, err := l.shown(l.t, number); err != nil || op.Status.Finished() {
		now = at(l.t) // whether a refusal moves the clock is open
	}
	both(p, fmt.Sprintf("cancel %d in %d at %v", number, lane, now), func(e millrace.Engine) (millrace.StoredOperation, error) {
		return e.CancelOperation(p.ctx(), lane, now, number)
	})
}

// reportSome tells of progress under a lease, live or not, sometimes of another message.
func (p *pair) reportSome() {
	if len(p.out) == 0 {
		return
	}
	h, items := p.someLease()
	for range 4 {
		if !p.queues[h.queue].Tracked {
			h, items = p.someLease()
		}
	}
	for range 1 + p.random.IntN(2) {
		p.report(h, items)
	}
}

func (p *pair) report(h lent, items []millrace.SettleItem) {
	r := millrace.ProgressReport{Name: items[0].Name, Token: items[0].Token}
	for _, m := range h.Messages {
		if m.Name == r.Name || p.random.IntN(20) == 0 {
			r.Number = m.Operation.Number
		}
	}
	r.Percent, r.Note = p.random.IntN(101), []string{"", "far", "farther"}[p.random.IntN(3)]
	l := p.model.lanes[h.lane]
	r.Now = p.when()
	if q := l.queues[h.queue]; q == nil || q.live(max(l.t, r.Now.UnixMilli()), items[0]) == nil || r.Number == 0 {
		r.Now = at(l.t)
	}
	both(p, fmt.Sprintf("report %+v in %d", r, h.lane), func(e millrace.Engine) (struct{}, error) {
		return struct{}{}, e.Report(p.ctx(), h.lane, r)
	})
}

func (p *pair) readSome(lane int) {
	r := millrace.ReadOperation{Now: p.when(), Number: p.someNumber(lane), Watch: p.random.IntN(2) == 0}
	both(p, fmt.Sprintf("read %+v in %d", r, lane), func(e millrace.Engine) (millrace.StoredOperation, error) {
		return e.Operation(p.ctx(), lane, r)
	})
}

func (p *pair) listSome(lane int) {
	page := millrace.OperationPage{Now: p.when(), Limit: 1 + p.random.IntN(9), Tenant: []string{"", "", p.someTenant()}[p.random.IntN(3)]}
	which := p.random.IntN(3)
	if which != 0 {
		page.Subject = "link:" + p.someTenant()
	}
	if which != 1 {
		page.Queue = p.someQueue()
	}
	page.Status = []millrace.OperationStatus{
		"", "", millrace.OperationQueued, millrace.OperationRunning, millrace.OperationSuccess, millrace.OperationError, millrace.OperationCancelled,
	}[p.random.IntN(7)]
	for {
		next := p.compareListed(lane, page)
		if next == 0 {
			return
		}
		page.Before = next
	}
}

// listed is a page of operations.
type listed struct {
	List []millrace.StoredOperation
	Next uint64
}

func (p *pair) compareListed(lane int, page millrace.OperationPage) (next uint64) {
	p.Helper()
	return both(p, fmt.Sprintf("list %+v in %d", page, lane), func(e millrace.Engine) (listed, error) {
		list, next, err := e.ListOperations(p.ctx(), lane, page)
		return listed{list, next}, err
	}).Next
}

// tallied is what a queue has counted.
type tallied struct {
	Counts []millrace.OperationCount
	Total  millrace.Tally
}

func (p *pair) compareCounts(lane int, q string) {
	p.Helper()
	for _, b := range lengths() {
		c := millrace.CountQuery{Now: p.when(), Queue: q, Bucket: b, Since: start(), Until: p.now.Add(time.Hour)}
		both(p, fmt.Sprintf("count %+v in %d", c, lane), func(e millrace.Engine) (tallied, error) {
			counts, total, err := e.OperationCounts(p.ctx(), lane, c)
			return tallied{counts, total}, err
		})
	}
}

// compareOperations compares all operations of a lane, by queue and by subject, and what was counted.
func (p *pair) compareOperations(lane int) {
	p.Helper()
	pages := []millrace.OperationPage{{Queue: "0000000000000001"}}
	for _, q := range p.known {
		pages = append(pages, millrace.OperationPage{Queue: q})
		p.compareCounts(lane, q)
	}
	for tenant := 'a'; tenant <= 'f'; tenant++ {
		pages = append(pages, millrace.OperationPage{Subject: "link:" + string(tenant)})
	}
	for _, page := range pages {
		page.Now, page.Limit = p.now, 1000
		for next := uint64(1); next != 0; page.Before = next {
			next = p.compareListed(lane, page)
		}
	}
}

// fireSome fires a trigger, and removes it once in a while.
func (p *pair) fireSome(lane int) {
	if len(p.triggers) == 0 || p.random.IntN(12) == 0 {
		p.triggers = append(p.triggers, fmt.Sprintf("%016x", 0xf0000+len(p.triggers)))
		p.version++
		p.applyBoth(millrace.Apply{Version: p.version, Removed: p.triggers[:max(0, len(p.triggers)-2)]})
	}
	uid := p.triggers[max(0, len(p.triggers)-1-p.random.IntN(4))]
	f := millrace.Fire{Now: p.when(), UID: uid, PerMinute: p.random.IntN(4)}
	if l := p.model.lanes[lane]; l.removed[uid] {
		f.Now = at(l.t)
	}
	both(p, fmt.Sprintf("fire %+v in %d", f, lane), func(e millrace.Engine) (millrace.Fired, error) { return e.Fire(p.ctx(), lane, f) })
	both(p, fmt.Sprintf("fired %s in %d", uid, lane), func(e millrace.Engine) (millrace.Fired, error) { return e.Fired(p.ctx(), lane, uid) })
}

// listen begins to hear the hints of engine and model. Whether what was watched before is
// still so is open: the model forgets it, and what is heard of it does not count.
func (p *pair) listen() {
	p.Helper()
	if p.unheard == nil {
		p.unheard = map[uint64]bool{}
	}
	for _, l := range p.model.lanes {
		for _, op := range l.operations {
			p.unheard[op.ID.Number] = p.unheard[op.ID.Number] || op.watched
			op.watched = false
		}
	}
	p.heard, p.told = p.watch(), &hints{}
	p.Cleanup(p.model.Watch(p.told.hear))
	p.waitFor("the watch to stand", func() bool { return p.heard.count(millrace.HintAll, 0, "") > 0 })
}

// compareHeard fails unless engine and model have hinted the same changes of operations.
func (p *pair) compareHeard() {
	p.Helper()
	want := p.told.operations(p.unheard)
	p.waitFor("all hints of operations", func() bool {
		got := p.heard.operations(p.unheard)
		return !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(n uint64) bool { return got[n] < want[n] })
	})
	p.same("hints of operations", p.heard.operations(p.unheard), want)
}

// operations are how often each operation's change was heard, but for some.
func (h *hints) operations(but map[uint64]bool) map[uint64]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := map[uint64]int{}
	for _, hint := range h.list {
		if hint.Kind == millrace.HintOperation && !but[hint.Operation] {
			n[hint.Operation]++
		}
	}
	return n
}
