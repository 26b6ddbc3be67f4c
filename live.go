package millrace

import (
	"context"
	"iter"
	"time"
)

// Lives is the part of an engine that shows events as they go by.
type Lives interface {
	// Live hands f, from when it returns until stop is called, every event that
	// a Publish stamps on any node: whether a sink takes it or not, a delayed one
	// when it is taken out and stamped; no duplicate, nothing that was refused or
	// injected. Each comes once, those of a lane in the order of their seq and one
	// after the other, those of several lanes perhaps at once, and not before it
	// is as durable as answers are (Redis: as the server that stored it makes it;
	// replicas are not waited for).
	//
	// f must neither block nor call the engine. When events of a lane may have been
	// lost, because a connection broke, a LiveEvent that is Lost stands in their
	// place. After stop has returned f is not called. At most one watcher at a
	// time. While nobody watches, live costs nothing.
	Live(ctx context.Context, f func(LiveEvent)) (stop func(), err error)
}

// LiveEvent is an event that went by, as an engine shows it.
type LiveEvent struct {
	Lane       int
	Seq, Prev  uint64
	RecordedAt time.Time
	Body       []byte // from AppendEvent; it must not change

	Lost bool // events of the lane may have been lost here; nothing else but Lane is set
}

// LiveFilter says which events somebody wants to watch. What is empty counts for all.
type LiveFilter struct {
	Match  string // a pattern, as a queue has it
	Tenant string
	Key    string
}

// Faults lists what is wrong with a filter.
func (f LiveFilter) Faults() []Fault {
	var list []Fault
	add := func(field, message string) {
		if message != "" {
			list = append(list, Fault{Location: field, Message: message})
		}
	}
	if f.Match != "" {
		add("match", MatchFault(f.Match))
	}
	if f.Tenant != "" {
		add("tenant", NameFault(f.Tenant))
	}
	add("key", TextFault(f.Key, MaxKeyLen))
	return list
}

// LiveItem is an event that went by, or, if Missed is above 0, how many were missed here.
type LiveItem struct {
	Event Event

	// Missed is exact when the reader was too slow. When the node itself was, it
	// counts also events that the filter would have left out; a connection to the
	// store that broke counts as one.
	Missed int
}

// Live shows events as they go by. What goes by while nobody watches is not
// shown later: whoever needs every event has a queue.
type Live interface {
	// Live watches the events that a filter lets through. The watch stands when
	// it returns, and ends with ctx or when the caller stops ranging over the
	// sequence, which can be done once. A reader that is too slow misses events
	// and is told how many, in their place. The sequence ends without an error
	// with ctx, and with CodeUnavailable when the node stops or its connection breaks.
	Live(ctx context.Context, f LiveFilter) (iter.Seq2[LiveItem, error], error)
}
