package embedded_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

const benchQueue = "00000000000000aa"

func define(t testing.TB, e *embedded.Engine, uids ...string) {
	t.Helper()
	for lane := range e.Identity().Lanes {
		for _, uid := range uids {
			_, err := e.Apply(context.Background(), lane, millrace.Apply{
				Version: 1, Queues: []millrace.QueueSettings{{UID: uid, Version: 1}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// benchCommit is n events of 256 bytes over some tenants.
func benchCommit(n, from, tenants int) millrace.Commit {
	events := make([]millrace.CommitEvent, n)
	queues := []string{benchQueue}
	for i := range events {
		body := make([]byte, 256) // half of it does not compress
		for at := 0; at < 128; at += 8 {
			binary.LittleEndian.PutUint64(body[at:], rand.Uint64())
		}
		tenant := "tenant-" + strconv.Itoa((from+i)%tenants)
		events[i] = millrace.CommitEvent{Tenant: tenant, Topic: "orders", Body: body, Queues: queues}
	}
	return millrace.Commit{Version: 1, Events: events}
}

func benchDigest(i int) millrace.Digest {
	return millrace.DigestOf(&millrace.Event{ID: strconv.Itoa(i)})
}

// leaseAndAck leases and acks up to n messages and returns how many.
func leaseAndAck(t testing.TB, e *embedded.Engine, token uint64, n int) int {
	return leaseAndAckFrom(t, e, benchQueue, token, n)
}

func leaseAndAckFrom(t testing.TB, e *embedded.Engine, queue string, token uint64, n int) int {
	var tok millrace.Token
	binary.BigEndian.PutUint64(tok[:], token)
	got, err := e.Lease(context.Background(), 0, millrace.Lease{
		Queue: queue, Max: n, MaxBytes: millrace.MaxLeaseBytes, For: time.Minute, Token: tok,
	})
	if err != nil {
		t.Error(err)
		return 0
	}
	items := make([]millrace.SettleItem, len(got.Messages))
	for i, m := range got.Messages {
		items[i] = millrace.SettleItem{Name: m.Name, Token: tok}
	}
	done, err := e.Settle(context.Background(), 0, millrace.Settle{Queue: queue, Verb: millrace.Ack, Items: items})
	if err != nil || len(done.Lost) > 0 {
		t.Error(err, len(done.Lost))
		return 0
	}
	return len(items)
}
