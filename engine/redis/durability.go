package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// sendAndWait sends a command and waits for the replicas on the same
// connection: a WAIT on another one says nothing about the command.
func (e *Engine) sendAndWait(ctx context.Context, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	conn, done := e.client.Dedicate()
	defer done()
	wait := e.client.B().Wait().Numreplicas(int64(e.options.WaitReplicas)).Timeout(replicasWithin.Milliseconds()).Build()
	results := conn.DoMulti(ctx, cmd, wait)
	reply, err := results[0].ToMessage()
	if err != nil {
		e.dropBroken(conn, results[0])
		return reply, err
	}
	got, err := results[1].AsInt64()
	if _, refused := rueidis.IsRedisErr(err); refused {
		return reply, millrace.Wrap(millrace.CodeNotReplicated, err, "Redis does not say which replicas have the commit")
	}
	if err != nil {
		e.dropBroken(conn, results[1])
		return reply, err
	}
	if got < int64(e.options.WaitReplicas) {
		return reply, millrace.Errorf(millrace.CodeNotReplicated, "%d of %d replicas have the commit", got, e.options.WaitReplicas)
	}
	return reply, nil
}

// dropBroken keeps a connection with an answer under way out of the pool.
func (e *Engine) dropBroken(conn rueidis.DedicatedClient, r rueidis.RedisResult) {
	if r.NonRedisError() != nil {
		conn.Close()
	}
}

// readDurability asks every master what an answer means there. The store is as
// durable as the least durable of them.
func (e *Engine) readDurability(ctx context.Context) {
	level := millrace.Fsync
	for addr, node := range e.masters(ctx) {
		config, err := node.Do(ctx, node.B().ConfigGet().Parameter("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory-policy").Build()).AsStrMap()
		if _, refused := rueidis.IsRedisErr(err); err != nil && !refused && e.level.Load() != nil {
			return // it did not answer: that says nothing about its settings
		}
		if err != nil {
			level = millrace.Unknown
			break
		}
		level = lesser(level, levelOf(config))
		if p := config["maxmemory-policy"]; p != "" && p != "noeviction" {
			e.toldEviction.Do(func() {
				e.log.Warn("redis may evict what is stored: set maxmemory-policy to noeviction", "addr", addr, "policy", p)
			})
		}
	}
	if e.options.WaitReplicas > 0 {
		level = millrace.Replicated
	}
	e.level.Store(level)
	e.levelRead.Store(time.Now().UnixNano())
}

func levelOf(config map[string]string) millrace.Durability {
	switch {
	case config["appendonly"] != "yes":
		return millrace.InMemory
	case config["no-appendfsync-on-rewrite"] == "yes":
		return millrace.InMemory // while the file is rewritten nothing is synced, for as long as that takes
	case config["appendfsync"] == "always":
		return millrace.Fsync
	case config["appendfsync"] == "everysec":
		return millrace.EverySec
	}
	return millrace.InMemory
}

// lesser is the weaker of two levels of a Redis.
func lesser(a, b millrace.Durability) millrace.Durability {
	rank := map[millrace.Durability]int{millrace.InMemory: 0, millrace.EverySec: 1, millrace.Fsync: 2}
	if rank[b] < rank[a] {
		return b
	}
	return a
}
