package broker

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// watchers counts the watches of an engine.
type watchers struct {
	millrace.Engine

	mu             sync.Mutex
	begun, running int
}

func (w *watchers) Live(ctx context.Context, f func(millrace.LiveEvent)) (func(), error) {
	stop, err := w.Engine.Live(ctx, f)
	w.count(1, 1)
	return func() { stop(); w.count(0, -1) }, err
}

func (w *watchers) count(begun, running int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun += begun
	w.running += running
}

func (w *watchers) counts() (begun, running int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun, w.running
}

// watched begins to watch, until the test ends.
func watched(t *testing.T, b *Broker, f millrace.LiveFilter) func() (millrace.LiveItem, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	seq, err := b.Live(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(seq)
	t.Cleanup(func() { cancel(); stop() })
	return func() (millrace.LiveItem, error) {
		t.Helper()
		item, err, ok := next()
		if !ok {
			t.Fatal("the watch has ended")
		}
		return item, err
	}
}

func viewed(tenant, key, id string) millrace.Event {
	return millrace.Event{ID: id, Topic: "page", Type: "viewed", Tenant: tenant, Key: key, Data: []byte(`{ "n":1 }`), Attributes: map[string]string{"source": "/a"}}
}

func mustPublish(t *testing.T, b *Broker, events ...millrace.Event) []millrace.Published {
	t.Helper()
	done, err := b.Publish(t.Context(), events...)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestAReaderSeesWhatItsFilterLetsThrough(t *testing.T) {
	b := start(t, openMemory(t, 1))
	for name, f := range map[string]millrace.LiveFilter{
		"match": {Match: "^acme:page:"}, "tenant": {Tenant: "acme"}, "key": {Key: "mine"}, "all of them": {Match: ":page:v", Tenant: "acme", Key: "mine"},
		"a pattern without a topic": {Match: "acme|nobody"},
	} {
		next := watched(t, b, f)
		done := mustPublish(t, b, viewed("other", "k", "no"), viewed("acme", "mine", "yes-"+name))
		item, err := next()
		if e := item.Event; err != nil || e.ID != "yes-"+name || e.Seq != done[1].Seq || e.Prev != done[1].Prev ||
			e.RecordedAt.IsZero() || string(e.Data) != `{ "n":1 }` || e.Attributes["source"] != "/a" {
			t.Errorf("%s: got %+v %v", name, item, err)
		}
	}
}

func TestABadFilterIsRefusedWithAllItsFaults(t *testing.T) {
	b := start(t, openMemory(t, 1))
	_, err := b.Live(t.Context(), millrace.LiveFilter{Match: "(", Tenant: "a:b", Key: "a\nb"})
	for _, want := range []string{"match", "tenant", "key"} {
		if millrace.CodeOf(err) != millrace.CodeInvalid || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
}

func TestAReaderSeesNothingFromBeforeItCame(t *testing.T) {
	b := start(t, openMemory(t, 4))
	other := watched(t, b, millrace.LiveFilter{})
	for i := range 50 {
		mustPublish(t, b, viewed("acme", "", fmt.Sprint("before-", i)))
		next := watched(t, b, millrace.LiveFilter{})
		mustPublish(t, b, viewed("acme", "", fmt.Sprint("after-", i)))
		if item, err := next(); err != nil || item.Event.ID != fmt.Sprint("after-", i) {
			t.Fatalf("got %+v %v", item, err)
		}
	}
	if item, err := other(); err != nil || item.Event.ID != "before-0" {
		t.Errorf("got %+v %v", item, err)
	}
}

func TestTheEngineIsWatchedWhileSomebodyReads(t *testing.T) {
	w := &watchers{Engine: openMemory(t, 1)}
	b := start(t, w)
	is := func(wantBegun, wantRunning int) {
		t.Helper()
		if begun, running := w.counts(); begun != wantBegun || running != wantRunning {
			t.Errorf("%d begun, %d running, want %d and %d", begun, running, wantBegun, wantRunning)
		}
	}
	is(0, 0)
	var cancels []context.CancelFunc
	var seqs []iter.Seq2[millrace.LiveItem, error]
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		seq, err := b.Live(ctx, millrace.LiveFilter{})
		if err != nil {
			t.Fatal(err)
		}
		cancels, seqs = append(cancels, cancel), append(seqs, seq)
	}
	is(1, 1)
	mustPublish(t, b, viewed("acme", "", "a"))
	for range seqs[0] { // one that has enough
		break
	}
	is(1, 1)
	cancels[1]() // one that never read
	cancels[2]()
	for item, err := range seqs[2] { // one that reads after its end
		t.Errorf("got %+v %v", item, err)
	}
	for until := time.Now().Add(10 * time.Second); ; {
		if _, running := w.counts(); running == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the engine is still watched")
		}
		time.Sleep(time.Millisecond)
	}
	for _, err := range seqs[0] { // a sequence can be read once
		if millrace.CodeOf(err) != millrace.CodeUnavailable {
			t.Errorf("got %v", err)
		}
	}
	next := watched(t, b, millrace.LiveFilter{})
	is(2, 1)
	mustPublish(t, b, viewed("acme", "", "b"))
	if item, err := next(); err != nil || item.Event.ID != "b" {
		t.Errorf("got %+v %v", item, err)
	}
}

func TestASlowReaderIsToldHowManyItMissedInTheirPlace(t *testing.T) {
	b := start(t, openMemory(t, 1))
	slow, quick := watched(t, b, millrace.LiveFilter{Match: ":page:"}), watched(t, b, millrace.LiveFilter{})
	const all = readerEvents + 700
	for i := 0; i < all; i += 100 {
		var events []millrace.Event
		for j := range 100 {
			events = append(events, viewed("acme", "", fmt.Sprint(i+j)))
		}
		mustPublish(t, b, events...)
		for j := range 100 {
			if item, err := quick(); err != nil || item.Event.ID != fmt.Sprint(i+j) {
				t.Fatalf("the quick one got %+v %v, want %d", item, err, i+j)
			}
		}
	}
	for i := range readerEvents {
		if item, err := slow(); err != nil || item.Event.ID != fmt.Sprint(i) {
			t.Fatalf("got %+v %v, want %d", item, err, i)
		}
	}
	mustPublish(t, b, viewed("acme", "", "next"))
	if item, err := slow(); err != nil || item.Missed != 700 {
		t.Fatalf("got %+v %v, want 700 missed", item, err)
	}
	if item, err := slow(); err != nil || item.Event.ID != "next" {
		t.Errorf("got %+v %v", item, err)
	}
}

func TestAReaderOfLargeEventsIsBoundedByTheirBytes(t *testing.T) {
	r, err := newReader(millrace.LiveFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r.add(&millrace.Event{Data: make([]byte, 256<<10)})
	}
	kept := 0
	for item, ok := r.pop(); ok; item, ok = r.pop() {
		if kept++; item.Missed > 0 && item.Missed != 100-(kept-1) {
			t.Errorf("%d missed after %d", item.Missed, kept-1)
		}
	}
	if kept != readerBytes/(256<<10)+2 || r.bytes != 0 {
		t.Errorf("%d kept, %d bytes left", kept, r.bytes)
	}
}

func TestANodeThatCannotKeepUpCountsWhatItDidNotLookAt(t *testing.T) {
	g := newGallery(nil, start(t, openMemory(t, 1)).log) // its own goroutine does not run
	r, err := newReader(millrace.LiveFilter{})
	if err != nil {
		t.Fatal(err)
	}
	g.lay(millrace.LiveEvent{Body: bodyOf("before")})
	r.from = g.laid
	g.readers[r] = struct{}{}
	for i := range liveBacklog + 41 {
		g.lay(millrace.LiveEvent{Seq: uint64(i), Body: bodyOf("x")})
	}
	g.show()
	g.lay(millrace.LiveEvent{Lost: true})
	g.lay(millrace.LiveEvent{Seq: 7, Body: bodyOf("after")})
	g.show()
	events, missed := 0, 0
	var last millrace.LiveItem
	for item, ok := r.pop(); ok; item, ok = r.pop() {
		missed += item.Missed
		if item.Missed == 0 {
			events++
		}
		last = item
	}
	if want := liveBacklog + 42 + 1; events != readerEvents || events+missed != want || last.Missed == 0 {
		t.Errorf("%d events and %d missed, want %d in all; the last is %+v", events, missed, want, last)
	}
}

func bodyOf(id string) []byte {
	return millrace.AppendEvent(nil, &millrace.Event{ID: id, Topic: "page", Type: "viewed", Tenant: "acme"})
}

func TestDrainingEndsEveryReader(t *testing.T) {
	b := start(t, openMemory(t, 1))
	next := watched(t, b, millrace.LiveFilter{})
	mustPublish(t, b, viewed("acme", "", "a"))
	if _, err := next(); err != nil {
		t.Fatal(err)
	}
	b.Drain()
	if item, err := next(); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("got %+v %v", item, err)
	}
	if _, err := b.Live(t.Context(), millrace.LiveFilter{}); millrace.CodeOf(err) != millrace.CodeDraining {
		t.Errorf("got %v", err)
	}
}

func TestReadersComeAndGoUnderLoad(t *testing.T) {
	b := start(t, openMemory(t, 4))
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := b.Publish(t.Context(), viewed("acme", "", ""), viewed("b", "k", "")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 20 {
				seq, err := b.Live(t.Context(), millrace.LiveFilter{Tenant: "b"})
				if err != nil {
					t.Error(err)
					return
				}
				last, left := uint64(0), 20
				for item, err := range seq {
					if err != nil || item.Missed == 0 && (item.Event.Tenant != "b" || item.Event.Seq <= last) {
						t.Errorf("got %+v %v after %d", item, err, last)
					}
					if last = item.Event.Seq; left == 0 {
						break
					}
					left--
				}
			}
		})
	}
	readers.Wait()
	cancel()
	load.Wait()
}
