package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

//go:embed lua/*.lua
var luaFiles embed.FS

const (
	// patience is how long a call is repeated that provably did not run.
	patience = 10 * time.Second
	// replicasWithin is how long a commit waits for its replicas.
	replicasWithin = 3 * time.Second
)

// script is one transition: its text and how Redis names it.
type script struct {
	name   string
	text   string
	sha    string
	writes bool // its outcome matters: a call without an answer may have run
	waits  bool // its answer promises something: it waits for the replicas that were asked for
}

// scripts are the transitions, composed once.
type scripts struct {
	registryCreate, registryReady, registryForget         script
	registryDefine, registryChanges, registryRaise        script
	laneCreate, laneApply, laneStats, laneStep, laneSweep script
	laneWatch, permitPublish                              script
	publish, lease, settle, extend, queueStats            script
	release, peek, purge, inject, deadList, deadTake      script
	tenantSet, tenantList, heldGet, heldCancel            script
	topicList, topicForget, nodeBeat, nodeLeave, permit   script
	batchTake, batchSettle, batchList, batchRetry         script
	batchDrop, batchOldest, batchLog, batchStats          script
	batchInject, publishBatch, wanted                     script
	operationStart, operationGet, operationList           script
	operationCancel, operationReport, operationCounts     script
	triggerFire, triggerFired                             script
}

// What a script is made of before its own text, and whether it runs on a full
// server: those that settle, free or tell do; publish does not.
const (
	bare     = ""
	shared   = "prelude"
	tracked  = "prelude prelude_count prelude_index prelude_track"
	tenants  = tracked + " prelude_tenant"
	leases   = tenants + " prelude_lease"
	batched  = "prelude prelude_batch"
	allowOOM = "#!lua flags=allow-oom\n"
	denyOOM  = "#!lua\n"
)

func newScripts() *scripts {
	return &scripts{
		registryCreate:  compose("registry_create", denyOOM, bare),
		registryReady:   compose("registry_ready", denyOOM, bare),
		registryForget:  compose("registry_forget", allowOOM, bare),
		registryDefine:  promising(compose("registry_define", allowOOM, shared)),
		registryChanges: reading(compose("registry_changes", allowOOM, shared)),
		registryRaise:   compose("registry_raise", allowOOM, shared),
		laneCreate:      compose("lane_create", denyOOM, bare),
		laneApply:       promising(compose("lane_apply", allowOOM, tenants+" prelude_batch")),
		laneStats:       reading(compose("lane_stats", allowOOM, shared)),
		laneStep:        compose("lane_step", allowOOM, leases+" prelude_batch"),
		laneSweep:       compose("lane_sweep", allowOOM, leases+" prelude_batch"),
		laneWatch:       compose("lane_watch", allowOOM, shared),
		publish:         promising(compose("publish_write", denyOOM, tenants+" publish_read publish_open event_json publish_live publish_stamp")),
		publishBatch:    promising(compose("publish_write", denyOOM, tenants+" prelude_batch prelude_collect publish_read publish_open publish_batch event_json publish_live publish_stamp")),
		lease:           compose("queue_lease", allowOOM, leases+" lease_turns lease_single lease_tracked lease_plan"),
		settle:          promising(compose("queue_settle", allowOOM, leases)),
		extend:          compose("queue_extend", allowOOM, leases),
		release:         compose("queue_release", allowOOM, leases),
		peek:            reading(compose("queue_peek", allowOOM, tenants)),
		purge:           promising(compose("queue_purge", allowOOM, leases)),
		inject:          promising(compose("queue_inject", denyOOM, tenants)),
		deadList:        reading(compose("dead_list", allowOOM, shared)),
		deadTake:        promising(compose("dead_take", allowOOM, leases)),
		tenantSet:       promising(compose("tenant_set", allowOOM, tenants)),
		tenantList:      reading(compose("tenant_list", allowOOM, tenants)),
		heldGet:         reading(compose("held_get", allowOOM, shared)),
		heldCancel:      promising(compose("held_cancel", allowOOM, shared)),
		batchTake:       compose("batch_take", allowOOM, batched),
		batchSettle:     promising(compose("batch_settle", allowOOM, batched)),
		batchList:       reading(compose("batch_list", allowOOM, batched)),
		batchRetry:      promising(compose("batch_retry", allowOOM, batched)),
		batchDrop:       promising(compose("batch_drop", allowOOM, batched)),
		batchOldest:     compose("batch_oldest", allowOOM, batched),
		batchLog:        reading(compose("batch_log", allowOOM, batched)),
		batchStats:      reading(compose("batch_stats", allowOOM, batched)),
		batchInject:     promising(compose("batch_inject", denyOOM, batched+" prelude_collect")),
		queueStats:      reading(compose("queue_stats", allowOOM, shared)),
		wanted:          reading(compose("queue_wanted", allowOOM, shared)),
		topicList:       reading(compose("topic_list", allowOOM, shared)),
		topicForget:     compose("topic_forget", allowOOM, shared),
		nodeBeat:        compose("node_beat", allowOOM, shared),
		nodeLeave:       compose("node_leave", allowOOM, shared),
		operationStart:  promising(compose("operation_start", denyOOM, tenants+" prelude_view")),
		operationGet:    reading(compose("operation_get", allowOOM, shared+" prelude_view")),
		operationList:   reading(compose("operation_list", allowOOM, shared+" prelude_index prelude_view")),
		operationCancel: promising(compose("operation_cancel", allowOOM, tracked+" prelude_view")),
		operationReport: compose("operation_report", allowOOM, tracked+" prelude_view"),
		operationCounts: reading(compose("operation_counts", allowOOM, shared+" prelude_count")),
		triggerFire:     promising(compose("trigger_fire", allowOOM, shared)),
		triggerFired:    reading(compose("trigger_fired", allowOOM, shared)),
		permitPublish:   reading(compose("live_permit", allowOOM, bare)),
		permit:          reading(compose("store_permit", allowOOM, bare)),
	}
}

