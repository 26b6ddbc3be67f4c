package embedded

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// ListOperations returns operations of a subject or of a queue, the highest number first.
func (e *Engine) ListOperations(ctx context.Context, lane int, p millrace.OperationPage) ([]millrace.StoredOperation, uint64, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return nil, 0, err
	}
	defer e.leave()
	x := listing{lane: l, page: &p}
	err = l.do(ctx, func(*group) error {
		if err := x.look(); err != nil {
			return e.readFailed(err)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	// What operations began with never changes, so it is read without the lock.
	list, next, err := x.read()
	if err != nil {
		return nil, 0, e.readFailed(err)
	}
	return list, next, nil
}

// listing is one page of operations.
type listing struct {
	lane    *lane
	page    *millrace.OperationPage
	queue   uid // of the page, if it has one
	looked  []looked
	fitting int  // of those, how many fit
	more    bool // there are lower ones
}

// looked is an operation that a page looks at.
type looked struct {
	number uint64
	uid    uid
	state  operationState
	fits   bool // as far as its state, its queue and its tenant say
}

// look looks at operations under the lane's lock: at what has become of them.
func (x *listing) look() error {
	l, p := x.lane, x.page
	prefix, ok := x.prefix()
	if !ok {
		return nil
	}
	upper := after(prefix)
	if p.Before != 0 {
		upper = binary.BigEndian.AppendUint64(append([]byte(nil), prefix...), p.Before)
	}
	it, err := l.engine.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper})
	if err != nil {
		return err
	}
	defer it.Close()
	now := l.seen(p.Now)
	for valid := it.Last(); valid && !x.more; valid = it.Prev() {
		if err := x.lookAt(it, now); err != nil {
			return err
		}
	}
	return it.Error()
}

// prefix is what the keys of the index begin with that the page goes by; none of a queue that is not known.
func (x *listing) prefix() (prefix []byte, ok bool) {
	l, p := x.lane, x.page
	if p.Queue != "" {
		if x.queue, ok = parseUID(p.Queue); !ok {
			return nil, false
		}
	}
	if p.Subject != "" {
		return subjectOf(nil, l.no, p.Subject), true
	}
	return queueKey(nil, kindOpened, l.no, x.queue), l.queues[x.queue] != nil
}

// lookAt looks at the operations of one record of the index.
func (x *listing) lookAt(it *pebble.Iterator, now int64) error {
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	if x.page.Subject != "" {
		return x.add(lastNumber(it.Key()), uid(binary.BigEndian.Uint64(value)), now)
	}
	numbers, err := decodeRising(value)
	if err != nil {
		return err
	}
	for _, number := range slices.Backward(numbers) {
		if x.page.Before != 0 && number >= x.page.Before {
			continue
		}
		if err := x.add(number, x.queue, now); err != nil || x.more {
			return err
		}
	}
	return nil
}

// add looks at one operation, unless the page is full.
func (x *listing) add(n uint64, u uid, now int64) (err error) {
	l, p := x.lane, x.page
	if x.more = len(x.looked) == millrace.MaxListExamined || x.fitting >= p.Limit; x.more {
		return nil
	}
	o := looked{number: n, uid: u}
	if x.page.Queue == "" || u == x.queue {
		if o.state, err = l.state(n); err != nil {
			return err
		}
		l.leasedBy(u, n, &o.state)
		expired := o.state.ended() && o.state.expires <= now
		o.fits = !expired && (p.Status == "" || p.Status == o.state.shown())
	}
	if o.fits && p.Tenant != "" { // or a page of one tenant's would look at a thousand
		record, err := l.operationRecord(n)
		if err != nil {
			return err
		}
		o.fits = record != nil && record.tenant == p.Tenant
	}
	x.looked = append(x.looked, o)
	x.fitting += int(number(o.fits))
	return nil
}

// read completes the page.
func (x *listing) read() (list []millrace.StoredOperation, next uint64, err error) {
	l, p := x.lane, x.page
	disk := overlay{db: l.engine.db}
	for i := range x.looked {
		o := &x.looked[i]
		if len(list) >= p.Limit {
			return list, x.looked[i-1].number, nil
		}
		if !o.fits {
			continue
		}
		value, err := disk.get(seqKey(nil, kindOperation, l.no, o.number))
		if err != nil {
			return nil, 0, err
		}
		if value == nil {
			continue // it was forgotten meanwhile
		}
		record, err := decodeOperation(value)
		if err != nil {
			return nil, 0, err
		}
		if (p.Tenant == "" || p.Tenant == record.tenant) && (p.Subject == "" || p.Subject == record.subject) {
			list = append(list, (&tracked{number: o.number, record: &record, state: o.state}).answer())
		}
	}
	if x.more {
		next = x.looked[len(x.looked)-1].number
	}
	return list, next, nil
}
