package redis

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/redistest"
)

func TestLanesLieEvenlySpacedInTheSlots(t *testing.T) {
	s := redistest.Cluster(t, 1).Servers[0]
	for lanes := 1; lanes <= millrace.MaxLanes; lanes *= 2 {
		k := keys{namespace: "millrace", lanes: lanes}
		width := redistest.Slots / lanes
		for i := range lanes {
			slot, err := strconv.Atoi(s.Do("CLUSTER", "KEYSLOT", k.lane(i)))
			if err != nil || slot/width != i {
				t.Errorf("lane %d of %d lies in slot %d: %v", i, lanes, slot, err)
			}
		}
	}
}

func TestEverythingOfALaneLiesInItsSlot(t *testing.T) {
	s := redistest.Cluster(t, 1).Servers[0]
	k := keys{namespace: "n-1.x", lanes: 16}
	own := k.lane(5)
	want := s.Do("CLUSTER", "KEYSLOT", own)
	for _, key := range []string{never(own), channel(own), own + dueKey, queue(own, "ab"), facet(own, "ab", "{x}"), back(own, "ab", "}{")} {
		if got := s.Do("CLUSTER", "KEYSLOT", key); got != want {
			t.Errorf("%q lies in slot %s, want %s", key, got, want)
		}
	}
}

// place is what a key is for; two places never share a key.
type place struct {
	lane        int
	kind        string
	uid, tenant string
}

func (p place) key(k keys) string {
	own := k.lane(p.lane)
	switch {
	case p.kind == "control":
		return k.control()
	case p.kind == "own":
		return own
	case p.kind == "never":
		return never(own)
	case p.kind == "channel":
		return channel(own)
	case p.kind == facetKey:
		return facet(own, p.uid, p.tenant)
	case p.kind == backKey:
		return back(own, p.uid, p.tenant)
	case p.kind == aliasKey, p.kind == olderKey:
		return own + p.kind + p.tenant
	case p.kind == expiringKey:
		return own + p.kind + p.uid + ":" + p.tenant
	case p.kind == eventsKey, p.kind == "s":
		return own + subKey + p.uid + strings.TrimPrefix(p.kind, "s") + p.tenant
	case strings.HasPrefix(p.kind, "s:"):
		return own + subKey + p.uid + p.kind[1:]
	case strings.HasSuffix(p.kind, ":"):
		return queue(own, p.uid) + p.kind + p.tenant
	case p.kind == "queue":
		return queue(own, p.uid)
	case strings.HasPrefix(p.kind, "q"):
		return queue(own, p.uid) + p.kind[1:]
	}
	return own + p.kind
}

func TestTwoNamesNeverShareAKey(t *testing.T) {
	kinds := []string{
		"own", "never", "channel", "queue", facetKey, backKey,
		bodyKey, holdersKey, dueKey, topicsKey, trashKey, wantedKey, removedKey, dedupeKey + "0", dedupeKey + "1", lastKey + "0", lastKey + "1",
		"q" + ringKey, "q" + handKey, "q" + leasedKey, "q" + groupKey, "q" + leftKey, "q" + delayedKey, "q" + triesKey, "q" + deadKey, "q" + whyKey, "q" + ageKey, "q" + agesKey,
		heldKey, longKey, longsKey, "q" + parkedKey, "q" + hollowKey, "q" + tenantsKey, "q" + tenantKey, "q" + waitingKey, "q" + headKey, "q" + whoseKey,
		headsKey, behindKey, linesKey, lateKey, lostKey, byKey, aliasKey,
		turnsKey, batchesKey, "s", "s" + batchKey, "s" + earlyKey, "s" + readyKey, "s" + pendingKey, "s" + deadKey, "s" + logKey, eventsKey,
		firedKey, opKey, loadKey, endKey, indexKey, olderKey, expiringKey, openKey, watchedKey,
		"q" + noteKey, "q" + nowKey, "q" + minutesKey, "q" + hoursKey, "q" + daysKey,
	}
	words := []string{"ring", "in", "facet", "back", "q", "body", "due", "0", "1", "a", "ab", "key0", "hint", "leased", "b", "batch", "events", "turns"}
	draw := rapid.Custom(func(t *rapid.T) place {
		p := place{lane: rapid.IntRange(0, 7).Draw(t, "lane"), kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		ends := strings.HasSuffix(p.kind, ":")
		if p.kind == "queue" || ends && p.kind != aliasKey && p.kind != olderKey || p.kind[0] == 'q' || p.kind[0] == 's' {
			p.uid = rapid.SampledFrom(words).Draw(t, "uid")
		}
		if ends {
			p.tenant = rapid.OneOf(rapid.SampledFrom(words), rapid.StringMatching(`[A-Za-z0-9._-]{1,8}`)).Draw(t, "tenant")
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		k := keys{namespace: "n", lanes: 8}
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		if a != b && a.key(k) == b.key(k) {
			t.Fatalf("%+v and %+v share %q", a, b, a.key(k))
		}
	})
}

func TestAUIDThatWouldBreakAKeyIsRefused(t *testing.T) {
	for _, uid := range []string{"", "a:b", "a!b", "{a}", "a b", "a\x00"} {
		if goodUID(uid) {
			t.Errorf("%q was taken", uid)
		}
	}
	if !goodUID("00000000000000ff") {
		t.Error("a uid was refused")
	}
}
