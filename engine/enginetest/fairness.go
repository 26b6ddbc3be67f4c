package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func fairnessPromises() []promise {
	return []promise{
		{"InAnyTMessagesEachOfTTenantsIsServedOnce", onceInAnyT},
		{"AHundredThousandTenantsAreServedInTurn", manyTenants},
		{"TurnsAreFairWhileTenantsComeAndGo", comeAndGo},
		{"TurnsAreFairWhileLeasesEndAndRetriesReturn", endAndReturn},
		{"APoisonousTenantStarvesNobody", poisonStarvesNobody},
		{"ANoisyTenantDoesNotDelayAQuietOne", noisyDoesNotDelay},
		{"LanesVisitedInProportionAreFairToAllTenants", proportionIsFair},
	}
}

// fair is one lane's queue under the eyes of a judge of turns.
type fair struct {
	*rig
	lane  int
	queue string
	turns *Turns
}

func (r *rig) fair(lane, maxAttempts int) *fair {
	return &fair{rig: r, lane: lane, queue: r.queue(maxAttempts), turns: NewTurns()}
}

// send publishes a message for each tenant in one commit.
func (f *fair) send(tenants ...string) {
	f.Helper()
	events := make([]millrace.CommitEvent, len(tenants))
	for i, tenant := range tenants {
		events[i] = event(tenant, "x", f.queue)
		f.turns.Waits(tenant)
	}
	f.publish(f.lane, events...)
}

// take leases up to n messages and judges the order of their tenants.
func (f *fair) take(n int, d time.Duration) held {
	f.Helper()
	h := f.leaseFor(f.lane, f.queue, n, d)
	for _, m := range h.Messages {
		if err := f.turns.Served(m.Tenant); err != nil {
			f.Fatal(err)
		}
	}
	f.same("tenants that wait", h.Tenants, f.turns.Waiting())
	return h
}

func onceInAnyT(t *testing.T, c Config) {
	r := open(t, c)
	f := r.fair(c.Lanes-1, 0)
	const tenants, depth = 7, 20
	for i := range tenants {
		for range depth {
			f.send(fmt.Sprint("t", i))
		}
	}
	var served []string
	for _, n := range []int{1, 2, 3, 5, 7, 8, 13, 21, 80} {
		for _, m := range f.take(n, minute).Messages {
			served = append(served, m.Tenant)
		}
	}
	r.same("served", len(served), tenants*depth)
	for i := range len(served) - tenants + 1 {
		seen := map[string]bool{}
		for _, tenant := range served[i : i+tenants] {
			seen[tenant] = true
		}
		if len(seen) != tenants {
			t.Fatalf("messages %d to %d are of %d tenants, want %d", i, i+tenants, len(seen), tenants)
		}
	}
}

func manyTenants(t *testing.T, c Config) {
	r := open(t, c)
	f := r.fair(0, 0)
	var names []string
	for i := range c.Tenants {
		names = append(names, fmt.Sprint("tenant-", i))
	}
	for i := 0; i < len(names); i += 500 {
		page := names[i:min(i+500, len(names))]
		f.send(page...)
		f.send(page[:len(page)/10]...)
		f.send(page[0], page[0])
	}
	total := r.stats(0, f.queue).Ready
	r.same("tenants", r.stats(0, f.queue).Tenants, int64(c.Tenants))
	seen := map[string]bool{}
	for count := int64(0); count < total; {
		h := f.take(1000, time.Hour)
		if len(h.Messages) == 0 {
			t.Fatalf("nothing left after %d of %d", count, total)
		}
		for _, m := range h.Messages {
			if count++; count <= int64(c.Tenants) {
				seen[m.Tenant] = true
			}
		}
		r.settled(0, f.queue, millrace.Ack, h.items()...)
	}
	r.same("tenants in the first turn", len(seen), c.Tenants)
	r.counts(0, f.queue, 0, 0, 0, 0)
}

func comeAndGo(t *testing.T, c Config) {
	r := open(t, c)
	f := r.fair(c.Lanes-1, 0)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 300 {
		var batch []string
		for range random.IntN(6) {
			batch = append(batch, fmt.Sprint("t", i/20+random.IntN(8)))
		}
		f.send(batch...)
		if i%5 == 0 {
			f.send("steady", "steady", "steady")
		}
		h := f.take(1+random.IntN(7), minute)
		r.settled(f.lane, f.queue, millrace.Ack, h.items()...)
	}
}

// ending is a message that will wait again at a moment, unless it is settled.
type ending struct {
	tenant string
	item   millrace.SettleItem
	at     time.Time
}

