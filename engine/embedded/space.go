package embedded

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
)

const (
	defaultReserve = 512 << 20
	spaceInterval  = 100 * time.Millisecond // between two looks at the free space
	spaceBytes     = 16 << 20               // published bytes after which to look at once
)

// space refuses to publish while the disk is nearly full: Pebble on a full
// disk hangs without an error, and what waits must still be settled.
type space struct {
	free    func() (uint64, error) // nil: not watched
	reserve uint64

	full  atomic.Bool
	bytes atomic.Int64 // published since the last look

	mu   sync.Mutex
	next time.Time // of the next look
}

// use watches the free space of a directory.
func (s *space) use(fs vfs.FS, dir string, reserve int64) {
	if reserve < 0 {
		return
	}
	if reserve == 0 {
		reserve = defaultReserve
	}
	s.reserve = uint64(reserve)
	s.free = func() (uint64, error) {
		u, err := fs.GetDiskUsage(dir)
		return u.AvailBytes, err
	}
}

// refusal is the error for a publish of n bytes, or nil if there is room.
func (s *space) refusal(n int) error {
	if s.free == nil {
		return nil
	}
	s.look(s.bytes.Add(int64(n)) >= spaceBytes)
	if s.full.Load() {
		return millrace.Errorf(millrace.CodeStoreFull, "the disk has less free space than the reserve of %d bytes", s.reserve)
	}
	return nil
}

// look asks for the free space if it is time. One caller asks, the others go
// on with what is known.
func (s *space) look(now bool) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if at := time.Now(); now || !at.Before(s.next) {
		s.next = at.Add(spaceInterval)
		s.bytes.Store(0)
		if free, err := s.free(); err == nil {
			s.full.Store(free < s.reserve)
		}
	}
}
