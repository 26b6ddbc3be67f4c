package acceptance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/engine"
)

func TestABatchWhoseSenderWasKilledBeforeItsAnswerComesAgainByteForByte(t *testing.T) {
	t.Parallel() // most of it is waiting
	stores := map[string]string{"embedded": "embedded:" + filepath.Join(t.TempDir(), "store"), "redis": redis(t)}
	for engine, store := range stores {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			killTheSender(t, store)
		})
	}
}

// killTheSender kills a server while a receiver has its batch and has not answered yet: the
// receiver did its work, and the server never learns of it.
func killTheSender(t *testing.T, store string) {
	args := []string{"--namespace", fmt.Sprintf("t%d", namespaces.Add(1)), "--allow-callbacks-to", "127.0.0.0/8"}
	p := launch(t, "127.0.0.1:0", store, args...)
	listen := p.url[len("http://"):]
	h := &house{Backbone: dial(t, p.url)}
	kill := sync.OnceFunc(p.kill)
	r := newReceiver(t, func(_ int, w http.ResponseWriter) {
		kill()
		w.WriteHeader(http.StatusNoContent)
	})
	sub := h.subscribe(t, r, func(s *millrace.SubscriptionSpec) { s.RequestTimeout = 100 * time.Millisecond })
	publish(t, h, order("acme", "a", 1), order("acme", "a", 2))
	first := r.await(t, 1)
	kill()
	launch(t, listen, store, args...)
	if held := h.batches(t, millrace.BatchPending); len(held) != 1 || held[0].ID != first.id || held[0].Attempts != 1 {
		t.Errorf("after the kill these are pending: %+v", held)
	}
	second := r.await(t, 2) // when the time of the first is over
	t.Logf("it came again after %s", second.at.Sub(first.at).Round(time.Millisecond))
	if second.id != first.id || second.body != first.body || second.attempt != "2" || len(second.events) != 2 || !second.signedWith(sub.MadeSecret) {
		t.Errorf("got %+v after %+v", second, first)
	}
	eventually(t, "it is sent", func() bool { s := h.shop(t); return s.Sent == 2 && s.Queued == 0 && s.Failed == 1 })
}

// doomedStore and doomedSpace tell a process of this test binary which store to send from.
const (
	doomedStore = "MILLRACE_TEST_DOOMED_STORE"
	doomedSpace = "MILLRACE_TEST_DOOMED_NAMESPACE"
)

// doomed is an engine whose process is killed when it would record that a batch was taken.
type doomed struct{ millrace.Engine }

func (e doomed) SettleBatches(ctx context.Context, lane int, o millrace.Outcomes) (millrace.SettledBatches, error) {
	if !o.Items[0].OK {
		return e.Engine.SettleBatches(ctx, lane, o)
	}
	err := syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select { // the signal takes its time; nothing else happens here
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	return millrace.SettledBatches{}, errors.Join(err, errors.New("still alive"))
}

// runDoomed sends batches until a receiver takes one, and dies of it.
func runDoomed() int {
	h := &house{options: broker.Options{Logger: slog.New(slog.DiscardHandler)}}
	allowLoopback(h)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := engine.Open(ctx, os.Getenv(doomedStore), millrace.EngineOptions{Namespace: os.Getenv(doomedSpace), Reserve: -1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	b, err := broker.New(ctx, doomed{e}, h.options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-ctx.Done()
	_ = b.Close(ctx)
	return 1
}

func TestABatchWhoseSenderWasKilledBetweenTheAnswerAndItsRecordComesAgainByteForByte(t *testing.T) {
	t.Parallel() // most of it is waiting
	engines(t, func(t *testing.T, h *house) {
		t.Parallel()
		allowLoopback(h)
		web := *h
		web.options.Roles = []string{broker.RoleWeb}
		b := web.broker(t)
		web.Backbone = b
		r := newReceiver(t, nil)
		sub := web.subscribe(t, r, func(s *millrace.SubscriptionSpec) { s.RequestTimeout = 100 * time.Millisecond })
		publish(t, web, order("acme", "a", 1), order("acme", "a", 2))
		shut(t, b)
		dieSending(t, h)
		first := r.await(t, 1)
		h.Backbone = h.broker(t)
		second := r.await(t, 2) // when the time of the first is over
		t.Logf("it came again after %s", second.at.Sub(first.at).Round(time.Millisecond))
		if second.id != first.id || second.body != first.body || second.attempt != "2" || len(second.events) != 2 || !second.signedWith(sub.MadeSecret) {
			t.Errorf("got %+v after %+v", second, first)
		}
		eventually(t, "it is sent", func() bool { s := h.shop(t); return s.Sent == 2 && s.Queued == 0 && s.Failed == 1 })
	})
}

// dieSending runs a sender in a process of its own until it has an answer to record and is killed.
func dieSending(t *testing.T, h *house) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), doomedStore+"="+h.store, doomedSpace+"="+h.options.Engine.Namespace)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the sender was not killed: %v: %s", err, out)
	}
}
