package enginetest

import (
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func nodePromises() []promise {
	return []promise{
		{"ANodeThatBeatsIsListedById", beatingIsListed},
		{"ANodeWithoutAnIdOnlyLooks", emptyIDOnlyLooks},
		{"ANodeNotSeenForTheTimeIsForgotten", silentIsForgotten},
		{"ANodeThatLeavesIsForgottenAtOnce", leavingIsForgotten},
		{"NodesThatBeatAtOnceAreAllListed", beatingAtOnce},
	}
}

// beat beats for a node and returns who is there.
func (r *rig) beat(n millrace.Node, ttl time.Duration) []millrace.Node {
	r.Helper()
	nodes, err := r.Beat(r.ctx(), n, ttl)
	r.ok(err)
	return nodes
}

func ids(nodes []millrace.Node) []string {
	var ids []string
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

func beatingIsListed(t *testing.T, c Config) {
	r := open(t, c)
	started := time.Now().UTC().Truncate(time.Millisecond)
	b := millrace.Node{ID: "b", Host: "host two", Version: "1.2", Roles: []string{"web", "monitor"}, StartedAt: started}
	r.beat(b, minute)
	nodes := r.beat(millrace.Node{ID: "a", Host: "one", StartedAt: started}, minute)
	r.same("ids", ids(nodes), []string{"a", "b"})
	seen := nodes[1].SeenAt
	if d := time.Since(seen); d < -time.Second || d > minute {
		t.Errorf("seen %v ago", d)
	}
	b.SeenAt = seen
	r.same("node", nodes[1], b)
	r.waitFor("a later beat to be seen later", func() bool {
		return r.beat(b, minute)[1].SeenAt.After(seen)
	})
}

func emptyIDOnlyLooks(t *testing.T, c Config) {
	r := open(t, c)
	r.same("nobody", len(r.beat(millrace.Node{}, minute)), 0)
	r.beat(millrace.Node{ID: "a"}, minute)
	r.same("one", ids(r.beat(millrace.Node{}, minute)), []string{"a"})
	r.same("still one", ids(r.beat(millrace.Node{Host: "looker"}, minute)), []string{"a"})
}

func silentIsForgotten(t *testing.T, c Config) {
	r := open(t, c)
	r.beat(millrace.Node{ID: "silent"}, minute)
	r.waitFor("the silent one to be forgotten", func() bool {
		return len(r.beat(millrace.Node{ID: "alive"}, 20*time.Millisecond)) == 1
	})
	r.same("left", ids(r.beat(millrace.Node{}, minute)), []string{"alive"})
}

func leavingIsForgotten(t *testing.T, c Config) {
	r := open(t, c)
	r.beat(millrace.Node{ID: "a"}, minute)
	r.beat(millrace.Node{ID: "b"}, minute)
	r.ok(r.Leave(r.ctx(), "a"))
	r.ok(r.Leave(r.ctx(), "a"))
	r.same("left", ids(r.beat(millrace.Node{}, minute)), []string{"b"})
}

func beatingAtOnce(t *testing.T, c Config) {
	r := open(t, c)
	var wg sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		wg.Go(func() {
			for range 5 {
				if _, err := r.Beat(r.ctx(), millrace.Node{ID: id}, minute); err != nil {
					r.Errorf("beat: %v", err)
				}
			}
		})
	}
	wg.Wait()
	r.same("ids", ids(r.beat(millrace.Node{}, minute)), []string{"a", "b", "c", "d", "e", "f"})
}
