package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace/internal/redistest"
)

// rawPebble is Pebble's synced commit, with nothing around it.
type rawPebble struct{}

// commit commits batches of the given size from a number of goroutines.
func (rawPebble) commit(goroutines, size int) measurement {
	return func(ctx context.Context, w *window) error {
		db, closeDB, err := openPebble()
		if err != nil {
			return err
		}
		defer closeDB()
		var seq atomic.Uint64
		return w.drive(ctx, crew{goroutines, func(context.Context, int) (bool, error) {
			if err := commitRecords(db, &seq, size); err != nil {
				return false, err
			}
			w.add(size)
			return true, nil
		}})
	}
}

func openPebble() (db *pebble.DB, closeDB func(), err error) {
	dir, err := os.MkdirTemp("", "bench-pebble-")
	if err != nil {
		return nil, nil, fmt.Errorf("make directory: %w", err)
	}
	db, err = pebble.Open(dir, &pebble.Options{MemTableSize: 64 << 20, Logger: silent{}})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, fmt.Errorf("open pebble: %w", err)
	}
	return db, func() {
		_ = db.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// silent is Pebble's logger that says nothing of what goes well.
type silent struct{}

func (silent) Infof(string, ...any)           {}
func (silent) Errorf(string, ...any)          {}
func (silent) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func commitRecords(db *pebble.DB, seq *atomic.Uint64, n int) error {
	b := db.NewBatch()
	defer func() { _ = b.Close() }()
	for range n {
		key := binary.BigEndian.AppendUint64(nil, seq.Add(1))
		if err := b.Set(key, payload(), nil); err != nil {
			return fmt.Errorf("set record: %w", err)
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// rawRedis is Redis with nothing around it.
type rawRedis struct{ redis *redistest.Server }

// xadd appends to a stream, pipelined in hundreds.
func (r rawRedis) xadd(ctx context.Context, w *window) error {
	if _, err := r.redis.Call("FLUSHALL", "SYNC"); err != nil {
		return fmt.Errorf("empty redis: %w", err)
	}
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.redis.Addr()}, DisableCache: true})
	if err != nil {
		return fmt.Errorf("connect to redis: %w", err)
	}
	defer c.Close()
	return w.drive(ctx, crew{batchers, func(ctx context.Context, _ int) (bool, error) {
		commands := make(rueidis.Commands, hundred)
		for i := range commands {
			commands[i] = c.B().Xadd().Key("bench").Id("*").FieldValue().FieldValue("data", rueidis.BinaryString(payload())).Build()
		}
		for _, reply := range c.DoMulti(ctx, commands...) {
			if err := reply.Error(); err != nil {
				return false, fmt.Errorf("xadd: %w", err)
			}
		}
		w.add(hundred)
		return true, nil
	}})
}
