package main

import (
	"context"

	"github.com/millrace-dev/millrace/internal/redistest"
)

// measurement opens something on an empty store, lets it work, and leaves what
// the window has seen in the window.
type measurement func(ctx context.Context, w *window) error

// entry is one thing that every round measures.
type entry struct {
	id   string // names it in comparisons and profiles
	who  string
	what string
	run  measurement
	on   *redistest.Server // whose CPU counts too; nil if there is none
}

// What is measured, in words.
const (
	oneByOne   = "publish one by one, 64 goroutines"
	inHundreds = "publish in hundreds, 8 goroutines"
	consume    = "lease hundreds + ack, 8 goroutines"
	bothEnds   = "end to end, 64 publish, 8 lease hundreds"
)

// plan lists what a round measures, those that are compared beside each other.
func plan(o options, plain, fsync *redistest.Server) []entry {
	list := published(o, plain)
	list = append(list, consumed(o, plain)...)
	list = append(list, endToEnd(plain)...)
	if fsync != nil {
		list = append(list, fsynced(o, fsync)...)
	}
	return list
}

func published(_ options, redis *redistest.Server) []entry {
	e, r := ours{}, ours{redis: redis}
	return []entry{
		{"embedded-publish-one", "millrace embedded", oneByOne, e.publish(singles, 1), nil},
		{"jetstream-publish", "JetStream", oneByOne, jetPeer{}.publish, nil},
		{"pebble-one", "raw Pebble", "synced commit of one, 64 goroutines", rawPebble{}.commit(singles, 1), nil},
		{"redis-publish-one", "millrace redis", oneByOne, r.publish(singles, 1), redis},
		{"asynq-enqueue", "asynq", "enqueue one by one, 64 goroutines", asynqPeer{redis}.enqueue, redis},
		{"embedded-publish-100", "millrace embedded", inHundreds, e.publish(batchers, hundred), nil},
		{"pebble-100", "raw Pebble", "synced commit of a hundred, 8 goroutines", rawPebble{}.commit(batchers, hundred), nil},
		{"redis-publish-100", "millrace redis", inHundreds, r.publish(batchers, hundred), redis},
		{"redis-xadd", "raw Redis", "XADD pipelined in hundreds, 8 goroutines", rawRedis{redis}.xadd, redis},
	}
}

func consumed(o options, redis *redistest.Server) []entry {
	e, r := ours{}, ours{redis: redis}
	return []entry{
		{"embedded-lease-1t", "millrace embedded", consume + ", 1 tenant", e.lease(o.backlog, 1), nil},
		{"embedded-lease-1000t", "millrace embedded", consume + ", 1,000 tenants", e.lease(o.backlog, 1000), nil},
		{"embedded-lease-100000t", "millrace embedded", consume + ", 100,000 tenants", e.lease(o.backlog, 100000), nil},
		{"jetstream-pull", "JetStream", "pull hundreds + ack, 8 goroutines", jetPeer{}.pull, nil},
		{"redis-lease-1t", "millrace redis", consume + ", 1 tenant", r.lease(o.backlog, 1), redis},
		{"redis-lease-1000t", "millrace redis", consume + ", 1,000 tenants", r.lease(o.backlog, 1000), redis},
		{"redis-lease-100000t", "millrace redis", consume + ", 100,000 tenants", r.lease(o.backlog, 100000), redis},
		{"asynq-process", "asynq", "process, concurrency 50", asynqPeer{redis}.process, redis},
	}
}

func endToEnd(redis *redistest.Server) []entry {
	return []entry{
		{"embedded-both", "millrace embedded", bothEnds, ours{}.endToEnd, nil},
		{"jetstream-both", "JetStream", "end to end, 64 publish, 8 pull hundreds", jetPeer{}.endToEnd, nil},
		{"redis-both", "millrace redis", bothEnds, ours{redis: redis}.endToEnd, redis},
		{"asynq-both", "asynq", "end to end, 64 enqueue, concurrency 50", asynqPeer{redis}.endToEnd, redis},
	}
}

func fsynced(o options, redis *redistest.Server) []entry {
	const who = "millrace redis, fsync"
	r := ours{redis: redis}
	return []entry{
		{"redisfsync-publish-one", who, oneByOne, r.publish(singles, 1), redis},
		{"redisfsync-publish-100", who, inHundreds, r.publish(batchers, hundred), redis},
		{"redisfsync-lease-1t", who, consume + ", 1 tenant", r.lease(o.backlog, 1), redis},
		{"redisfsync-both", who, bothEnds, r.endToEnd, redis},
	}
}

// comparison sets two entries beside each other: how often theirs goes into
// ours or, of a cost, ours into theirs.
type comparison struct {
	what         string
	ours, theirs string // ids of entries
	goal         float64
	cost         bool // the ratio must be at most the goal, not at least
}

// comparisons are the rows of the verdict. A goal of 0 is none.
func comparisons() []comparison {
	return []comparison{
		{"redis: publish one by one / asynq enqueue", "redis-publish-one", "asynq-enqueue", 1.5, false},
		{"redis: publish in hundreds / asynq enqueue", "redis-publish-100", "asynq-enqueue", 3, false},
		{"redis: lease + ack / asynq process", "redis-lease-1t", "asynq-process", 8, false},
		{"redis: end to end / asynq end to end", "redis-both", "asynq-both", 0, false},
		{"redis: publish in hundreds / XADD pipelined", "redis-publish-100", "redis-xadd", 0.3, false},
		{"embedded, fsynced: publish one by one / JetStream publish", "embedded-publish-one", "jetstream-publish", 2, false},
		{"embedded, fsynced: publish in hundreds / JetStream publish", "embedded-publish-100", "jetstream-publish", 0, false},
		{"embedded, fsynced: lease + ack / JetStream pull + ack", "embedded-lease-1t", "jetstream-pull", 2, false},
		{"embedded, fsynced: end to end / JetStream end to end", "embedded-both", "jetstream-both", 0, false},
		{"embedded: publish one by one / Pebble synced commit", "embedded-publish-one", "pebble-one", 0, false},
		{"embedded: publish in hundreds / Pebble synced hundreds", "embedded-publish-100", "pebble-100", 0, false},
		{"embedded: cost of 1,000 tenants / of one", "embedded-lease-1000t", "embedded-lease-1t", 1.2, true},
		{"embedded: cost of 100,000 tenants / of one", "embedded-lease-100000t", "embedded-lease-1t", 1.2, true},
		{"redis: cost of 1,000 tenants / of one", "redis-lease-1000t", "redis-lease-1t", 1.2, true},
		{"redis: cost of 100,000 tenants / of one", "redis-lease-100000t", "redis-lease-1t", 1.2, true},
	}
}
