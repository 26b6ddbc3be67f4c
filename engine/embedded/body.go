package embedded

import (
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// readBodies completes picked messages. A body that is gone by now, because
// the queue was removed and swept, is left out.
func (e *Engine) readBodies(ctx context.Context, l *lane, picks []pick) ([]millrace.LeasedMessage, error) {
	if err := e.enterStore(ctx); err != nil {
		return nil, unknown(err)
	}
	defer e.leave()
	if err := l.findBodies(picks); err != nil {
		return nil, unknown(e.readFailed(err))
	}
	messages := make([]millrace.LeasedMessage, 0, len(picks))
	for i := range picks {
		if p := &picks[i]; p.found {
			messages = append(messages, millrace.LeasedMessage{
				Name: p.seq, Seq: p.body.seqOf(p.seq), Prev: p.body.prev, RecordedAt: milli(p.body.recorded),
				Tenant: p.tenant, Attempt: p.attempt, Body: p.body.blob,
				Operation: p.operation(),
			})
		}
	}
	return messages, nil
}

// unknown turns the error of a call that has leased already into one that says so.
func unknown(err error) error {
	return millrace.Wrap(millrace.CodeOutcomeUnknown, err, "the messages were leased but could not be read")
}

// findBodies completes picks that have no body yet, from the cache and from disk.
func (l *lane) findBodies(picks []pick) error {
	l.cache.find(picks)
	return l.readMissing(picks)
}

// readMissing reads bodies from disk, in the order they lie there.
func (l *lane) readMissing(picks []pick) error {
	var missing []int
	for i := range picks {
		if !picks[i].found {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.SortFunc(missing, func(a, b int) int {
		if picks[a].seq < picks[b].seq {
			return -1
		}
		return 1
	})
	prefix := laneKey(nil, kindBody, l.no)
	it, err := l.engine.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	defer it.Close()
	var key []byte
	for _, i := range missing {
		key = seqKey(key[:0], kindBody, l.no, picks[i].seq)
		if err := readBody(it, key, &picks[i]); err != nil {
			return err
		}
	}
	return it.Error()
}

func readBody(it *pebble.Iterator, key []byte, p *pick) error {
	if !it.SeekGE(key) || string(it.Key()) != string(key) {
		return it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	p.body, err = decodeBody(slices.Clone(value))
	p.found = err == nil
	return err
}