func endAndReturn(t *testing.T, c Config) {
	r := open(t, c)
	f := r.fair(0, 0)
	random := rand.New(rand.NewPCG(2, 2))
	var out []ending
	for i := range 300 {
		f.send(fmt.Sprint("t", random.IntN(12)), fmt.Sprint("t", random.IntN(5)))
		for _, m := range f.take(1+random.IntN(4), 5*time.Second).Messages {
			out = append(out, ending{m.Tenant, millrace.SettleItem{Name: m.Name, Token: r.lastToken()}, r.now.Add(5 * time.Second)})
		}
		out = f.settleSome(random, out)
		r.pass(time.Duration(1+random.IntN(2000)) * time.Millisecond)
		if i%4 == 0 {
			out = f.returned(out)
		}
	}
}

// settleSome retries or acks a message that is out and is still leased.
func (f *fair) settleSome(random *rand.Rand, out []ending) []ending {
	f.Helper()
	i := random.IntN(len(out) + 1)
	if i == len(out) || out[i].item.Delay > 0 || !f.now.Before(out[i].at) {
		return out
	}
	e := out[i]
	switch random.IntN(3) {
	case 0:
		f.settled(f.lane, f.queue, millrace.Ack, e.item)
	case 1:
		f.turns.Waits(e.tenant)
		f.settled(f.lane, f.queue, millrace.Retry, e.item)
	default:
		e.item.Delay = 3 * time.Second
		f.settled(f.lane, f.queue, millrace.Retry, e.item)
		e.at = f.now.Add(e.item.Delay)
		out = append(out, e)
	}
	return append(out[:i], out[i+1:]...)
}

// returned steps, and tells the judge of all that waits again.
func (f *fair) returned(out []ending) []ending {
	f.Helper()
	var rest []ending
	for _, e := range out {
		if f.now.Before(e.at) {
			rest = append(rest, e)
			continue
		}
		f.turns.Waits(e.tenant)
	}
	s := f.step(f.lane)
	f.same("returned", s.Expired+s.Returned, len(out)-len(rest))
	return rest
}

func poisonStarvesNobody(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	for i := range 50 {
		r.fill(0, q, "poison", fmt.Sprintf("good%d", i), fmt.Sprintf("fine%d", i))
	}
	served := map[string]int{}
	for range 30 {
		h := r.leaseFor(0, q, 3, time.Second)
		for i, m := range h.Messages {
			served[m.Tenant]++
			if m.Tenant != "p" {
				r.settled(0, q, millrace.Ack, h.item(i))
			}
		}
		r.pass(time.Second)
		r.step(0)
	}
	r.same("served", served, map[string]int{"p": 30, "g": 30, "f": 30})
}

func noisyDoesNotDelay(t *testing.T, c Config) {
	r := open(t, c)
	f := r.fair(0, 0)
	noise := make([]string, 1000)
	for i := range noise {
		noise[i] = "noisy"
	}
	f.send(noise...)
	f.take(10, minute)
	f.send("quiet")
	h := f.take(2, minute)
	if h.Messages[0].Tenant != "quiet" && h.Messages[1].Tenant != "quiet" {
		t.Error("a quiet tenant waits behind a noisy one's backlog")
	}
}

func proportionIsFair(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	tenants := min(1000, c.Tenants)
	const depth = 12
	waiting := r.spreadTenants(q, tenants, depth)
	served := map[string]int{}
	for count := 0; count < tenants*depth/2; {
		for lane := range c.Lanes {
			if waiting[lane] == 0 {
				continue
			}
			h := r.lease(lane, q, (waiting[lane]+9)/10)
			waiting[lane] = h.Tenants
			count += len(h.Messages)
			for _, m := range h.Messages {
				served[m.Tenant]++
			}
		}
	}
	shares := make([]float64, 0, tenants)
	for i := range tenants {
		shares = append(shares, float64(served[fmt.Sprint("tenant-", i)]))
	}
	if j := Jain(shares); j < 0.99 {
		t.Errorf("Jain's index is %.4f, want at least 0.99", j)
	}
}

// spreadTenants publishes messages of many tenants, each in the lane of its
// key, and returns how many tenants wait in each lane.
func (r *rig) spreadTenants(q string, tenants, depth int) []int {
	r.Helper()
	waiting := make([]int, r.config.Lanes)
	events := make([][]millrace.CommitEvent, r.config.Lanes)
	for i := range tenants {
		name := fmt.Sprint("tenant-", i)
		lane := millrace.LaneOf(millrace.Hash(name, "key"), r.config.Lanes)
		waiting[lane]++
		for range depth {
			events[lane] = append(events[lane], event(name, "x", q))
		}
	}
	for lane, list := range events {
		for page := range slices.Chunk(list, 1000) {
			r.publish(lane, page...)
		}
	}
	return waiting
}
