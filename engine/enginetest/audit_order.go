package enginetest

import (
	"math"
	"slices"

	"github.com/millrace-dev/millrace"
)

// chain is a tenant's key.
type chain [2]string

// keys are the events of the ordered queue that have a key, by key, in the order of their seqs.
func (a *audit) keys() map[chain][]*fate {
	keys := map[chain][]*fate{}
	for _, f := range a.fates {
		if f.Key != "" && f.Seq != 0 && slices.Contains(f.Queues, orderedQueue) {
			key := chain{f.Tenant, f.Key}
			keys[key] = append(keys[key], f)
		}
	}
	for _, list := range keys {
		slices.SortFunc(list, func(x, y *fate) int { return int(int64(x.Seq) - int64(y.Seq)) })
	}
	return keys
}

// judgeOrder looks at every lease of the ordered queue: all events of the key
// that were stamped before must have been settled for good, or may have been,
// when it was answered.
func (a *audit) judgeOrder(h History) {
	ended := a.endings(h)
	open := map[uint64]blocker{}
	for _, list := range a.keys() {
		last := blocker{at: -1}
		for _, f := range list {
			open[f.Seq] = last
			at, settled := ended[f.Seq]
			if !settled {
				at = math.MaxInt
			}
			if at > last.at {
				last = blocker{at, f.ID}
			}
		}
	}
	for i, e := range h {
		if e.Op != "lease" || e.Queue != orderedQueue || e.Phase != Done {
			continue
		}
		for _, m := range e.Events {
			if b, known := open[m.Seq]; known && b.at > i {
				a.wrong("message %d of the ordered queue (%s) was leased before %s was settled", m.Seq, m.ID, b.id)
			}
		}
	}
}

// blocker is the event of a key that was settled last of those before one.
type blocker struct {
	at int // index of the settlement
	id string
}

// endings are the first settlements in the ordered queue that may have ended a message for good.
func (a *audit) endings(h History) map[uint64]int {
	outcomes := map[string]Entry{}
	for _, e := range h {
		if e.Phase != Invoked {
			outcomes[e.Call] = e
		}
	}
	ended := map[uint64]int{}
	for i, e := range h {
		if e.Op != "settle" || e.Queue != orderedQueue || e.Phase != Invoked || e.Verb == string(millrace.Retry) {
			continue
		}
		outcome := outcomes[e.Call]
		for j, m := range e.Events {
			lost := outcome.Phase == Refused || outcome.Phase == Done && outcome.Events[j].Lost
			if _, before := ended[m.Seq]; !before && !lost {
				ended[m.Seq] = i
			}
		}
	}
	return ended
}

// drainedInOrder fails if a lease of the ordered queue holds a key twice, or one before an earlier one.
func (a *audit) drainedInOrder(messages []millrace.LeasedMessage) {
	seen := map[chain]bool{}
	for _, m := range messages {
		f := a.fates[string(m.Body)]
		if f == nil || f.Key == "" {
			continue
		}
		key := chain{f.Tenant, f.Key}
		if seen[key] {
			a.wrong("two messages of key %v of the ordered queue are in flight", key)
		}
		seen[key] = true
		if m.Seq < a.last[key] {
			a.wrong("message %d of key %v came after %d", m.Seq, key, a.last[key])
		}
		a.last[key] = m.Seq
	}
}
