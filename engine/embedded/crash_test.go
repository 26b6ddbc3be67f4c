package embedded_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// witness knows what was asked and what was answered.
type witness struct {
	mu       sync.Mutex
	stored   map[uint64]bool // publishes that were answered
	settling map[uint64]bool // acks that were asked for
	settled  map[uint64]bool // acks that were answered
	moment   int
	enough   chan struct{} // closed when as many as moment are stored
}

func newWitness(moment int) *witness {
	return &witness{
		stored: map[uint64]bool{}, settling: map[uint64]bool{}, settled: map[uint64]bool{},
		moment: moment, enough: make(chan struct{}),
	}
}

func (w *witness) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func TestAPowerLossTakesNothingThatWasAnswered(t *testing.T) {
	seeds := 10
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) { losePower(t, uint64(seed)) })
	}
}

func losePower(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	fs := vfs.NewCrashableMem()
	e, err := embedded.OpenFS(context.Background(), fs, "store", millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	define(t, e, benchQueue)
	w := newWitness(50 + random.IntN(400))
	crashed, stored, settled := crashUnderLoad(t, e, fs, w, random)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := embedded.OpenFS(context.Background(), crashed, "store", millrace.EngineOptions{})
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	defer closed(t, after)
	if err := after.Check(context.Background()); err != nil {
		t.Errorf("check after the crash: %v", err)
	}
	left := leftOver(t, after)
	for seq := range stored {
		if !left[seq] && !w.settling[seq] {
			t.Errorf("message %d was answered and is gone", seq)
		}
	}
	for seq := range settled {
		if left[seq] {
			t.Errorf("message %d was settled and is back", seq)
		}
	}
}

// crashUnderLoad copies the file system as a power loss at a random moment
// would leave it, and what had been answered before.
func crashUnderLoad(t *testing.T, e *embedded.Engine, fs *vfs.MemFS, w *witness, random *rand.Rand) (crashed *vfs.MemFS, stored, settled map[uint64]bool) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() { work(ctx, e, w, worker) })
	}
	<-w.enough
	w.note(func() { stored, settled = maps.Clone(w.stored), maps.Clone(w.settled) })
	crashed = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
	cancel()
	wg.Wait()
	return crashed, stored, settled
}

func closed(t testing.TB, e *embedded.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// work publishes, leases and acks, and publishes some again, until it is stopped.
func work(ctx context.Context, e *embedded.Engine, w *witness, worker int) {
	for i := 0; ctx.Err() == nil; i++ {
		c := benchCommit(3, i, 3)
		for n := range c.Events {
			ev := &c.Events[n]
			ev.Key, ev.Remembered = fmt.Sprint("k", n), true
			ev.Digest = millrace.DigestOf(&millrace.Event{ID: fmt.Sprint(worker, i, n)})
		}
		if done, err := e.Publish(ctx, 0, c); err == nil {
			w.note(func() {
				before := len(w.stored)
				for _, s := range done.Stamps {
					w.stored[s.Seq] = true
				}
				if before < w.moment && len(w.stored) >= w.moment {
					close(w.enough)
				}
			})
		}
		if i%2 == 0 {
			settleSome(ctx, e, w, uint64(worker)<<32|uint64(i))
		}
	}
}

func settleSome(ctx context.Context, e *embedded.Engine, w *witness, n uint64) {
	var token millrace.Token
	binary.BigEndian.PutUint64(token[:], n+1)
	got, err := e.Lease(ctx, 0, millrace.Lease{Queue: benchQueue, Max: 4, For: time.Minute, Token: token})
	if err != nil {
		return
	}
	var items []millrace.SettleItem
	for i, m := range got.Messages {
		if i%2 == 0 {
			items = append(items, millrace.SettleItem{Name: m.Name, Token: token})
		}
	}
	w.note(func() {
		for _, item := range items {
			w.settling[item.Name] = true
		}
	})
	done, err := e.Settle(ctx, 0, millrace.Settle{Queue: benchQueue, Verb: millrace.Ack, Items: items})
	if err != nil || len(done.Lost) > 0 {
		return
	}
	w.note(func() {
		for _, item := range items {
			w.settled[item.Name] = true
		}
	})
}

// leftOver is every message that is still there.
func leftOver(t *testing.T, e *embedded.Engine) map[uint64]bool {
	later := time.Now().Add(time.Hour)
	for more := true; more; {
		done, err := e.Step(context.Background(), 0, later, 1000)
		if err != nil {
			t.Fatal(err)
		}
		more = done.More
	}
	left := map[uint64]bool{}
	for n := uint64(1); ; n++ {
		var token millrace.Token
		binary.LittleEndian.PutUint64(token[:], n)
		got, err := e.Lease(context.Background(), 0, millrace.Lease{Queue: benchQueue, Max: 1000, For: time.Hour, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Messages) == 0 {
			return left
		}
		for _, m := range got.Messages {
			if left[m.Seq] {
				t.Errorf("message %d is there twice", m.Seq)
			}
			left[m.Seq] = true
			if len(m.Body) != 256 {
				t.Errorf("message %d has a body of %d bytes", m.Seq, len(m.Body))
			}
		}
	}
}

func TestADuplicateIsNotAnsweredBeforeTheFirstIsDurable(t *testing.T) {
	for range 20 {
		fs := vfs.NewCrashableMem()
		e, err := embedded.OpenFS(context.Background(), fs, "store", millrace.EngineOptions{})
		if err != nil {
			t.Fatal(err)
		}
		define(t, e, benchQueue)
		c := benchCommit(1, 0, 1)
		c.Events[0].Remembered = true
		crashed := raceForTheFirst(e, fs, c)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := embedded.OpenFS(context.Background(), crashed, "store", millrace.EngineOptions{})
		if err != nil {
			t.Fatal(err)
		}
		done, err := again.Publish(context.Background(), 0, c)
		if err != nil || !done.Stamps[0].Duplicate {
			t.Errorf("an id that was answered is not known after a power loss: %+v, %v", done, err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// raceForTheFirst publishes one id from many goroutines and copies the synced
// part of the file system as soon as the first of them is answered.
func raceForTheFirst(e *embedded.Engine, fs *vfs.MemFS, c millrace.Commit) *vfs.MemFS {
	var wg sync.WaitGroup
	var once sync.Once
	var crashed *vfs.MemFS
	for range 8 {
		wg.Go(func() {
			if _, err := e.Publish(context.Background(), 0, c); err == nil {
				once.Do(func() { crashed = fs.CrashClone(vfs.CrashCloneCfg{}) })
			}
		})
	}
	wg.Wait()
	return crashed
}