// compose puts a script together. The files are part of the program: a missing
// one is a broken build.
func compose(name, flags, preludes string) script {
	var b strings.Builder
	b.WriteString(flags)
	for _, file := range append(strings.Fields(preludes), name) {
		text, err := luaFiles.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err)
		}
		b.Write(text)
	}
	sum := sha1.Sum([]byte(b.String())) //nolint:gosec // Redis names scripts by it
	return script{name: name, text: b.String(), sha: hex.EncodeToString(sum[:]), writes: true}
}

// promising marks a script whose answer says that something is stored or settled. One that
// only lends (a lease, a batch to send) does not wait: an answer that is held back because a
// replica is missing would cost an attempt of what it lent.
func promising(s script) script {
	s.waits = true
	return s
}

func reading(s script) script {
	s.writes = false
	return s
}

// run calls a script on the lane of an own key and returns its reply. What
// provably did not run is repeated until patience or ctx ends; a call without
// an answer is never repeated. Refusals of the script are errors with a code.
func (e *Engine) run(ctx context.Context, s *script, own string, args ...string) ([]rueidis.RedisMessage, error) {
	reply, err := e.call(ctx, s, own, args)
	if err != nil {
		return nil, err
	}
	if list, err := reply.ToArray(); err == nil {
		return list, nil
	}
	if reply.IsInt64() {
		return []rueidis.RedisMessage{reply}, nil
	}
	text, err := reply.ToString()
	if err != nil {
		return nil, millrace.Wrap(millrace.CodeInternal, err, "script "+s.name+" gave an unknown reply")
	}
	return nil, refusal(text)
}

// refusal reads the word with which a script refuses.
func refusal(text string) error {
	for _, r := range [...]struct {
		word   string
		code   millrace.Code
		detail string
	}{
		{"lane_missing", millrace.CodeLaneMissing, "the lane has vanished from the store"},
		{"not_found", millrace.CodeNotFound, "the lane does not know the queue"},
		{"no_subscription", millrace.CodeNotFound, "the lane does not know the subscription"},
		{"no_batch", millrace.CodeNotFound, "the subscription has no such batch"},
		{"pending", millrace.CodePending, "the batch is being sent: wait until that has ended"},
		{"no_operation", millrace.CodeNotFound, "the lane has no such operation"},
		{"not_tracked", millrace.CodeNotTracked, "the messages of the queue have no operations"},
		{"finished", millrace.CodeFinished, "the operation has finished"},
		{"lost", millrace.CodeLost, "the operation is not of a message that is leased under the token"},
		{"full", millrace.CodeFull, "a tenant has as many messages waiting in the queue as it may"},
		{"no_delay", millrace.CodeInvalid, "an ordered queue has no delayed start"},
		{"fleeting", millrace.CodeInvalid, "messages of a tracked queue are leased for some time"},
		{"no_openings", millrace.CodeInvalid, "each message of a tracked queue needs an opening"},
		{"no_trigger", millrace.CodeNotFound, "the trigger was removed"},
		{"no_store", millrace.CodeNotFound, "there is no store of this namespace"},
		{"not_held", millrace.CodeNotFound, "no delayed event has the id"},
		{"narrow", millrace.CodeMismatch, "the Redis server does not compute with 64 bits"},
		{"changed", millrace.CodeChanged, "the definition has changed"},
	} {
		if r.word == text {
			return &millrace.Error{Code: r.code, Detail: r.detail}
		}
	}
	return millrace.Errorf(millrace.CodeInternal, "a script refused with an unknown word")
}

