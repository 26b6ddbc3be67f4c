package embedded

import (
	"bytes"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// FuzzRecords reads any bytes as each kind of record: a decoder may refuse them
// but not panic, and what it accepts it must write and read again as the same.
func FuzzRecords(f *testing.F) {
	f.Add(entry{seq: 1, size: 256, mark: newMark(3, true)}.append(nil))
	f.Add(body{prev: 7, recorded: 1_800_000_000_000, blob: []byte("blob")}.append(nil))
	f.Add(stamp{seq: 9, prev: 8, sinks: 2}.append(nil))
	f.Add((&leaseRecord{deadline: 5, token: millrace.Token{1}, consumer: "one", names: []uint64{1, 2}}).append(nil))
	f.Add(delayedRecord{due: 5, tenant: "a"}.append(nil))
	f.Add((&deadRecord{tenant: "a", mark: 2, size: 3, reason: deadBuried, at: 4, err: "why"}).append(nil))
	f.Add((&lined{entry{seq: 1, size: 2, mark: 3}, place{key: 5, pos: 6, cut: true}, 4}).append(nil))
	f.Add((&lined{entry{seq: 9, size: 2, mark: 3}, place{key: 5, pos: 17}, 4}).append(nil))
	f.Add((&heldRecord{due: 1, next: 2, size: 3, remembered: true, tenant: "a", id: "b"}).append(nil))
	f.Add(appendSettings(nil, &millrace.QueueSettings{Version: 1, Ordered: true, TenantLimit: 2}))
	f.Add(batchRecord{batchHeader{created: 1, format: "events", count: 2, bytes: 3, chunks: 1}, batchPending, 4, &sending{millrace.Token{1}, "node"}}.append(nil))
	f.Add(appendMembers(nil, 5, []entry{{seq: 5, size: 6, mark: 1}, {seq: 9, size: 7}}))
	f.Add(subscriptionState{fails: 1, probing: true, reason: "why", logged: 2}.append(nil))
	f.Add(encodeSubscription(&millrace.SubscriptionSettings{Version: 1, Format: "events", Schedule: []time.Duration{1, 2}}))
	f.Add((&meta{n: 1, t: 2, version: 3}).append(nil))
	f.Add(body{prev: 7, recorded: 1_800_000_000_000, blob: []byte("blob"), secret: &millrace.OperationSecret{1}}.append(nil))
	f.Add((&leaseRecord{deadline: 5, names: []uint64{1, 2}, started: 4}).append(nil))
	f.Add((&operationRecord{uid: 1, queued: 2, queue: "q", tenant: "a", kind: "job", subject: "s", payload: []byte("{}")}).append(nil))
	f.Add((&operationState{message: 3, status: statusSuccess, wish: true, told: true, attempts: 2, started: 3, finished: 4, expires: 5, note: "n", output: []byte("{}")}).append(nil))
	f.Add((&ticket{number: 4, ready: 5, deduped: true}).append(nil))
	f.Add((&counts{minute: 6, open: counted{queued: spans{0, 2}}}).append(nil))
	f.Add(appendRising(nil, []uint64{3, 5, 9}))
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, decodeOperation, func(o operationRecord, b []byte) []byte { return o.append(b) })
		again(t, b, decodeState, func(s operationState, b []byte) []byte { return s.append(b) })
		again(t, b, decodeTicket, func(k ticket, b []byte) []byte { return k.append(b) })
		again(t, b, decodeRising, func(n []uint64, b []byte) []byte { return appendRising(b, n) })
		again(t, b, decodeCounts, func(c counts, b []byte) []byte { return c.append(b) })
		again(t, b, func(b []byte) (entry, error) { return decodeEntry(1, b) }, entry.append)
		again(t, b, decodeBody, body.append)
		again(t, b, decodeStamp, stamp.append)
		again(t, b, decodeDelayed, delayedRecord.append)
		again(t, b, decodeLease, func(l leaseRecord, b []byte) []byte { return l.append(b) })
		again(t, b, decodeDead, func(d deadRecord, b []byte) []byte { return d.append(b) })
		for _, p := range []place{{key: 5, pos: 6, cut: true}, {key: 5, pos: 17}} {
			key := placeKey(nil, 1, 2, "a", p)
			again(t, b, func(b []byte) (lined, error) { return decodeLined(key, b) }, func(e lined, b []byte) []byte { return e.append(b) })
		}
		again(t, b, decodeHeld, func(h heldRecord, b []byte) []byte { return h.append(b) })
		again(t, b, decodeBatch, batchRecord.append)
		again(t, b, decodeSubState, subscriptionState.append)
		again(t, b, decodeSubscription, func(s millrace.SubscriptionSettings, b []byte) []byte { return append(b, encodeSubscription(&s)...) })
		again(t, b, func(b []byte) ([]entry, error) { return decodeMembers(nil, 5, b) }, func(list []entry, b []byte) []byte { return appendMembers(b, 5, list) })
		again(t, b, decodeMeta, func(m meta, b []byte) []byte { return m.append(b) })
	})
}

func decodeCounts(b []byte) (c counts, err error) {
	err = c.decode(b)
	return c, err
}

func decodeMeta(b []byte) (m meta, err error) {
	err = m.decode(b)
	return m, err
}

// again reads a record, writes it, and reads and writes it once more.
func again[R any](t *testing.T, b []byte, decode func([]byte) (R, error), write func(R, []byte) []byte) {
	t.Helper()
	first, err := decode(b)
	if err != nil {
		return
	}
	written := write(first, nil)
	second, err := decode(written)
	if err != nil {
		t.Fatalf("what was written of %+v is refused: %v", first, err)
	}
	if rewritten := write(second, nil); !bytes.Equal(written, rewritten) {
		t.Fatalf("%+v is written as %x, then as %x", first, written, rewritten)
	}
}

// FuzzMessageKeys takes any bytes for a message's key.
func FuzzMessageKeys(f *testing.F) {
	f.Add(messageKey(nil, 1, 2, "tenant", 3))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, key []byte) {
		q, tenant, seq, ok := splitMessageKey(key)
		if !ok {
			return
		}
		if made := messageKey(nil, int(key[1]), q, string(tenant), seq); !bytes.Equal(made[1:], key[1:]) {
			t.Fatalf("%x comes back as %x", key, made)
		}
	})
}
