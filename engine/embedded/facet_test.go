package embedded_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// deep is a store whose facets are deeper than what the index keeps, beside
// the naive truth: which messages wait, are leased or delayed.
type deep struct {
	*testing.T
	*embedded.Engine
	fs      vfs.FS
	random  *rand.Rand
	now     time.Time
	waiting map[string][]uint64 // by tenant, sorted
	tenant  map[uint64]string
	leased  map[uint64]deepLease
	delayed map[uint64]time.Time
	tokens  uint64
}

type deepLease struct {
	token millrace.Token
	until time.Time
}

func TestDeepFacetsGiveTheirLowestMessageWhateverCameBack(t *testing.T) {
	t.Parallel() // with what waits for the disk
	for seed := range 3 {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) { runDeep(t, uint64(seed)) })
	}
}

func runDeep(t *testing.T, seed uint64) {
	d := &deep{
		T: t, fs: vfs.NewMem(), random: rand.New(rand.NewPCG(seed, 1)), now: time.UnixMilli(1925000000000),
		waiting: map[string][]uint64{}, tenant: map[uint64]string{}, leased: map[uint64]deepLease{}, delayed: map[uint64]time.Time{},
	}
	d.open()
	define(t, d.Engine, benchQueue)
	for range 150 {
		switch d.random.IntN(10) {
		case 0, 1:
			d.publish(d.random.IntN(500))
		case 2, 3, 4:
			d.lease(1 + d.random.IntN(150))
		case 5:
			d.settle(millrace.Ack, 1+d.random.IntN(200))
		case 6, 7:
			d.settle(millrace.Retry, 1+d.random.IntN(200))
		case 8:
			d.step(time.Duration(d.random.IntN(20)) * time.Second)
		case 9:
			d.check()
			if d.random.IntN(3) == 0 {
				d.reopen()
			}
		}
	}
	d.drain()
	d.check()
	d.ok(d.Close())
}

func (d *deep) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *deep) open() {
	e, err := embedded.OpenFS(context.Background(), d.fs, "store", millrace.EngineOptions{})
	d.ok(err)
	d.Engine = e
	if d.random.IntN(2) == 0 {
		e.ShortenWindows()
	}
}

func (d *deep) reopen() {
	d.ok(d.Close())
	d.open()
	d.check()
}

func (d *deep) publish(n int) {
	c := benchCommit(n, d.random.IntN(3), 1+d.random.IntN(3))
	c.Now = d.now
	done, err := d.Publish(context.Background(), 0, c)
	d.ok(err)
	for i, s := range done.Stamps {
		tenant := c.Events[i].Tenant
		d.tenant[s.Seq] = tenant
		d.waiting[tenant] = append(d.waiting[tenant], s.Seq)
	}
}

func (d *deep) lease(n int) int {
	d.tokens++
	var token millrace.Token
	binary.BigEndian.PutUint64(token[:], d.tokens)
	got, err := d.Lease(context.Background(), 0, millrace.Lease{
		Now: d.now, Queue: benchQueue, Max: n, MaxBytes: millrace.MaxLeaseBytes, For: 10 * time.Second, Token: token,
	})
	d.ok(err)
	for _, m := range got.Messages {
		list := d.waiting[m.Tenant]
		if len(list) == 0 || list[0] != m.Seq {
			d.Fatalf("tenant %s was served %d, want the first of %v", m.Tenant, m.Seq, list[:min(3, len(list))])
		}
		d.waiting[m.Tenant] = list[1:]
		d.leased[m.Seq] = deepLease{token, got.Until}
	}
	total := 0
	for _, list := range d.waiting {
		total += len(list)
	}
	if len(got.Messages) < n && total > 0 {
		d.Fatalf("leased %d of %d while %d wait", len(got.Messages), n, total)
	}
	return len(got.Messages)
}

func (d *deep) settle(verb millrace.Verb, n int) {
	var items []millrace.SettleItem
	for seq, l := range d.leased { // in a random order
		if len(items) == n {
			break
		}
		if d.now.Before(l.until) {
			items = append(items, millrace.SettleItem{Name: seq, Token: l.token, Delay: time.Duration(d.random.IntN(3)) * time.Second})
		}
	}
	done, err := d.Settle(context.Background(), 0, millrace.Settle{Now: d.now, Queue: benchQueue, Verb: verb, Items: items})
	d.ok(err)
	if len(done.Lost) > 0 {
		d.Fatalf("lost %v", done.Lost)
	}
	for _, item := range items {
		delete(d.leased, item.Name)
		switch {
		case verb == millrace.Ack:
		case item.Delay > 0:
			d.delayed[item.Name] = d.now.Add(item.Delay)
		default:
			d.back(item.Name)
		}
	}
}

func (d *deep) back(seq uint64) {
	list := d.waiting[d.tenant[seq]]
	i, _ := slices.BinarySearch(list, seq)
	d.waiting[d.tenant[seq]] = slices.Insert(slices.Clone(list), i, seq)
}

func (d *deep) step(pass time.Duration) {
	d.now = d.now.Add(pass)
	for more := true; more; {
		done, err := d.Step(context.Background(), 0, d.now, 100)
		d.ok(err)
		more = done.More
	}
	for seq, l := range d.leased {
		if !d.now.Before(l.until) {
			delete(d.leased, seq)
			d.back(seq)
		}
	}
	for seq, at := range d.delayed {
		if !d.now.Before(at) {
			delete(d.delayed, seq)
			d.back(seq)
		}
	}
}

// drain takes out everything.
func (d *deep) drain() {
	d.step(time.Hour)
	for d.lease(1000) > 0 {
		d.settle(millrace.Ack, 1000)
	}
	s, err := d.Stats(context.Background(), 0, benchQueue)
	d.ok(err)
	if s.QueueCounts != (millrace.QueueCounts{}) || s.Tenants != 0 || !s.Oldest.IsZero() {
		d.Errorf("after the drain the queue holds %+v", s)
	}
}

func (d *deep) check() {
	d.Helper()
	d.ok(d.Check(context.Background()))
	s, err := d.Stats(context.Background(), 0, benchQueue)
	d.ok(err)
	var ready int64
	for _, list := range d.waiting {
		ready += int64(len(list))
	}
	want := millrace.QueueCounts{Ready: ready, Leased: int64(len(d.leased)), Delayed: int64(len(d.delayed))}
	if s.QueueCounts != want {
		d.Fatalf("got counts %+v, want %+v", s.QueueCounts, want)
	}
}

func TestTheIndexHoldsOnlyTheEndsOfADeepFacet(t *testing.T) {
	e, err := embedded.OpenMemory(context.Background(), millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	define(t, e, benchQueue)
	for from := 0; from < 20_000; from += 1000 {
		if _, err := e.Publish(context.Background(), 0, benchCommit(1000, from, 2)); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.EntriesInMemory(); n > 2*(64+128) {
		t.Errorf("the index holds %d of 20000 waiting messages of two tenants, want %d at most", n, 2*(64+128))
	}
}
