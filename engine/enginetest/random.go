package enginetest

import (
	orderBy "cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/millrace-dev/millrace"
)

func randomPromises() []promise {
	return []promise{
		{"AnEngineAnswersRandomOperationsAsTheModelDoes", answersAsTheModel},
		{"AnEngineWithDeepFacetsAnswersAsTheModelDoes", deepFacetsAsTheModel},
	}
}

func answersAsTheModel(t *testing.T, c Config) { runRandom(t, c, c.Runs, 400, 5, 6) }

// deepFacetsAsTheModel has few tenants with hundreds of messages each: more
// than an engine may keep at hand.
func deepFacetsAsTheModel(t *testing.T, c Config) { runRandom(t, c, (c.Runs+7)/8, 150, 90, 70) }

// runRandom runs random operations on engine and model side by side, with
// commits and leases of up to so many messages. MILLRACE_SEED moves the seeds,
// for longer searches.
func runRandom(t *testing.T, c Config, runs, operations, commits, leases int) {
	first, _ := strconv.ParseUint(os.Getenv("MILLRACE_SEED"), 10, 64)
	for seed := first + 1; seed <= first+uint64(runs); seed++ {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			p := newPair(t, c, seed, commits, leases)
			for range operations {
				p.operate()
				p.judge()
			}
			p.finish()
		})
	}
}

// pair is an engine and a model that are told the same.
type pair struct {
	*rig
	model  *Model
	random *rand.Rand
	known  []string // queues that the lanes know
	serves []string // subscriptions that the lanes know
	out    []lent   // leases, live or not
	away   []away   // batches that were taken, pending or not
	ids    int
	sent   []millrace.CommitEvent // with an id
	trace  []string

	commits, leases int  // messages at most
	turnsOpen       bool // the order of the rings is open, after a reopen
	court           *court

	seen, expected *screen         // what engine and model have shown
	heard, told    *hints          // what engine and model have hinted
	unheard        map[uint64]bool // operations that were watched before a reopen: whether they are still is open
	triggers       []string
}

// lent is what one lease call of the pair gave.
type lent struct {
	lane  int
	queue string
	held
}

func newPair(t *testing.T, c Config, seed uint64, commits, leases int) *pair {
	r := openWith(t, c, millrace.EngineOptions{DedupeWindow: 24 * time.Hour})
	p := &pair{rig: r, model: NewModel(c.Lanes, time.Now), random: rand.New(rand.NewPCG(seed, 7))}
	p.model.window = r.options.DedupeWindow
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; the last operations were:\n%s", seed, strings.Join(p.trace[max(0, len(p.trace)-25):], "\n"))
		}
	})
	p.sit()
	p.seen, p.expected = r.view(r), r.view(p.model)
	p.listen()
	p.commits, p.leases = commits, leases
	for range 2 {
		p.addQueue()
		p.addSub()
	}
	return p
}

// durations that are negative mean "none", whatever their size.
func sameDue() cmp.Option {
	return cmp.Comparer(func(a, b time.Duration) bool { return a == b || a < 0 && b < 0 })
}

// both asks engine and model the same and fails unless they answer the same.
func both[A any](p *pair, what string, ask func(millrace.Engine) (A, error)) A {
	p.Helper()
	p.trace = append(p.trace, what)
	want, wantErr := ask(p.model)
	got, gotErr := ask(p.Engine)
	if millrace.CodeOf(gotErr) != millrace.CodeOf(wantErr) {
		p.Fatalf("%s: got error %v, want %v", what, gotErr, wantErr)
	}
	if reflect.DeepEqual(want, got) {
		return got
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(compareExits), sameDue()); diff != "" {
		p.Fatalf("%s differs (-model +engine):\n%s", what, diff)
	}
	return got
}

// compareExits orders what left; engines tell it in any order.
func compareExits(a, b millrace.Exit) int {
	return orderBy.Or(orderBy.Compare(a.Queue, b.Queue), orderBy.Compare(a.Name, b.Name))
}

// operate does one random operation.
func (p *pair) operate() {
	if p.random.IntN(3) == 0 {
		p.pass(time.Duration(p.random.IntN(4000)) * time.Millisecond)
	}
	if p.random.IntN(40) == 0 {
		p.pass(time.Minute)
	}
	lane := p.random.IntN(p.config.Lanes)
	if p.random.IntN(5) < 2 {
		p.operateBatches(lane)
		return
	}
	if p.random.IntN(4) == 0 {
		p.operateOperations(lane)
		return
	}
	switch n := p.random.IntN(100); {
	case n < 27:
		p.publishSome(lane)
	case n < 47:
		p.leaseSome(lane)
	case n < 64:
		p.settleSome()
	case n < 69:
		p.extendSome()
	case n < 78:
		p.stepSome(lane)
	case n < 83:
		p.compareLane(lane)
	case n < 94:
		p.manageSome(lane, n)
	default:
		p.operateRarely(lane, n)
	}
}

