package embedded

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
)

const (
	memTableSize   = 32 << 20
	memTables      = 3 // at most, before writes wait for a flush
	blockCacheSize = 64 << 20
	maxOpenFiles   = 512
)

// open opens Pebble, compares identities, rebuilds the index and starts the committer.
func (e *Engine) open(ctx context.Context, fs vfs.FS, dir string, o millrace.EngineOptions) (*Engine, error) {
	if o.Lanes != 0 && !millrace.ValidLanes(o.Lanes) {
		return nil, millrace.Errorf(millrace.CodeInvalid, "lanes must be a power of two up to %d, not %d", millrace.MaxLanes, o.Lanes)
	}
	if err := ctx.Err(); err != nil {
		return nil, millrace.Wrap(millrace.CodeUnavailable, err, "the caller has given up")
	}
	if o.Existing {
		if err := existing(fs, dir); err != nil {
			return nil, err
		}
	}
	if err := e.openPebble(fs, dir); err != nil {
		return nil, err
	}
	if err := e.load(o); err != nil {
		if later := errors.Join(e.db.Close(), e.lock.Close()); later != nil {
			e.log.Warn("close a store that could not be opened", "error", later)
		}
		return nil, err
	}
	e.loaded.Store(true)
	go e.commit()
	go e.syncApplied()
	return e, nil
}

// existing refuses a directory in which there is no store.
func existing(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return millrace.Wrap(millrace.CodeNotFound, err, fmt.Sprintf("there is no store in %s", dir))
	}
	found, err := pebble.Peek(dir, fs)
	if err != nil {
		return millrace.Wrap(millrace.CodeUnavailable, err, fmt.Sprintf("look into %s", dir))
	}
	if !found.Exists {
		return millrace.Errorf(millrace.CodeNotFound, "there is no store in %s", dir)
	}
	return nil
}

func (e *Engine) openPebble(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return millrace.Wrap(millrace.CodeUnavailable, err, fmt.Sprintf("create directory %s", dir))
	}
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		if !errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w: %w", millrace.ErrStoreInUse, err)
		}
		return millrace.Wrap(millrace.CodeUnavailable, err, fmt.Sprintf("the directory %s is in use by another process, or cannot be locked", dir))
	}
	options := e.pebbleOptions(fs)
	options.Lock = lock
	db, err := pebble.Open(dir, options)
	if err != nil {
		_ = lock.Close()
		return millrace.Wrap(millrace.CodeUnavailable, err, fmt.Sprintf("open the store in %s", dir))
	}
	e.db, e.lock = db, lock
	return nil
}

func (e *Engine) pebbleOptions(fs vfs.FS) *pebble.Options {
	o := &pebble.Options{
		FS: fuse{fs, e.failure}, Logger: pebbleLog{e}, EventListener: e.events(),
		FormatMajorVersion: pebble.FormatNewest,
		CacheSize:          blockCacheSize,
		MemTableSize:       memTableSize, MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold: 4, L0StopWritesThreshold: 1000, LBaseMaxBytes: 64 << 20,
		MaxOpenFiles:               maxOpenFiles,
		CompactionConcurrencyRange: e.compactions,
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.FastestCompression }
	}
	o.TargetFileSizes[0] = 4 << 20
	return o
}

// compactions is how many compactions may run: while the index is being
// rebuilt no more than must.
func (e *Engine) compactions() (least, most int) {
	if !e.loaded.Load() {
		return 1, 1
	}
	return 1, 2
}

// load compares the store's identity, or creates it, and rebuilds the index.
func (e *Engine) load(o millrace.EngineOptions) error {
	if err := e.identify(o); err != nil {
		return err
	}
	e.registry = newRegistry(e)
	e.journals = append(e.journals, &e.registry.journal)
	if err := e.registry.load(e.db); err != nil {
		return millrace.Wrap(millrace.CodeInternal, err, "the registry cannot be read")
	}
	for no := range e.identity.Lanes {
		l := newLane(e, no)
		if err := l.load(e.db); err != nil {
			return millrace.Wrap(millrace.CodeInternal, err, "the store cannot be read")
		}
		e.lanes = append(e.lanes, l)
		e.journals = append(e.journals, &l.journal)
	}
	return nil
}

// identity is the record of what the store is.
type identity struct {
	StoreID   string `json:"store_id"`
	Format    int    `json:"format"`
	Lanes     int    `json:"lanes"`
	Namespace string `json:"namespace"`
}

func (e *Engine) identify(o millrace.EngineOptions) error {
	namespace := o.Namespace
	if namespace == "" {
		namespace = millrace.DefaultNamespace
	}
	value, closer, err := e.db.Get([]byte{kindIdentity})
	if errors.Is(err, pebble.ErrNotFound) {
		if o.Existing {
			return millrace.Errorf(millrace.CodeNotFound, "there is no store")
		}
		return e.create(identity{Format: millrace.Format, Lanes: max(1, o.Lanes), Namespace: namespace})
	}
	if err != nil {
		return millrace.Wrap(millrace.CodeUnavailable, err, "read the store's identity")
	}
	defer closer.Close()
	var id identity
	if err := json.Unmarshal(value, &id); err != nil {
		return millrace.Wrap(millrace.CodeMismatch, err, "the store's identity is not readable")
	}
	e.setIdentity(id, false)
	return mismatch(id, o.Lanes, namespace)
}

func (e *Engine) setIdentity(id identity, created bool) {
	e.identity = millrace.Identity{
		Engine: "embedded", StoreID: id.StoreID, Format: id.Format, Lanes: id.Lanes, Namespace: id.Namespace, Created: created,
	}
}

// mismatch says how a store differs from what is asked for.
func mismatch(id identity, lanes int, namespace string) error {
	switch {
	case id.Format != millrace.Format:
		return millrace.Errorf(millrace.CodeMismatch, "the store has format %d and this version reads format %d", id.Format, millrace.Format)
	case !millrace.ValidLanes(id.Lanes):
		return millrace.Errorf(millrace.CodeMismatch, "the store says that it has %d lanes, which no store can have", id.Lanes)
	case lanes != 0 && lanes != id.Lanes:
		return millrace.Errorf(millrace.CodeMismatch, "the store was created with %d lanes and cannot be opened with %d", id.Lanes, lanes)
	case namespace != id.Namespace:
		return millrace.Errorf(millrace.CodeMismatch, "the store was created with namespace %q and cannot be opened with %q", id.Namespace, namespace)
	}
	return nil
}

// create writes the identity of a new store.
func (e *Engine) create(id identity) error {
	if foreign, err := e.hasRecords(); err != nil || foreign {
		return millrace.Wrap(millrace.CodeMismatch, err, "the directory holds data that is not a Millrace store")
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return millrace.Wrap(millrace.CodeInternal, err, "make a store id")
	}
	id.StoreID = hex.EncodeToString(random[:])
	value, err := json.Marshal(id)
	if err != nil {
		return millrace.Wrap(millrace.CodeInternal, err, "encode the store's identity")
	}
	if err := e.db.Set([]byte{kindIdentity}, value, pebble.Sync); err != nil {
		return millrace.Wrap(millrace.CodeUnavailable, err, "write the store's identity")
	}
	if err := e.failure(); err != nil {
		return millrace.Wrap(millrace.CodeUnavailable, err, "write the store's identity")
	}
	e.setIdentity(id, true)
	return nil
}

func (e *Engine) hasRecords() (bool, error) {
	it, err := e.db.NewIter(nil)
	if err != nil {
		return false, err
	}
	any := it.First()
	return any, it.Close()
}
