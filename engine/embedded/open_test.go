package embedded_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

func TestAStoreOfAnotherKindIsAMismatch(t *testing.T) {
	for _, c := range []struct {
		name, says string
		record     map[string]any
	}{
		{"another format", "format 7", map[string]any{"store_id": "x", "format": 7, "lanes": 1, "namespace": "millrace"}},
		{"other lanes", "2 lanes", map[string]any{"store_id": "x", "format": 1, "lanes": 2, "namespace": "millrace"}},
		{"another namespace", `"other"`, map[string]any{"store_id": "x", "format": 1, "lanes": 1, "namespace": "other"}},
		{"no store at all", "not a Millrace store", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			foreign(t, fs, c.record)
			_, err := embedded.OpenFS(context.Background(), fs, "store", millrace.EngineOptions{Lanes: 1, Logger: quiet()})
			if millrace.CodeOf(err) != millrace.CodeMismatch || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a mismatch that says %q", err, c.says)
			}
		})
	}
}

// foreign writes an identity, or something else, with Pebble alone.
func foreign(t *testing.T, fs vfs.FS, record map[string]any) {
	t.Helper()
	db, err := pebble.Open("store", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	key, value := []byte("something"), []byte("else")
	if record != nil {
		key = []byte("I")
		if value, err = json.Marshal(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Set(key, value, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheDirectoryIsForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "store")
	e, err := embedded.Open(context.Background(), dir, millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got mode %v, %v, want 0700", info.Mode(), err)
	}
	if e.Durability() != millrace.Durable {
		t.Errorf("got %s, want durable", e.Durability())
	}
}

func TestAnIntervalOfSyncsIsBufferedAndSyncedInTheEnd(t *testing.T) {
	fs := vfs.NewCrashableMem()
	o := millrace.EngineOptions{SyncInterval: 5 * time.Millisecond}
	e, err := embedded.OpenFS(context.Background(), fs, "store", o)
	if err != nil {
		t.Fatal(err)
	}
	if e.Durability() != millrace.Buffered {
		t.Errorf("got %s, want buffered", e.Durability())
	}
	define(t, e, benchQueue)
	if _, err := e.Publish(context.Background(), 0, benchCommit(5, 0, 1)); err != nil {
		t.Fatal(err)
	}
	ready := func() int64 {
		copied, err := embedded.OpenFS(context.Background(), fs.CrashClone(vfs.CrashCloneCfg{}), "store", millrace.EngineOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, copied)
		s, err := copied.Stats(context.Background(), 0, benchQueue)
		if err != nil {
			t.Fatal(err)
		}
		return s.Ready
	}
	for deadline := time.Now().Add(10 * time.Second); ready() != 5; {
		if time.Now().After(deadline) {
			t.Fatal("nothing is synced after the interval")
		}
	}
	if _, err := e.Publish(context.Background(), 0, benchCommit(2, 0, 1)); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	if n := ready(); n != 7 {
		t.Errorf("after the close %d are durable, want 7", n)
	}
}

func TestAClockThatWentBackCarriesOnUntilItHasCaughtUp(t *testing.T) {
	e, err := embedded.OpenMemory(context.Background(), millrace.EngineOptions{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	machine := time.UnixMilli(1_800_000_000_000)
	e.SetClock(func() time.Time { return machine })
	at := func(pass time.Duration, want time.Time, offset time.Duration) {
		t.Helper()
		machine = machine.Add(pass)
		done, err := e.Publish(context.Background(), 0, benchCommitNowhere())
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.LaneStats(context.Background(), 0)
		if err != nil || !done.RecordedAt.Equal(want) || s.ClockOffset != offset {
			t.Errorf("got %v, offset %v, %v, want %v, offset %v", done.RecordedAt, s.ClockOffset, err, want, offset)
		}
	}
	begin := machine
	at(0, begin, 0)
	at(-500*time.Millisecond, begin, 0) // less than a second: it stands
	at(500*time.Millisecond, begin, 0)
	at(-time.Hour, begin, time.Hour)
	at(time.Minute, begin.Add(time.Minute), time.Hour)
	at(2*time.Hour, begin.Add(time.Hour+time.Minute), 0) // it is right again
}

func benchCommitNowhere() millrace.Commit {
	c := benchCommit(1, 0, 1)
	c.Events[0].Queues = nil
	return c
}