func (p *pair) manageSome(lane, n int) {
	switch n {
	case 83, 84, 85:
		p.setSomeTenant(lane)
	case 86, 87:
		p.redriveSome(lane)
	case 88:
		p.dropSome(lane)
	case 89:
		p.purgeSome(lane)
	case 90:
		p.releaseSome(lane)
	case 91:
		p.injectSome(lane)
	case 92:
		p.cancelSome(lane)
	case 93:
		p.changeQueue()
	}
}

func (p *pair) operateRarely(lane, n int) {
	switch {
	case n == 94:
		p.addQueue()
	case n == 95:
		p.changeQueue()
	case n == 96 && len(p.known) > 1:
		p.removeQueue()
	case n == 97:
		p.sweepSome(lane)
	case n == 98:
		p.publishStale(lane)
	case n == 99 && p.random.IntN(2) == 0:
		p.reopenBoth()
	}
}

// when is the now of an operation: sometimes one that lies back.
func (p *pair) when() time.Time {
	if p.random.IntN(8) == 0 {
		return p.now.Add(-time.Duration(p.random.IntN(9000)) * time.Millisecond)
	}
	return p.now
}

func (p *pair) publishSome(lane int) {
	c := millrace.Commit{Now: p.when(), Version: p.version}
	for range 1 + p.random.IntN(p.commits) {
		c.Events = append(c.Events, p.someEvent())
	}
	c.Events = p.tracking(append(c.Events, p.someHeld(lane)...))
	if l := p.model.lanes[lane]; p.model.full(l, c) != "" {
		c.Now = at(l.t) // whether a refusal moves the clock is open
	}
	both(p, fmt.Sprintf("publish in %d at %v: %s", lane, c.Now, describe(c.Events)), func(e millrace.Engine) (millrace.Committed, error) {
		return e.Publish(p.ctx(), lane, c)
	})
}

func (p *pair) someEvent() millrace.CommitEvent {
	if p.random.IntN(6) == 0 {
		if e, was := p.somethingSent(); was {
			return e
		}
	}
	tenant := string(rune('a' + p.random.IntN(6)))
	p.ids++
	e := event(tenant, strings.Repeat("x", p.random.IntN(40))+strconv.Itoa(p.ids))
	e.Topic = []string{"orders", "users"}[p.random.IntN(2)]
	e.Key = []string{"", "k", "k:2"}[p.random.IntN(3)]
	if p.random.IntN(12) == 0 {
		e.ID, e.Delay = strconv.Itoa(p.ids), p.soon()
		e = known(e, e.ID)
		p.sent = append(p.sent, e)
		return e
	}
	for _, q := range p.known {
		if p.random.IntN(3) > 0 {
			e.Queues = append(e.Queues, q)
		}
	}
	e.Batches = p.someSubs()
	if p.random.IntN(3) == 0 {
		return e
	}
	e = known(e, strconv.Itoa(p.ids))
	p.sent = append(p.sent, e)
	return e
}

// somethingSent is an event with an id that was given before, if there was one:
// with or without a delay, whatever it had.
func (p *pair) somethingSent() (millrace.CommitEvent, bool) {
	if len(p.sent) == 0 {
		return millrace.CommitEvent{}, false
	}
	e := p.sent[max(0, len(p.sent)-1-p.random.IntN(20))]
	e.Queues = slices.DeleteFunc(slices.Clone(e.Queues), func(q string) bool { return !slices.Contains(p.known, q) })
	e.Batches = slices.DeleteFunc(slices.Clone(e.Batches), func(uid string) bool { return !slices.Contains(p.serves, uid) })
	return e, true
}

func describe(events []millrace.CommitEvent) string {
	var s []string
	for _, e := range events {
		s = append(s, fmt.Sprintf("%s/%s→%d+%d", e.Tenant, e.Key, len(e.Queues), len(e.Batches)))
	}
	return strings.Join(s, " ")
}

func (p *pair) someQueue() string { return p.known[p.random.IntN(len(p.known))] }