func (e *Engine) call(ctx context.Context, s *script, own string, args []string) (rueidis.RedisMessage, error) {
	var none rueidis.RedisMessage
	until := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if err := e.usable(ctx); err != nil {
			return none, err
		}
		reply, err := e.once(ctx, s, own, args)
		if err == nil {
			return reply, nil
		}
		failure := classify(err, s.writes)
		if !failure.again || time.Now().After(until) {
			return none, failure.err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return none, failure.err
		}
	}
}

// usable refuses a call that has not begun: nothing has happened yet.
func (e *Engine) usable(ctx context.Context) error {
	if e.ctx.Err() != nil {
		return millrace.Errorf(millrace.CodeUnavailable, "the engine is closed")
	}
	if err := ctx.Err(); err != nil {
		return millrace.Wrap(millrace.CodeUnavailable, err, "the call was given up before it began")
	}
	return nil
}

// once sends a script by its name, and by its text to a server that does not
// know it; such a server has not run it.
func (e *Engine) once(ctx context.Context, s *script, own string, args []string) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	send := e.send
	if s.waits && e.options.WaitReplicas > 0 {
		send = e.sendAndWait
	}
	b := e.client.B()
	reply, err := send(ctx, b.Evalsha().Sha1(s.sha).Numkeys(2).Key(own, never(own)).Arg(args...).Build())
	if refused, ok := rueidis.IsRedisErr(err); ok && refused.IsNoScript() {
		return send(ctx, b.Eval().Script(s.text).Numkeys(2).Key(own, never(own)).Arg(args...).Build())
	}
	return reply, err
}

func (e *Engine) send(ctx context.Context, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	return e.client.Do(ctx, cmd).ToMessage()
}

// failure is what became of a call without a reply.
type failure struct {
	err   error
	again bool // it provably did not run and may run later
}

// classify tells what did not run from what may have run.
func classify(err error, writes bool) failure {
	if millrace.CodeOf(err) == millrace.CodeNotReplicated {
		return failure{err: err}
	}
	if refused, ok := rueidis.IsRedisErr(err); ok {
		return classifyReply(refused)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, rueidis.ErrNoSlot) {
		return failure{millrace.Wrap(millrace.CodeUnavailable, err, "Redis cannot be reached"), true}
	}
	if !writes {
		return failure{err: millrace.Wrap(millrace.CodeUnavailable, err, "Redis did not answer")}
	}
	return failure{err: millrace.Wrap(millrace.CodeOutcomeUnknown, err, "Redis did not answer")}
}

// classifyReply reads an error reply. All of these are refusals before a
// script's first write, except an error that a script itself raised.
func classifyReply(refused *rueidis.RedisError) failure {
	word, rest, _ := strings.Cut(refused.Error(), " ")
	if strings.HasPrefix(rest, "max number of clients") {
		word = "BUSY"
	}
	switch word {
	case "TRYAGAIN", "LOADING", "CLUSTERDOWN", "MOVED", "ASK", "READONLY", "MASTERDOWN", "BUSY":
		return failure{millrace.Wrap(millrace.CodeUnavailable, refused, "Redis cannot serve the lane now"), true}
	case "OOM":
		return failure{err: millrace.Wrap(millrace.CodeStoreFull, refused, "Redis has no memory left")}
	case "MISCONF", "NOREPLICAS", "NOAUTH", "WRONGPASS", "NOPERM", "DENIED":
		return failure{err: millrace.Wrap(millrace.CodeUnavailable, refused, "Redis refuses the command")}
	}
	return failure{err: millrace.Wrap(millrace.CodeInternal, refused, "Redis failed a script")}
}

// millis is a time as scripts take it: 0 for the lane's own clock.
func millis(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// span is a duration in whole milliseconds, rounded up.
func span(d time.Duration) string { return strconv.FormatInt(spanMillis(d), 10) }

func spanMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func moment(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// next is the time to the lane's next due entry, negative if there is none.
func next(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}
