package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

var _ millrace.Diagnoser = (*Engine)(nil)

// Bounds of what is worth a word.
const (
	leastVersion = 7                // of Redis
	muchMemory   = 80               // percent of maxmemory
	mostMemory   = 95               // percent of maxmemory
	clockSkew    = 2 * time.Second  // between this machine and a server
	badClockSkew = 60 * time.Second // leases would end at the wrong time
)

// Diagnose looks at the store and at every master that holds a part of it.
func (e *Engine) Diagnose(ctx context.Context) ([]millrace.Finding, error) {
	if err := e.Ping(ctx); err != nil {
		return nil, err
	}
	e.readDurability(ctx)
	id := e.identity
	found := []millrace.Finding{
		{Name: "store", Grade: millrace.GradeOK, Detail: fmt.Sprintf("redis, format %d, lanes %d, namespace %s", id.Format, id.Lanes, id.Namespace)},
	}
	offset, err := e.diagnoseLanes(ctx)
	return slices.Concat(found, e.diagnoseServers(ctx), offset), err
}

// Survey looks at the servers that a URL names, whether they hold a store or not.
func Survey(ctx context.Context, url string, o millrace.EngineOptions) ([]millrace.Finding, error) {
	option, err := clientOption(url)
	if err != nil {
		return nil, err
	}
	if o, err = withDefaults(o); err != nil {
		return nil, err
	}
	client, err := connect(ctx, option)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	e := &Engine{client: client, options: o, log: o.Logger}
	e.readDurability(ctx)
	return e.diagnoseServers(ctx), nil
}

// diagnoseServers looks at every master.
func (e *Engine) diagnoseServers(ctx context.Context) []millrace.Finding {
	found := []millrace.Finding{diagnoseDurability(e.Durability())}
	servers := e.masters(ctx)
	for _, addr := range slices.Sorted(maps.Keys(servers)) {
		for _, f := range e.diagnoseServer(ctx, servers[addr]) {
			if len(servers) > 1 {
				f.Name += " " + addr
			}
			found = append(found, f)
		}
	}
	return found
}

func diagnoseDurability(level millrace.Durability) millrace.Finding {
	f := millrace.Finding{Name: "durability", Grade: millrace.GradeOK, Detail: string(level)}
	switch level {
	case millrace.InMemory:
		f.Grade, f.Detail = millrace.GradeWarn, "memory: when Redis restarts, all since its last snapshot is gone"
		f.Next = "set appendonly yes and appendfsync everysec or always"
	case millrace.EverySec:
		f.Detail = "everysec: when Redis or its machine dies, up to 2 s can go"
	case millrace.Unknown:
		f.Grade, f.Detail = millrace.GradeWarn, "unknown: this Redis user may not run CONFIG GET"
		f.Next = "allow it with ACL SETUSER … +config|get, or look at appendonly and appendfsync yourself"
	}
	return f
}

// diagnoseServer looks at one master.
func (e *Engine) diagnoseServer(ctx context.Context, node rueidis.Client) []millrace.Finding {
	found := []millrace.Finding{diagnoseClock(ctx, node)}
	config, err := node.Do(ctx, node.B().ConfigGet().Parameter("maxmemory", "maxmemory-policy").Build()).AsStrMap()
	if err == nil && config["maxmemory-policy"] != "" {
		found = append(found, diagnoseEviction(config["maxmemory-policy"]))
	}
	info, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if err != nil {
		return append(found, millrace.Finding{
			Name: "server", Grade: millrace.GradeWarn, Detail: "version, memory and replicas cannot be seen: INFO is refused",
			Next: "allow it with ACL SETUSER … +info",
		})
	}
	return append(found, diagnoseVersion(infoField(info, "redis_version")), diagnoseMemory(info), e.diagnoseReplicas(info))
}

func diagnoseVersion(version string) millrace.Finding {
	f := millrace.Finding{Name: "version", Grade: millrace.GradeOK, Detail: "Redis " + version}
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < leastVersion {
		f.Grade, f.Next = millrace.GradeFail, "use Redis 7 or later"
	}
	return f
}