func (p *pair) leaseSome(lane int) {
	l := millrace.Lease{Now: p.when(), Queue: p.someQueue(), Max: 1 + p.random.IntN(p.leases), MaxBytes: 1 << 20, Token: p.token()}
	if p.random.IntN(3) == 0 {
		l.MaxBytes = 1 + p.random.IntN(90)
	}
	l.For, l.Consumer = p.soon(), p.someConsumer()
	if s := p.queues[l.Queue]; !s.Ordered && !s.Tracked && p.random.IntN(8) == 0 {
		l.For = 0
	}
	what := fmt.Sprintf("lease %d of %s in %d at %v for %v, %d bytes", l.Max, l.Queue, lane, l.Now, l.For, l.MaxBytes)
	done := both(p, what, func(e millrace.Engine) (millrace.Leased, error) { return e.Lease(p.ctx(), lane, l) })
	if len(done.Messages) > 0 {
		p.out = append(p.out, lent{lane, l.Queue, held{done, l.Token}})
	}
}

// soon is a duration: often one that makes many things due at one moment.
func (p *pair) soon() time.Duration {
	if p.random.IntN(2) == 0 {
		return time.Duration(1+p.random.IntN(3)) * 5 * time.Second
	}
	return time.Duration(1+p.random.IntN(30000)) * time.Millisecond
}

// someLease picks a lease, live or not, and some of its receipts, wrong ones among them.
func (p *pair) someLease() (lent, []millrace.SettleItem) {
	h := p.out[max(0, len(p.out)-1-p.random.IntN(6))]
	items := h.items()
	p.random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	items = items[:1+p.random.IntN(len(items))]
	switch p.random.IntN(12) {
	case 0:
		items = append(items, items[0])
	case 1:
		items[0].Token[8] ^= 1
	}
	return h, items
}

func (p *pair) settleSome() {
	if len(p.out) == 0 {
		return
	}
	h, items := p.someLease()
	p.settleItems(h, items)
}

func (p *pair) settleItems(h lent, items []millrace.SettleItem) {
	s := millrace.Settle{Now: p.when(), Queue: h.queue, Items: items}
	s.Verb = []millrace.Verb{millrace.Ack, millrace.Ack, millrace.Retry, millrace.Retry, millrace.Bury}[p.random.IntN(5)]
	if s.Verb != millrace.Ack && p.random.IntN(2) == 0 {
		delay := p.soon()
		for i := range items {
			items[i].Delay, items[i].Error = delay, "later"
		}
	}
	if s.Verb == millrace.Ack && p.random.IntN(2) == 0 {
		items[0].Output = []byte(`"done"`)
	}
	what := fmt.Sprintf("settle %c of %s in %d at %v: %v", s.Verb, s.Queue, h.lane, s.Now, seqs(items))
	both(p, what, func(e millrace.Engine) (millrace.Settled, error) { return e.Settle(p.ctx(), h.lane, s) })
}

func seqs(items []millrace.SettleItem) []uint64 {
	var s []uint64
	for _, item := range items {
		s = append(s, item.Name)
	}
	return s
}

func (p *pair) extendSome() {
	if len(p.out) == 0 {
		return
	}
	h, items := p.someLease()
	p.extendItems(h, items)
}

func (p *pair) extendItems(h lent, items []millrace.SettleItem) {
	slices.SortFunc(items, func(a, b millrace.SettleItem) int { return int(a.Name) - int(b.Name) })
	items = slices.CompactFunc(items, func(a, b millrace.SettleItem) bool { return a.Name == b.Name })
	x := millrace.Extend{Now: p.when(), Queue: h.queue, Items: items}
	x.For = p.soon()
	for p.sameDeadline(h, x) {
		x.For += time.Millisecond
	}
	what := fmt.Sprintf("extend in %s in %d at %v for %v: %v", x.Queue, h.lane, x.Now, x.For, seqs(items))
	both(p, what, func(e millrace.Engine) (millrace.Extended, error) { return e.Extend(p.ctx(), h.lane, x) })
}

// sameDeadline tells whether an extension would leave a message where it is: the
// contract does not say whether its place among its group changes then.
func (p *pair) sameDeadline(h lent, x millrace.Extend) bool {
	l := p.model.lanes[h.lane]
	q := l.queues[h.queue]
	return q != nil && slices.ContainsFunc(q.messages, func(m *modelMessage) bool {
		named := slices.ContainsFunc(x.Items, func(i millrace.SettleItem) bool { return i.Name == m.name })
		return named && m.token == h.token && m.due == max(l.t, x.Now.UnixMilli())+whole(x.For)
	})
}

func (p *pair) stepSome(lane int) {
	now, limit := p.when(), 1+p.random.IntN(2*p.leases)
	both(p, fmt.Sprintf("step %d in %d at %v", limit, lane, now), func(e millrace.Engine) (millrace.Stepped, error) {
		return e.Step(p.ctx(), lane, now, limit)
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
