package embedded_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

func defineAs(t testing.TB, e *embedded.Engine, s millrace.QueueSettings) {
	t.Helper()
	for lane := range e.Identity().Lanes {
		if _, err := e.Apply(context.Background(), lane, millrace.Apply{Version: s.Version, Queues: []millrace.QueueSettings{s}}); err != nil {
			t.Fatal(err)
		}
	}
}

// keyed is a commit of n events over some keys of one tenant.
func keyed(n, from, keys int) millrace.Commit {
	c := benchCommit(n, 0, 1)
	for i := range c.Events {
		c.Events[i].Key = fmt.Sprint("key-", (from+i)%keys)
		c.Events[i].Body = []byte(c.Events[i].Key)
	}
	return c
}

// lineWitness sees to it that of one key one message is out at a time, and that
// those which are settled for good leave in the order of their names.
type lineWitness struct {
	*testing.T
	mu   sync.Mutex
	out  map[string]uint64
	last map[string]uint64
	done int
}

func (w *lineWitness) given(m millrace.LeasedMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := string(m.Body)
	if other := w.out[key]; other != 0 {
		w.Errorf("key %s: %d was given while %d is out", key, m.Name, other)
	}
	if m.Name < w.last[key] {
		w.Errorf("key %s: %d was given after %d was settled", key, m.Name, w.last[key])
	}
	w.out[key] = m.Name
}

// settling is called before the engine may give the next one.
func (w *lineWitness) settling(m millrace.LeasedMessage, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.out, string(m.Body))
	if gone {
		w.last[string(m.Body)] = m.Name
		w.done++
	}
}

func TestManyConsumersKeepTheOrderOfKeysWhileGroupsAreOnTheirWay(t *testing.T) {
	for _, keys := range []int{2, 300} { // lines that are longer than what is kept ahead, and shorter ones
		t.Run(fmt.Sprint(keys, "Keys"), func(t *testing.T) { keepOrder(t, keys) })
	}
}

func keepOrder(t *testing.T, keys int) {
	e, err := embedded.OpenFS(context.Background(), vfs.NewMem(), "store", millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defineAs(t, e, millrace.QueueSettings{UID: benchQueue, Version: 1, Ordered: true})
	events := min(12_000, 300*keys)
	w := &lineWitness{T: t, out: map[string]uint64{}, last: map[string]uint64{}}
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			for from := 0; from < events/4; from += 100 {
				if _, err := e.Publish(context.Background(), 0, keyed(100, from*4+p, keys)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for c := range 6 {
		wg.Go(func() { consumeLines(w, e, uint64(c), events) })
	}
	wg.Wait()
	if err := e.Check(context.Background()); err != nil {
		t.Error(err)
	}
	closed(t, e)
}

// consumeLines leases and settles until as many as there are have gone.
func consumeLines(w *lineWitness, e *embedded.Engine, consumer uint64, events int) {
	random := rand.New(rand.NewPCG(consumer, 3))
	for round := uint64(1); !w.Failed(); round++ {
		w.mu.Lock()
		done := w.done
		w.mu.Unlock()
		if done >= events {
			return
		}
		token := millrace.Token{byte(consumer)}
		binary.BigEndian.PutUint64(token[1:], round)
		got, err := e.Lease(context.Background(), 0, millrace.Lease{Queue: benchQueue, Max: 50, For: time.Minute, Token: token})
		if err != nil {
			w.Error(err)
			return
		}
		for _, m := range got.Messages {
			w.given(m)
		}
		for _, verb := range []millrace.Verb{millrace.Ack, millrace.Retry} {
			settleLines(w, e, random, verb, token, &got.Messages)
		}
	}
}

// settleLines acks most of the messages, or retries the rest.
func settleLines(w *lineWitness, e *embedded.Engine, random *rand.Rand, verb millrace.Verb, token millrace.Token, list *[]millrace.LeasedMessage) {
	var items []millrace.SettleItem
	var rest []millrace.LeasedMessage
	for _, m := range *list {
		if verb == millrace.Ack && random.IntN(5) == 0 {
			rest = append(rest, m)
			continue
		}
		w.settling(m, verb == millrace.Ack)
		items = append(items, millrace.SettleItem{Name: m.Name, Token: token})
	}
	*list = rest
	done, err := e.Settle(context.Background(), 0, millrace.Settle{Queue: benchQueue, Verb: verb, Items: items})
	if err != nil || len(done.Lost) > 0 {
		w.Errorf("settle: %v, lost %v", err, done.Lost)
	}
}

func TestWhatWaitsBehindAKeyCostsNoMemory(t *testing.T) {
	const keys = 20_000
	none := emptyStore(t)
	cost := func(each int) float64 {
		dir := t.TempDir()
		e := openAt(t, dir)
		defineAs(t, e, millrace.QueueSettings{UID: benchQueue, Version: 1, Ordered: true})
		for range each {
			for from := 0; from < keys; from += 1000 {
				if _, err := e.Publish(context.Background(), 0, keyed(1000, from, keys)); err != nil {
					t.Fatal(err)
				}
			}
		}
		closed(t, e)
		e, bytes := opened(t, dir)
		defer closed(t, e)
		return float64(bytes-none) / keys
	}
	one, four := cost(1), cost(4)
	t.Logf("a waiting key costs %.0f bytes with one message and %.0f with four", one, four)
	if one > 200 || four > one+90 { // three messages more would cost 100 and more, if they did
		t.Errorf("a waiting key costs %.0f bytes with one message and %.0f with four, want about 100 whatever waits behind", one, four)
	}
}

func openAt(t testing.TB, dir string) *embedded.Engine {
	t.Helper()
	e, err := embedded.Open(context.Background(), dir, millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
