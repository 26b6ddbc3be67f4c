package redis

import (
	"context"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// dump is everything that a lane holds, as Check reads it. Names are the keys
// without the lane's own one.
type dump struct {
	hashes map[string]map[string]string
	lists  map[string][]string
	scores map[string]map[string]float64
	sets   map[string][]string
	other  []string // keys that nobody should have made
}

// keyNames finds the keys of every lane, by the lane's own key.
func (e *Engine) keyNames(ctx context.Context) (map[string][]string, error) {
	found := map[string]map[string]bool{}
	for _, own := range e.own {
		found[own] = map[string]bool{}
	}
	for _, node := range e.masters(ctx) {
		var cursor uint64
		for {
			scan := node.B().Scan().Cursor(cursor).Match(e.keys.namespace + ":{*").Count(1000).Build()
			page, err := node.Do(ctx, scan).AsScanEntry()
			if err != nil {
				return nil, classify(err, false).err
			}
			for _, key := range page.Elements {
				if own := key[:strings.IndexByte(key, '}')+1]; found[own] != nil {
					found[own][key] = true
				}
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	names := map[string][]string{}
	for own, set := range found {
		for key := range set {
			names[own] = append(names[own], key)
		}
	}
	return names, nil
}

// readLane reads the keys of a lane.
func (e *Engine) readLane(ctx context.Context, own string, names []string) (*dump, error) {
	d := &dump{hashes: map[string]map[string]string{}, lists: map[string][]string{}, scores: map[string]map[string]float64{}, sets: map[string][]string{}}
	const page = 500
	for ; len(names) > 0; names = names[min(page, len(names)):] {
		some := names[:min(page, len(names))]
		cmds := make([]rueidis.Completed, len(some))
		for i, key := range some {
			cmds[i] = e.readCommand(key, kindOf(key[len(own):]))
		}
		for i, r := range e.client.DoMulti(ctx, cmds...) {
			if err := d.take(some[i][len(own):], r); err != nil {
				return nil, millrace.Wrap(millrace.CodeInternal, err, "read "+some[i])
			}
		}
	}
	return d, nil
}

// keyKind is how a key is read.
type keyKind byte

const (
	hashKind   keyKind = iota
	fieldsKind         // a hash of which only the fields matter
	listKind
	scoreKind
	setKind
	otherKind
)

// kindOf tells by its name what a key is.
func kindOf(name string) keyKind {
	switch name {
	case bodyKey, loadKey, dedupeKey + "0", dedupeKey + "1", lastKey + "0", lastKey + "1":
		return fieldsKind
	case "", holdersKey, topicsKey, heldKey, longKey, opKey, endKey, indexKey, openKey, firedKey:
		return hashKind
	case dueKey, longsKey, batchesKey:
		return scoreKind
	case trashKey, turnsKey:
		return listKind
	case removedKey, watchedKey, wantedKey:
		return setKind
	}
	for prefix, kind := range map[string]keyKind{aliasKey: scoreKind, olderKey: scoreKind, expiringKey: listKind} {
		if strings.HasPrefix(name, prefix) {
			return kind
		}
	}
	for prefix, kind := range map[string]func(string) keyKind{queueKey: queueKind, subKey: subKind} {
		if uid, ok := strings.CutPrefix(name, prefix); ok {
			_, rest, ok := strings.Cut(uid, ":")
			if !ok {
				return hashKind
			}
			return kind(":" + rest)
		}
	}
	return otherKind
}

func subKind(rest string) keyKind {
	switch rest {
	case batchKey:
		return hashKind
	case earlyKey, readyKey, pendingKey, deadKey:
		return scoreKind
	case logKey:
		return listKind
	}
	if strings.HasPrefix(rest, eventsKey) {
		return listKind
	}
	return otherKind
}

func queueKind(rest string) keyKind {
	switch rest {
	case ringKey:
		return listKind
	case hollowKey:
		return setKind
	case deadKey, agesKey, parkedKey, tenantsKey:
		return scoreKind
	case leasedKey, groupKey, leftKey, delayedKey, triesKey, whyKey, ageKey, tenantKey, handKey, waitingKey, headKey, whoseKey,
		noteKey, nowKey, minutesKey, hoursKey, daysKey:
		return hashKind
	}
	for prefix, kind := range map[string]keyKind{
		facetKey: listKind, behindKey: listKind, linesKey: setKind,
		backKey: scoreKind, headsKey: scoreKind, lateKey: scoreKind, lostKey: scoreKind, byKey: scoreKind,
	} {
		if strings.HasPrefix(rest, prefix) {
			return kind
		}
	}
	return otherKind
}

func (e *Engine) readCommand(key string, kind keyKind) rueidis.Completed {
	b := e.client.B()
	switch kind {
	case hashKind:
		return b.Hgetall().Key(key).Build()
	case fieldsKind:
		return b.Hkeys().Key(key).Build()
	case listKind:
		return b.Lrange().Key(key).Start(0).Stop(-1).Build()
	case scoreKind:
		return b.Zrange().Key(key).Min("0").Max("-1").Withscores().Build()
	case setKind:
		return b.Smembers().Key(key).Build()
	}
	return b.Type().Key(key).Build()
}

func (d *dump) take(name string, r rueidis.RedisResult) (err error) {
	switch kindOf(name) {
	case hashKind:
		d.hashes[name], err = r.AsStrMap()
	case fieldsKind:
		var fields []string
		fields, err = r.AsStrSlice()
		d.hashes[name] = map[string]string{}
		for _, f := range fields {
			d.hashes[name][f] = ""
		}
	case listKind:
		d.lists[name], err = r.AsStrSlice()
	case scoreKind:
		var list []rueidis.ZScore
		list, err = r.AsZScores()
		d.scores[name] = map[string]float64{}
		for _, z := range list {
			d.scores[name][z.Member] = z.Score
		}
	case setKind:
		d.sets[name], err = r.AsStrSlice()
	default:
		d.other = append(d.other, name)
	}
	return err
}

// readNumbers reads doubles that a script packed; zeros if there are none.
func readNumbers(packed string, count int) []int64 {
	numbers := make([]int64, count)
	for i := range numbers {
		if len(packed) >= 8*(i+1) {
			numbers[i] = int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(packed[8*i:]))))
		}
	}
	return numbers
}

// count is a number in a hash; 0 if it is not there.
func (d *dump) count(name, field string) int64 {
	n, _ := strconv.ParseInt(d.hashes[name][field], 10, 64)
	return n
}
