package redis

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// Live hands f every event that is stamped, until stop is called. Each lane has a
// connection of its own: events may come faster than they are read, and then Redis
// closes it, which must not cost the answers of calls.
func (e *Engine) Live(ctx context.Context, f func(millrace.LiveEvent)) (stop func(), err error) {
	if err := e.usable(ctx); err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(e.ctx)
	v := &viewer{f: f}
	stood := make(chan error, len(e.own))
	var wg sync.WaitGroup
	for lane := range e.own {
		wg.Go(func() { e.follow(run, lane, v, stood) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		v.end()
	})
	for range e.own {
		select {
		case err = <-stood:
		case <-ctx.Done():
			err = millrace.Wrap(millrace.CodeUnavailable, ctx.Err(), "the caller has given up")
		}
		if err != nil {
			stop()
			return nil, err
		}
	}
	e.showing.mu.Lock()
	e.showing.stop = stop
	e.showing.mu.Unlock()
	return stop, nil
}

// viewer hands events to f until it ends.
type viewer struct {
	mu    sync.RWMutex
	ended bool
	f     func(millrace.LiveEvent)
}

func (v *viewer) give(events ...millrace.LiveEvent) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for i := range events {
		if !v.ended {
			v.f(events[i])
		}
	}
}

// end returns when f is not called any more.
func (v *viewer) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
}

// follow keeps a lane watched until ctx ends, and tells once whether it stood.
// When it stands again, what was sent meanwhile is lost.
func (e *Engine) follow(ctx context.Context, lane int, v *viewer, stood chan<- error) {
	var err error
	told, until := false, time.Now().Add(patience)
	for wait := 10 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, time.Second) {
		err = e.followOnce(ctx, lane, v, func() {
			wait = 10 * time.Millisecond
			if told {
				v.give(millrace.LiveEvent{Lane: lane, Lost: true})
				return
			}
			told = true
			stood <- nil
		})
		if failed := classify(err, false); !told && (!failed.again || time.Now().After(until)) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	if !told {
		stood <- classify(err, false).err
	}
}

// followOnce subscribes, then has the lane marked as watched, and stays until the
// connection breaks, the lane moves to another server, or ctx ends.
func (e *Engine) followOnce(ctx context.Context, lane int, v *viewer, stands func()) error {
	conn, release := e.client.Dedicate()
	defer release()
	defer conn.Close()
	subscribed, moved := make(chan struct{}), make(chan struct{})
	subscribe, move := sync.OnceFunc(func() { close(subscribed) }), sync.OnceFunc(func() { close(moved) })
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { v.give(readLive(lane, m.Message)...) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "ssubscribe" {
				subscribe()
			} else {
				move()
			}
		},
	})
	if err := conn.Do(ctx, conn.B().Ssubscribe().Channel(liveChannel(e.own[lane])).Build()).Error(); err != nil {
		return err
	}
	select {
	case <-subscribed:
	case <-moved:
		return rueidis.ErrNoSlot
	case <-broken:
		return rueidis.ErrNoSlot
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := e.runLane(ctx, &e.scripts.laneWatch, lane, timeless); err != nil {
		return err
	}
	stands()
	select {
	case <-moved:
	case <-broken:
	case <-ctx.Done():
	}
	return nil
}

// liveHead is what stands before each event of a message: seq, prev, length.
const liveHead = 20

// readLive reads what a publish sent: the time, then the events.
func readLive(lane int, text string) []millrace.LiveEvent {
	lost := []millrace.LiveEvent{{Lane: lane, Lost: true}}
	if len(text) < 8 {
		return lost
	}
	recorded, rest := moment(int64(number(text[:8]))), text[8:]
	var events []millrace.LiveEvent
	for len(rest) >= liveHead {
		n := int(binary.LittleEndian.Uint32([]byte(rest[16:liveHead])))
		if len(rest) < liveHead+n {
			break
		}
		events = append(events, millrace.LiveEvent{
			Lane: lane, Seq: number(rest[:8]), Prev: number(rest[8:16]), RecordedAt: recorded, Body: []byte(rest[liveHead : liveHead+n]),
		})
		rest = rest[liveHead+n:]
	}
	if rest != "" {
		return append(events, lost...)
	}
	return events
}