func diagnoseEviction(policy string) millrace.Finding {
	f := millrace.Finding{Name: "eviction", Grade: millrace.GradeOK, Detail: policy}
	if policy != "noeviction" {
		f.Grade, f.Detail = millrace.GradeFail, policy+": a full Redis throws away what is stored"
		f.Next = "set maxmemory-policy noeviction"
	}
	return f
}

// diagnoseMemory compares what is used with the bound that Redis was given.
func diagnoseMemory(info string) millrace.Finding {
	f := millrace.Finding{Name: "memory", Grade: millrace.GradeOK}
	used, _ := strconv.ParseInt(infoField(info, "used_memory"), 10, 64)
	bound, _ := strconv.ParseInt(infoField(info, "maxmemory"), 10, 64)
	if bound == 0 {
		f.Grade, f.Detail = millrace.GradeWarn, fmt.Sprintf("%d MiB used, without a bound: a full machine ends Redis", used>>20)
		f.Next = "set maxmemory to what the machine can spare: a full store then refuses to publish, and loses nothing"
		return f
	}
	percent := 100 * used / bound
	f.Detail = fmt.Sprintf("%d of %d MiB used (%d %%)", used>>20, bound>>20, percent)
	switch {
	case percent >= mostMemory:
		f.Grade, f.Next = millrace.GradeFail, "settle what waits, or raise maxmemory: publishing is refused when it is full"
	case percent >= muchMemory:
		f.Grade, f.Next = millrace.GradeWarn, "settle what waits, or raise maxmemory, before it is full"
	}
	return f
}

func (e *Engine) diagnoseReplicas(info string) millrace.Finding {
	n, _ := strconv.Atoi(infoField(info, "connected_slaves"))
	f := millrace.Finding{Name: "replicas", Grade: millrace.GradeOK, Detail: strconv.Itoa(n) + " connected"}
	if want := e.options.WaitReplicas; n < want {
		f.Grade, f.Detail = millrace.GradeFail, fmt.Sprintf("%d connected, and every commit waits for %d", n, want)
		f.Next = "bring the replicas back, or lower --wait-replicas"
	}
	return f
}

// diagnoseClock compares this machine's clock with a server's. The time of the
// round trip is not held against it.
func diagnoseClock(ctx context.Context, node rueidis.Client) millrace.Finding {
	f := millrace.Finding{Name: "clock", Grade: millrace.GradeOK}
	before := time.Now()
	reply, err := node.Do(ctx, node.B().Time().Build()).AsStrSlice()
	after := time.Now()
	if err != nil || len(reply) != 2 {
		f.Grade, f.Detail, f.Next = millrace.GradeWarn, "the server's time cannot be read", "allow TIME for this user"
		return f
	}
	seconds, _ := strconv.ParseInt(reply[0], 10, 64)
	micros, _ := strconv.ParseInt(reply[1], 10, 64)
	there := time.Unix(seconds, 1000*micros)
	skew := max(before.Sub(there), there.Sub(after), 0).Round(time.Millisecond)
	f.Detail = fmt.Sprintf("this machine and the server differ by %s", skew)
	switch {
	case skew >= badClockSkew:
		f.Grade, f.Next = millrace.GradeFail, "set both clocks right and keep them so with NTP"
	case skew >= clockSkew:
		f.Grade, f.Next = millrace.GradeWarn, "set both clocks right and keep them so with NTP"
	}
	return f
}

// diagnoseLanes tells of a server's clock that went back.
func (e *Engine) diagnoseLanes(ctx context.Context) ([]millrace.Finding, error) {
	var ahead time.Duration
	for lane := range e.own {
		s, err := e.LaneStats(ctx, lane)
		if err != nil {
			return nil, err
		}
		ahead = max(ahead, s.ClockOffset)
	}
	if ahead == 0 {
		return nil, nil
	}
	return []millrace.Finding{{
		Name: "lane clock", Grade: millrace.GradeWarn,
		Detail: fmt.Sprintf("the server's clock has gone back; the store's runs %s ahead of it", ahead),
		Next:   "set the server's clock right and keep it so with NTP",
	}}, nil
}
