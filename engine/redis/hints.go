package redis

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// watch is the one watcher of an engine.
type watch struct {
	mu   sync.Mutex
	stop func()
}

func (w *watch) end() {
	w.mu.Lock()
	stop := w.stop
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// Watch hands every hint to f until stop is called. The channels travel on the
// connections that there are anyhow; each channel is subscribed by itself,
// because on a Cluster each lies in its lane's slot and moves with it.
func (e *Engine) Watch(f func(millrace.Hint)) (stop func()) {
	ctx, cancel := context.WithCancel(e.ctx)
	var wg sync.WaitGroup
	listen := func(lane int, own string) {
		defer wg.Done()
		e.listen(ctx, lane, own, f)
	}
	wg.Add(1 + len(e.own))
	go listen(0, e.keys.control())
	for lane, own := range e.own {
		go listen(lane, own)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	e.watching.mu.Lock()
	e.watching.stop = stop
	e.watching.mu.Unlock()
	return stop
}

// listen stays subscribed to one channel. Whatever was sent before it stood may
// be lost, so each subscription counts as a hint for all.
func (e *Engine) listen(ctx context.Context, lane int, own string, f func(millrace.Hint)) {
	var stands atomic.Bool
	stood := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "ssubscribe" {
			stands.Store(true)
			f(millrace.Hint{Kind: millrace.HintAll})
		}
	})
	wait := time.Duration(0)
	for ctx.Err() == nil {
		subscribe := e.client.B().Ssubscribe().Channel(channel(own)).Build()
		_ = e.client.Receive(stood, subscribe, func(m rueidis.PubSubMessage) { // it ends by ctx or with the connection
			if h, ok := readHint(lane, m.Message); ok {
				f(h)
			}
		})
		if wait = min(2*wait+10*time.Millisecond, time.Second); stands.Swap(false) {
			wait = 10 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// readHint reads what a script sent: q and a uid, d and milliseconds, o and a number, b, or r.
func readHint(lane int, text string) (millrace.Hint, bool) {
	if text == "" {
		return millrace.Hint{}, false
	}
	h := millrace.Hint{Lane: lane}
	switch kind, rest := text[0], text[1:]; kind {
	case 'q':
		h.Kind, h.Queue = millrace.HintQueue, rest
	case 'd':
		ms, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return h, false
		}
		h.Kind, h.In = millrace.HintDue, time.Duration(ms)*time.Millisecond
	case 'o':
		number, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			return h, false
		}
		h.Kind, h.Operation = millrace.HintOperation, number
	case 'b':
		h.Kind = millrace.HintBatch
		return h, rest == ""
	case 'r':
		return millrace.Hint{Kind: millrace.HintRegistry}, rest == ""
	default:
		return h, false
	}
	return h, true
}
