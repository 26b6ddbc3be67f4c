package embedded

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// overlay is what a lane has written of the records that its transitions read
// back and that may not be applied to the disk yet. Reading through it shows
// the disk as it will be.
type overlay struct {
	db    *pebble.DB
	batch *pebble.Batch // indexed; nil if there is nothing
}

// overlayRest is how many applied records an overlay may keep.
const overlayRest = 1 << 12

// readBack reports whether the records of a kind are read by transitions. Of
// chains only those are that the index does not hold.
func readBack(kind byte) bool {
	switch kind {
	case kindLine, kindDead, kindDeadOf, kindDeadDue, kindHeld, kindHeldID, kindBatchError, kindAttempt,
		kindTicket, kindCancelled, kindDedupe, kindCount, kindFired:
		return true
	}
	return false
}

func (o *overlay) writer() *pebble.Batch {
	if o.batch == nil {
		o.batch = o.db.NewIndexedBatch()
	}
	return o.batch
}

// reader reads the disk as it will be.
func (o *overlay) reader() pebble.Reader {
	if o.batch == nil {
		return o.db
	}
	return o.batch
}

// shrink drops what the disk has by now; in the batches is all that it may not have.
func (o *overlay) shrink(unapplied []*pebble.Batch) {
	if o.batch == nil {
		return
	}
	rest := uint32(0)
	for _, b := range unapplied {
		rest += b.Count()
	}
	if rest > 0 && o.batch.Count() <= 2*rest+overlayRest {
		return
	}
	_ = o.batch.Close()
	o.batch = nil
	for _, b := range unapplied {
		if !b.Empty() {
			accepted(o.writer().Apply(b, nil))
		}
	}
}

// get returns a copy of a record, nil if it is not there.
func (o *overlay) get(key []byte) ([]byte, error) {
	value, closer, err := o.reader().Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return append([]byte{}, value...), nil
}

// prefixed is an iterator over the records whose keys begin with prefix.
func (o *overlay) prefixed(prefix []byte) (*pebble.Iterator, error) {
	return o.reader().NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
}
