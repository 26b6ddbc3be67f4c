package embedded

import (
	"context"
	"encoding/binary"

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
	lane   *lane
	page   *millrace.OperationPage
	queue  uid // of the page, if it has one
	looked []looked
	more   bool // there are lower ones
}

// looked is an operation that a page looks at.
type looked struct {
	number uint64
	uid    uid
	state  operationState
	fits   bool // as far as its state and its queue say
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
	now, fitting := l.seen(p.Now), 0
	for valid := it.Last(); valid; valid = it.Prev() {
		if x.more = len(x.looked) == millrace.MaxListExamined || fitting >= p.Limit && p.Tenant == ""; x.more {
			break
		}
		o, err := x.lookAt(it, now)
		if err != nil {
			return err
		}
		x.looked = append(x.looked, o)
		fitting += int(number(o.fits))
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
	return queueKey(nil, kindState, l.no, x.queue), l.queues[x.queue] != nil
}

func (x *listing) lookAt(it *pebble.Iterator, now int64) (looked, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return looked{}, err
	}
	l := x.lane
	o := looked{number: lastNumber(it.Key()), uid: x.queue}
	if x.page.Subject != "" {
		o.uid = uid(binary.BigEndian.Uint64(value))
		if x.page.Queue != "" && o.uid != x.queue {
			return o, nil
		}
		value, err = l.recordOf(partStates, o.number, queueSeqKey(nil, kindState, l.no, o.uid, o.number))
	} else if newer, known := l.unappliedRecord(partStates, o.number, it.Key()); known {
		value = newer
	} else {
		value = append([]byte{}, value...)
	}
	if err != nil || value == nil {
		return o, err // it is being forgotten
	}
	if o.state, err = decodeState(value); err != nil {
		return o, err
	}
	l.leasedBy(o.uid, o.number, &o.state)
	expired := o.state.ended() && o.state.expires <= now
	o.fits = !expired && (x.page.Status == "" || x.page.Status == o.state.shown())
	return o, nil
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
