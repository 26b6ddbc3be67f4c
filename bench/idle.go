package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/internal/redistest"
)

// calm is how long a node may take after its start before it counts as idle.
const calm = 2 * time.Second

// idleRates are the Redis commands per second of nodes that have nothing to do,
// with every command that a script calls counted too.
type idleRates struct {
	Ours, Theirs float64
	Commands     string // ours, by name
}

// measureIdle watches one node of Millrace and one of asynq, each with a
// consumer that waits, on a server of its own, at the same time.
func measureIdle(ctx context.Context, length time.Duration) (idleRates, error) {
	our, stopOurs, err := idleServer(func(s *redistest.Server) (func(), error) { return ours{redis: s}.idle(ctx) })
	if err != nil {
		return idleRates{}, err
	}
	defer stopOurs()
	their, stopTheirs, err := idleServer(func(s *redistest.Server) (func(), error) { return asynqPeer{s}.idle() })
	if err != nil {
		return idleRates{}, err
	}
	defer stopTheirs()
	pause(ctx, nil, calm)
	begin, ourBefore, theirBefore := time.Now(), commandCalls(our), commandCalls(their)
	pause(ctx, nil, length)
	took, ourAfter, theirAfter := time.Since(begin).Seconds(), commandCalls(our), commandCalls(their)
	return idleRates{
		Ours:     float64(total(ourAfter)-total(ourBefore)) / took,
		Theirs:   float64(total(theirAfter)-total(theirBefore)) / took,
		Commands: grown(ourBefore, ourAfter),
	}, ctx.Err()
}

// idleServer starts a Redis server and a node on it.
func idleServer(start func(*redistest.Server) (stop func(), err error)) (*redistest.Server, func(), error) {
	s, stopServer, err := startRedis()
	if err != nil {
		return nil, nil, err
	}
	stopNode, err := start(s)
	if err != nil {
		stopServer()
		return nil, nil, fmt.Errorf("start idle node: %w", err)
	}
	return s, func() {
		stopNode()
		stopServer()
	}, nil
}

// startRedis starts a Redis server in a directory of its own.
func startRedis(args ...string) (*redistest.Server, func(), error) {
	dir, err := os.MkdirTemp("", "bench-redis-")
	if err != nil {
		return nil, nil, fmt.Errorf("make directory: %w", err)
	}
	s, err := redistest.Start(dir, args...)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start redis: %w", err), os.RemoveAll(dir))
	}
	return s, func() {
		s.Stop()
		_ = os.RemoveAll(dir)
	}, nil
}

// commandCalls is how often each command was called, but for our own question.
func commandCalls(s *redistest.Server) map[string]int {
	calls := map[string]int{}
	for line := range strings.SplitSeq(s.Do("INFO", "commandstats"), "\r\n") {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || name == "info" {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.Atoi(number); err == nil {
			calls[name] = n
		}
	}
	return calls
}

func total(calls map[string]int) int {
	sum := 0
	for _, n := range calls {
		sum += n
	}
	return sum
}

func grown(before, after map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if n := after[name] - before[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(parts, ", ")
}
