package enginetest

import (
	"context"
	"slices"
	"sync"

	"github.com/millrace-dev/millrace"
)

// shows is the model with a watch that shows something else of each commit.
type shows struct {
	*Model
	edit func(shown []millrace.LiveEvent, lane int, c millrace.Commit, done millrace.Committed) []millrace.LiveEvent

	mu    sync.Mutex
	shown []millrace.LiveEvent
	f     func(millrace.LiveEvent)
}

func (b *shows) Live(ctx context.Context, f func(millrace.LiveEvent)) (func(), error) {
	b.mu.Lock()
	b.f = f
	b.mu.Unlock()
	return b.Model.Live(ctx, func(e millrace.LiveEvent) { b.shown = append(b.shown, e) })
}

func (b *shows) Publish(ctx context.Context, lane int, c millrace.Commit) (millrace.Committed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown = nil
	done, err := b.Model.Publish(ctx, lane, c)
	if err == nil && b.f != nil {
		for _, e := range b.edit(b.shown, lane, c, done) {
			b.f(e)
		}
	}
	return done, err
}

// showsMore shows further events of a commit.
func showsMore(m *Model, which func(millrace.Stamp) bool) millrace.Engine {
	return &shows{Model: m, edit: func(shown []millrace.LiveEvent, lane int, c millrace.Commit, done millrace.Committed) []millrace.LiveEvent {
		for i, s := range done.Stamps {
			if which(s) {
				shown = append(shown, millrace.LiveEvent{Lane: lane, Seq: s.Seq, Prev: s.Prev, RecordedAt: done.RecordedAt, Body: c.Events[i].Body})
			}
		}
		return shown
	}}
}

func showsDuplicates(m *Model) millrace.Engine {
	return showsMore(m, func(s millrace.Stamp) bool { return s.Duplicate && s.DueAt.IsZero() })
}

func showsHeld(m *Model) millrace.Engine {
	return showsMore(m, func(s millrace.Stamp) bool { return !s.Duplicate && !s.DueAt.IsZero() })
}

func showsRouted(m *Model) millrace.Engine {
	return &shows{Model: m, edit: func(shown []millrace.LiveEvent, _ int, _ millrace.Commit, done millrace.Committed) []millrace.LiveEvent {
		return slices.DeleteFunc(shown, func(e millrace.LiveEvent) bool {
			return slices.ContainsFunc(done.Stamps, func(s millrace.Stamp) bool { return s.Seq == e.Seq && s.Sinks == 0 })
		})
	}}
}

func showsBackwards(m *Model) millrace.Engine {
	return &shows{Model: m, edit: func(shown []millrace.LiveEvent, _ int, _ millrace.Commit, _ millrace.Committed) []millrace.LiveEvent {
		slices.Reverse(shown)
		return shown
	}}
}

type showsForEver struct{ *Model }

func (b showsForEver) Live(ctx context.Context, f func(millrace.LiveEvent)) (func(), error) {
	b.mu.Lock()
	first := b.live
	b.mu.Unlock()
	_, err := b.Model.Live(ctx, func(e millrace.LiveEvent) {
		if first != nil {
			(*first)(e)
		}
		f(e)
	})
	return func() {}, err
}

func showsOn(m *Model) millrace.Engine { return showsForEver{m} }
