// Package redis keeps a store in Redis 7 or later: one server, a Sentinel's
// master, or a Cluster. Every transition is one Lua script over the keys of one
// hash slot.
package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

const (
	defaultLanes = 1  // of one server, where a single lane makes fairness exact
	clusterLanes = 16 // of a Cluster

	roleWithin = 2 * time.Second // for the servers of a Cluster to say what they are
)

// Engine is an opened store in Redis. It fulfils millrace.Engine.
type Engine struct {
	client   rueidis.Client
	scripts  *scripts
	keys     keys
	own      []string // the lanes' own keys
	identity millrace.Identity
	options  millrace.EngineOptions
	log      *slog.Logger

	level        atomic.Value // millrace.Durability
	levelRead    atomic.Int64
	toldEviction sync.Once
	toldChannels sync.Once

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	calls    sync.WaitGroup // gathered calls under way
	commits  []*gatherer[millrace.Commit, millrace.Committed]
	acks     []*gatherer[millrace.Settle, millrace.Settled]
	watching watch
	showing  watch // of live events

	publishing []string // the last arguments of a publish, if events are published for any client
}

var _ millrace.Engine = (*Engine)(nil)

// Open opens the store that a URL names, redis[s]://[user:password@]host:port[/db],
// redis[s]-sentinel://host:port,…/master or redis[s]-cluster://host:port,…, and
// creates it if there is none.
func Open(ctx context.Context, url string, o millrace.EngineOptions) (*Engine, error) {
	option, err := clientOption(url)
	if err != nil {
		return nil, err
	}
	o, err = withDefaults(o)
	if err != nil {
		return nil, err
	}
	client, err := connect(ctx, option)
	if err != nil {
		return nil, err
	}
	e := &Engine{client: client, scripts: newScripts(), options: o, log: o.Logger}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if err := e.identify(ctx); err != nil {
		e.cancel()
		client.Close()
		return nil, err
	}
	e.readPublishing(ctx)
	e.gatherers()
	e.readDurability(ctx)
	return e, nil
}

