package embedded_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

func TestWhatWasDroppedIsGivenBackToTheDisk(t *testing.T) {
	e := openAt(t, t.TempDir())
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	const sub, events, size = "00000000000000ab", 100, 100_000
	settings := millrace.SubscriptionSettings{UID: sub, Version: 1, Timeout: time.Hour, MaxEvents: 1, MaxBytes: 1 << 20, Concurrency: 8, Format: "events"}
	if _, err := e.Apply(t.Context(), 0, millrace.Apply{Version: 1, Subscriptions: []millrace.SubscriptionSettings{settings}}); err != nil {
		t.Fatal(err)
	}
	for range events {
		body := make([]byte, size)
		_, _ = rand.Read(body) // it never fails
		commit := millrace.Commit{Version: 1, Events: []millrace.CommitEvent{{Tenant: "a", Topic: "b", Body: body, Batches: []string{sub}}}}
		if _, err := e.Publish(t.Context(), 0, commit); err != nil {
			t.Fatal(err)
		}
	}
	if full := bytesOf(t, e); full < events*size || full > 2*events*size {
		t.Errorf("%d events of %d bytes take %d", events, size, full)
	}
	if gone, err := e.DropOldest(t.Context(), 0, events*3/4); len(gone) != events*3/4 || err != nil {
		t.Fatalf("dropped %d: %v", len(gone), err)
	}
	if err := e.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := bytesOf(t, e); left < events*size/4 || left > events*size/2 {
		t.Errorf("a quarter of %d events of %d bytes takes %d", events, size, left)
	}
	if err := e.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func bytesOf(t *testing.T, e *embedded.Engine) int64 {
	t.Helper()
	n, err := e.Bytes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}
