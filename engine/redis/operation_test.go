package redis_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// workshop is a store with one queue that is tracked and one that is not.
type workshop struct {
	*testing.T
	server *redistest.Server
	engine *redis.Engine
	tokens byte
}

// noon is the time of everything in a workshop, so that no minute ends in between.
func noon() time.Time { return time.Date(2031, 1, 1, 12, 0, 0, 0, time.UTC) }

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	s := redistest.Single(t)
	silent := false
	e, err := redis.Open(t.Context(), s.URL(), millrace.EngineOptions{Lanes: 1, Namespace: "n", Logger: quiet, RedisPublish: &silent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	_, err = e.Apply(t.Context(), 0, millrace.Apply{Version: 1, Queues: []millrace.QueueSettings{
		{UID: plainQueue, Version: 1, MaxAttempts: 3},
		{UID: trackedQueue, Version: 1, MaxAttempts: 3, Tracked: true, Retention: time.Hour, ErrorRetention: 2 * time.Hour},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &workshop{T: t, server: s, engine: e}
}

// publish puts n messages of one subject into a queue.
func (w *workshop) publish(queue string, n int) {
	w.Helper()
	c := millrace.Commit{Now: noon(), Version: 1}
	for i := range n {
		ev := millrace.CommitEvent{Tenant: "t", Topic: "orders", Body: []byte("body"), Queues: []string{queue}}
		if queue == trackedQueue {
			ev.Operations = []millrace.Opening{{Queue: queue, Name: "resync", Secret: millrace.OperationSecret{byte(i)}, Type: "MANUAL", Subject: "link", Payload: []byte("{}")}}
		}
		c.Events = append(c.Events, ev)
	}
	if _, err := w.engine.Publish(w.Context(), 0, c); err != nil {
		w.Fatal(err)
	}
}

// lease leases up to n messages and returns their items.
func (w *workshop) lease(queue string, n int) []millrace.SettleItem {
	w.Helper()
	w.tokens++
	token := millrace.Token{w.tokens}
	got, err := w.engine.Lease(w.Context(), 0, millrace.Lease{Now: noon(), Queue: queue, Max: n, MaxBytes: millrace.MaxLeaseBytes, For: time.Minute, Token: token})
	if err != nil {
		w.Fatal(err)
	}
	items := make([]millrace.SettleItem, len(got.Messages))
	for i, m := range got.Messages {
		items[i] = millrace.SettleItem{Name: m.Name, Token: token}
	}
	return items
}

func (w *workshop) settle(queue string, verb millrace.Verb, items []millrace.SettleItem) {
	w.Helper()
	done, err := w.engine.Settle(w.Context(), 0, millrace.Settle{Now: noon(), Queue: queue, Verb: verb, Items: items})
	if err != nil || len(done.Lost) > 0 {
		w.Fatalf("settle: %d lost, %v", len(done.Lost), err)
	}
}

// commands are what scripts call while f runs.
func (w *workshop) commands(f func()) []string {
	w.Helper()
	conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", w.server.Port()))
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		w.Fatal(err)
	}
	lines := bufio.NewReader(conn)
	if _, err := lines.ReadString('\n'); err != nil {
		w.Fatal(err)
	}
	f()
	w.server.Do("ECHO", "that-was-all")
	var called []string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			w.Fatal(err)
		}
		if strings.Contains(line, "that-was-all") {
			return called
		}
		if strings.Contains(line, " lua] ") {
			called = append(called, strings.TrimSpace(line))
		}
	}
}

// run publishes, leases and acks n messages of a queue.
func (w *workshop) run(queue string, n int) {
	w.Helper()
	w.publish(queue, n)
	w.settle(queue, millrace.Ack, w.lease(queue, n))
}

func TestAQueueThatIsNotTrackedPaysNothingForOperations(t *testing.T) {
	w := newWorkshop(t)
	w.run(plainQueue, 10)
	before := len(w.commands(func() { w.run(plainQueue, 10) }))
	w.publish(trackedQueue, 20)
	w.settle(trackedQueue, millrace.Retry, w.lease(trackedQueue, 10))
	called := w.commands(func() { w.run(plainQueue, 10) })
	if len(called) != before {
		t.Errorf("%d commands, %d before there were operations", len(called), before)
	}
	for _, line := range called {
		for _, key := range []string{":op", ":of", ":oi", ":ox", ":od", ":ow", ":oload", ":note", ":now"} {
			if strings.Contains(line, key+`"`) || strings.Contains(line, key+`:`) {
				t.Errorf("called for a queue that is not tracked: %s", line)
			}
		}
	}
}

func TestTrackingTakesAFewCommandsACallNotOneAMessage(t *testing.T) {
	w := newWorkshop(t)
	for _, queue := range []string{plainQueue, trackedQueue} {
		w.run(queue, 10)
	}
	plain := len(w.commands(func() { w.run(plainQueue, 200) }))
	tracked := len(w.commands(func() { w.run(trackedQueue, 200) }))
	// Publish, lease and ack: the record and two indexes; a look for notes and watchers; ends, their
	// expiry, and a few counts.
	if tracked-plain > 30 {
		t.Errorf("%d commands for 200 messages that are tracked, %d for others", tracked, plain)
	}
}

func TestCheckSeesWhatIsWrongWithOperations(t *testing.T) {
	ctx := context.Background()
	for name, damage := range map[string]func(w *workshop, own, open, ended string){
		"no record of an open one":  func(w *workshop, own, open, _ string) { w.server.Do("HDEL", own+":op", open) },
		"no record of an ended one": func(w *workshop, own, _, ended string) { w.server.Do("HDEL", own+":op", ended) },
		"no end":                    func(w *workshop, own, _, ended string) { w.server.Do("HDEL", own+":of", ended) },
		"an end of an open one": func(w *workshop, own, open, ended string) {
			w.server.Do("HSET", own+":of", open, w.server.Do("HGET", own+":of", ended))
		},
		"not found by subject":    func(w *workshop, own, _, _ string) { w.server.Do("HDEL", own+":oi", "slink") },
		"not found by queue":      func(w *workshop, own, _, _ string) { w.server.Do("HSET", own+":oi", "q"+trackedQueue, " 1") },
		"older ones that are not": func(w *workshop, own, _, _ string) { w.server.Do("ZADD", own+":oi:slink", "7", "7") },
		"never expires":           func(w *workshop, own, _, _ string) { w.server.Do("DEL", w.key(own+":ox:*")) },
		"expires twice":           func(w *workshop, own, _, ended string) { w.server.Do("RPUSH", w.key(own+":ox:*"), ended) },
		"open for no digest":      func(w *workshop, own, open, _ string) { w.server.Do("HSET", own+":od", "digest", open) },
		"watched and ended":       func(w *workshop, own, _, ended string) { w.server.Do("SADD", own+":ow", ended) },
		"notes of nothing":        func(w *workshop, own, _, _ string) { w.server.Do("HSET", own+":q:"+trackedQueue+":note", "1", "") },
		"a payload of nothing":    func(w *workshop, own, open, _ string) { w.server.Do("HSET", own+":oload", open, "{}") },
		"a cancelled one":         func(w *workshop, own, _, _ string) { w.server.Do("HINCRBY", own+":q:"+trackedQueue, "cancelled", "1") },
		"counts that cannot be": func(w *workshop, own, _, _ string) {
			w.server.Do("HSET", own+":q:"+trackedQueue+":minutes", "1", strings.Repeat("\x00", 30)+"\x59\x40")
		},
		"a trigger that was removed": func(w *workshop, own, _, _ string) {
			w.server.Do("SADD", own+":removed", "aa")
			w.server.Do("HSET", own+":fired", "aa", strings.Repeat("\x00", 24))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t)
			w.publish(trackedQueue, 2)
			item := w.lease(trackedQueue, 1)
			w.settle(trackedQueue, millrace.Ack, item)
			ended := strconv.FormatUint(item[0].Name, 10)
			open := strconv.FormatUint(item[0].Name+1, 10)
			if err := w.engine.Check(ctx); err != nil {
				t.Fatalf("before anything is wrong: %v", err)
			}
			damage(w, w.key("n:{*}:op")[:len(w.key("n:{*}:op"))-len(":op")], open, ended)
			if err := w.engine.Check(ctx); err == nil {
				t.Error("Check sees nothing")
			}
		})
	}
}

// key is the one that matches a pattern.
func (w *workshop) key(pattern string) string {
	w.Helper()
	return w.server.Do("EVAL", "return redis.call('KEYS', ARGV[1])[1]", "0", pattern)
}