// connect keeps trying for a while: a server that restarts is not there yet.
func connect(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	until := time.Now().Add(patience)
	for {
		client, err := rueidis.NewClient(option)
		if err == nil {
			return client, nil
		}
		if client != nil {
			client.Close()
		}
		if failed := classify(err, false); !failed.again || time.Now().After(until) {
			return nil, millrace.Wrap(millrace.CodeUnavailable, err, "connect to Redis")
		}
		select {
		case <-ctx.Done():
			return nil, millrace.Wrap(millrace.CodeUnavailable, err, "connect to Redis")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func withDefaults(o millrace.EngineOptions) (millrace.EngineOptions, error) {
	var faults []millrace.Fault
	if o.Namespace == "" {
		o.Namespace = millrace.DefaultNamespace
	}
	if f := millrace.NameFault(o.Namespace); f != "" {
		faults = append(faults, millrace.Fault{Location: "namespace", Message: f})
	}
	if o.Lanes != 0 && !millrace.ValidLanes(o.Lanes) {
		faults = append(faults, millrace.Fault{Location: "lanes", Message: "must be a power of two up to " + strconv.Itoa(millrace.MaxLanes)})
	}
	if o.WaitReplicas < 0 {
		faults = append(faults, millrace.Fault{Location: "wait_replicas", Message: "must not be negative"})
	}
	if o.DedupeWindow <= 0 {
		o.DedupeWindow = millrace.DefaultDedupeWindow
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, millrace.Invalid(faults)
}

// identify finds out what the store is, or writes it.
func (e *Engine) identify(ctx context.Context) error {
	lanes := e.options.Lanes
	if lanes == 0 {
		lanes = defaultLanes
		if e.client.Mode() == rueidis.ClientModeCluster {
			lanes = clusterLanes
		}
	}
	id, err := ulid.New(ulid.Now(), rand.Reader)
	if err != nil {
		return millrace.Wrap(millrace.CodeInternal, err, "make a store id")
	}
	if e.options.Existing {
		lanes = 0
	}
	e.keys = keys{namespace: e.options.Namespace}
	reply, err := e.run(ctx, &e.scripts.registryCreate, e.keys.control(),
		id.String(), strconv.Itoa(millrace.Format), strconv.Itoa(lanes), e.options.Namespace)
	if millrace.CodeOf(err) == millrace.CodeInternal {
		return millrace.Wrap(millrace.CodeMismatch, err, "the server does not run our scripts: it takes Redis 7 or later")
	}
	if err != nil {
		return err
	}
	ready, err := e.takeIdentity(reply)
	if err != nil {
		return err
	}
	if !ready && e.options.Existing {
		return millrace.Errorf(millrace.CodeNotFound, "the creation of the store was cut short; the next server completes it")
	}
	if err := e.checkPermissions(ctx); err != nil {
		return err
	}
	err = e.checkLanes(ctx, ready)
	if millrace.CodeOf(err) == millrace.CodeMismatch && e.identity.Created {
		// The registry of these lanes has vanished: leave its place free for what is restored.
		if _, undo := e.run(ctx, &e.scripts.registryForget, e.keys.control(), e.identity.StoreID); undo != nil {
			return errors.Join(err, undo)
		}
	}
	return err
}

func (e *Engine) takeIdentity(reply []rueidis.RedisMessage) (ready bool, err error) {
	text := make([]string, len(reply))
	for i := range reply {
		text[i] = textOf(reply[i])
	}
	format, _ := strconv.Atoi(text[1])
	lanes, _ := strconv.Atoi(text[2])
	e.identity = millrace.Identity{
		Engine: "redis", StoreID: text[0], Format: format, Lanes: lanes,
		Namespace: text[3], Created: text[5] == "1",
	}
	switch {
	case format != millrace.Format:
		return false, millrace.Errorf(millrace.CodeMismatch, "the store has format %d, this program needs %d", format, millrace.Format)
	case !millrace.ValidLanes(lanes) || e.options.Lanes != 0 && e.options.Lanes != lanes:
		return false, millrace.Errorf(millrace.CodeMismatch, "the store was made with %d lanes, not %d", lanes, e.options.Lanes)
	case text[3] != e.options.Namespace:
		return false, millrace.Errorf(millrace.CodeMismatch, "the store was made for another namespace")
	}
	e.keys.lanes = lanes
	for i := range lanes {
		e.own = append(e.own, e.keys.lane(i))
	}
	return text[4] == "1", nil
}

// checkLanes sees that every lane is there. Only while a store is created may
// one be missing; later it has vanished, and an empty one must not take its place.
func (e *Engine) checkLanes(ctx context.Context, ready bool) error {
	if ready {
		for lane := range e.own {
			if _, err := e.LaneStats(ctx, lane); err != nil {
				return err
			}
		}
		return nil
	}
	for lane, own := range e.own {
		reply, err := e.run(ctx, &e.scripts.laneCreate, own,
			e.identity.StoreID, strconv.Itoa(millrace.Format), strconv.Itoa(len(e.own)), strconv.Itoa(lane))
		if err != nil {
			return err
		}
		if textOf(reply[0]) != e.identity.StoreID {
			return millrace.Errorf(millrace.CodeMismatch, "lane %d belongs to another store", lane)
		}
	}
	if len(e.own) == 1 {
		e.log.Warn("created a store with 1 lane: it stays on one master for ever", "namespace", e.identity.Namespace)
	}
	_, err := e.run(ctx, &e.scripts.registryReady, e.keys.control(), e.identity.StoreID)
	return err
}

// Identity says what the store is.
func (e *Engine) Identity() millrace.Identity { return e.identity }

// Durability is the level that answers have, as the servers last said.
func (e *Engine) Durability() millrace.Durability { return e.level.Load().(millrace.Durability) }

// Ping reports whether the store can answer now, and looks at its durability again.
func (e *Engine) Ping(ctx context.Context) error {
	if _, err := e.run(ctx, &e.scripts.registryRaise, e.keys.control(), e.identity.StoreID, "0", "-1"); err != nil {
		return err
	}
	for lane := range e.own {
		if _, err := e.LaneStats(ctx, lane); err != nil {
			return err
		}
	}
	if time.Since(time.Unix(0, e.levelRead.Load())) > 5*time.Second {
		e.readDurability(ctx)
	}
	return nil
}

// Bytes is the memory that the servers use; 0 if they may not be asked.
func (e *Engine) Bytes(ctx context.Context) (int64, error) {
	if err := e.usable(ctx); err != nil {
		return 0, err
	}
	var sum int64
	for _, node := range e.masters(ctx) {
		info, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if forbidden(err) {
			return 0, nil
		}
		if err != nil {
			return 0, classify(err, false).err
		}
		used, _ := strconv.ParseInt(infoField(info, "used_memory"), 10, 64)
		sum += used
	}
	return sum, nil
}

// forbidden reports whether the user may not run a command.
func forbidden(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(refused.Error(), "NOPERM")
}

// LaneStats returns a lane's counters.
func (e *Engine) LaneStats(ctx context.Context, lane int) (millrace.LaneStats, error) {
	reply, err := e.runLane(ctx, &e.scripts.laneStats, lane, timeless)
	if err != nil {
		return millrace.LaneStats{}, err
	}
	n := ints(reply)
	return millrace.LaneStats{
		Version: uint64(n[0]), Published: n[1], Duplicates: n[2], Unrouted: n[3], Dropped: n[4],
		ClockOffset: time.Duration(n[5]) * time.Millisecond, Held: n[6],
	}, nil
}

// Close stops the engine. Calls under way fail.
func (e *Engine) Close() error {
	e.watching.end()
	e.showing.end()
	e.cancel()
	for i := range e.commits {
		e.commits[i].close()
		e.acks[i].close()
	}
	e.calls.Wait()
	e.client.Close()
	return nil
}

// timeless stands for the time of a transition that does not depend on it.
const timeless = "-1"

// runLane calls a script of a lane: the store's id and the time come first.
func (e *Engine) runLane(ctx context.Context, s *script, lane int, now string, args ...string) ([]rueidis.RedisMessage, error) {
	if lane < 0 || lane >= len(e.own) {
		return nil, millrace.Errorf(millrace.CodeLaneMissing, "the store has no lane %d", lane)
	}
	return e.run(ctx, s, e.own[lane], append([]string{e.identity.StoreID, now}, args...)...)
}

// runControl does the same in the control slot, by the server's clock.
func (e *Engine) runControl(ctx context.Context, s *script, args ...string) ([]rueidis.RedisMessage, error) {
	return e.run(ctx, s, e.keys.control(), append([]string{e.identity.StoreID, "0"}, args...)...)
}

// masters are the servers that hold a part of the store, by address. Of a Cluster one
// that does not answer is left out: a lane that lies there says so itself, and a replica
// that is away concerns nobody.
func (e *Engine) masters(ctx context.Context) map[string]rueidis.Client {
	nodes := e.client.Nodes()
	if e.client.Mode() != rueidis.ClientModeCluster {
		return nodes
	}
	ctx, cancel := context.WithTimeout(ctx, roleWithin)
	defer cancel()
	masters := map[string]rueidis.Client{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for addr, node := range nodes {
		asked.Go(func() {
			if isMaster(ctx, node) {
				mu.Lock()
				defer mu.Unlock()
				masters[addr] = node
			}
		})
	}
	asked.Wait()
	return masters
}

// isMaster asks a server what it is; one that may not be asked counts as a master.
func isMaster(ctx context.Context, node rueidis.Client) bool {
	role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
	if err != nil {
		_, refused := rueidis.IsRedisErr(err)
		return refused
	}
	return len(role) == 0 || textOf(role[0]) == "master"
}
