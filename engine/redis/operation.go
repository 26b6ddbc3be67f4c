package redis

import (
	"context"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// Start puts one event into one tracked queue, with an operation.
func (e *Engine) Start(ctx context.Context, lane int, s millrace.Start) (millrace.Started, error) {
	digest := ""
	if s.Deduped {
		digest = string(s.Dedupe[:])
	}
	args := append([]string{
		s.Opening.Queue, strconv.Itoa(len(e.own)), strconv.Itoa(lane), s.Tenant, whoOf(s.Tenant, s.Key), storedTracked(s.Body, &s.Opening),
		span(max(s.Delay, 0)), digest,
	}, openingArgs(s.Tenant, &s.Opening)...)
	reply, err := e.runLane(ctx, &e.scripts.operationStart, lane, millis(s.Now), args...)
	if millrace.CodeOf(err) == millrace.CodeFull {
		return millrace.Started{}, &millrace.Error{Code: millrace.CodeFull, Detail: "the tenant has as many messages waiting in the queue as it may", Sink: s.Opening.Queue}
	}
	if err != nil {
		return millrace.Started{}, err
	}
	return readStarted(reply, s.Opening.Secret, len(e.own))
}

// readStarted reads number, status and record of an operation, 1 if it was open already, the
// time to what is due, and what was dropped.
func readStarted(reply []rueidis.RedisMessage, secret millrace.OperationSecret, lanes int) (millrace.Started, error) {
	done := millrace.Started{Existing: intOf(reply[3]) == 1, Due: next(intOf(reply[4])), Dropped: dropped(listOf(reply[5]))}
	done.ID.Secret = secret
	if done.Existing {
		there, err := storedOperation{number: textOf(reply[0]), record: textOf(reply[2])}.read(lanes)
		if err != nil {
			return millrace.Started{}, err
		}
		done.ID.Secret = there.ID.Secret
	}
	n, err := strconv.ParseUint(textOf(reply[0]), 10, 64)
	if err != nil {
		return millrace.Started{}, millrace.Wrap(millrace.CodeInternal, err, "read the number of an operation")
	}
	done.ID.Number, done.Status = n, statusOf((textOf(reply[1]) + " ")[0])
	return done, nil
}

// Operation returns one.
func (e *Engine) Operation(ctx context.Context, lane int, r millrace.ReadOperation) (millrace.StoredOperation, error) {
	return e.oneOperation(ctx, &e.scripts.operationGet, lane, r.Now, r.Number, flag(r.Watch))
}

// CancelOperation cancels one, or asks for it if it is running.
func (e *Engine) CancelOperation(ctx context.Context, lane int, now time.Time, number uint64) (millrace.StoredOperation, error) {
	return e.oneOperation(ctx, &e.scripts.operationCancel, lane, now, number)
}

// oneOperation calls a script that shows the operation of a number.
func (e *Engine) oneOperation(ctx context.Context, s *script, lane int, now time.Time, number uint64, more ...string) (millrace.StoredOperation, error) {
	reply, err := e.runLane(ctx, s, lane, millis(now), append([]string{strconv.FormatUint(number, 10)}, more...)...)
	if err != nil {
		return millrace.StoredOperation{}, err
	}
	list, err := readOperations(reply, len(e.own))
	if err != nil {
		return millrace.StoredOperation{}, err
	}
	if len(list) != 1 {
		return millrace.StoredOperation{}, millrace.Errorf(millrace.CodeInternal, "script %s showed %d operations", s.name, len(list))
	}
	return list[0], nil
}

// ListOperations returns operations, the highest number first.
func (e *Engine) ListOperations(ctx context.Context, lane int, p millrace.OperationPage) (list []millrace.StoredOperation, next uint64, err error) {
	status := ""
	if p.Status != "" {
		status = string(p.Status[:1])
	}
	reply, err := e.runLane(ctx, &e.scripts.operationList, lane, millis(p.Now), p.Subject, p.Queue, status, p.Tenant,
		strconv.FormatUint(p.Before, 10), strconv.Itoa(min(p.Limit, millrace.MaxPage)), strconv.Itoa(millrace.MaxListExamined), strconv.Itoa(pageBytes))
	if err != nil {
		return nil, 0, err
	}
	if list, err = readOperations(listOf(reply[1]), len(e.own)); err != nil {
		return nil, 0, err
	}
	next, err = strconv.ParseUint(textOf(reply[0]), 10, 64)
	if err != nil {
		return nil, 0, millrace.Wrap(millrace.CodeInternal, err, "read where a list of operations goes on")
	}
	return list, next, nil
}

// Report tells of progress.
func (e *Engine) Report(ctx context.Context, lane int, p millrace.ProgressReport) error {
	_, err := e.runLane(ctx, &e.scripts.operationReport, lane, millis(p.Now), strconv.FormatUint(p.Number, 10),
		strconv.FormatUint(p.Name, 10), string(p.Token[:]), strconv.Itoa(p.Percent), p.Note)
	return err
}

// OperationCounts returns the buckets in which anything was counted.
func (e *Engine) OperationCounts(ctx context.Context, lane int, q millrace.CountQuery) ([]millrace.OperationCount, millrace.Tally, error) {
	reply, err := e.runLane(ctx, &e.scripts.operationCounts, lane, millis(q.Now), q.Queue, string(rune(q.Bucket)),
		strconv.FormatInt(q.Since.UnixMilli(), 10), strconv.FormatInt(q.Until.UnixMilli(), 10))
	if err != nil || len(reply) == 0 {
		return nil, millrace.Tally{}, err
	}
	total, ok := readCount(textOf(reply[0]))
	var counts []millrace.OperationCount
	for list := listOf(reply[1]); len(list) >= 2 && ok; list = list[2:] {
		var c millrace.OperationCount
		c, ok = readCount(textOf(list[1]))
		ms, err := strconv.ParseInt(textOf(list[0]), 10, 64)
		c.At, ok = moment(ms), ok && err == nil
		counts = append(counts, c)
	}
	if !ok {
		return nil, millrace.Tally{}, millrace.Errorf(millrace.CodeInternal, "the store holds counts that cannot be read")
	}
	return counts, total.Tally, nil
}

// readCount reads four numbers, then kind, class and count of each class of lengths of time.
func readCount(s string) (c millrace.OperationCount, ok bool) {
	p := packed{rest: s}
	for _, n := range []*int64{&c.Success, &c.Error, &c.Cancelled, &c.Retried} {
		*n = int64(p.double())
	}
	for p.rest != "" {
		spans := &c.Queued
		if p.byte() == 'x' {
			spans = &c.Running
		}
		class := p.take(2)
		count := int64(p.double())
		if p.broken {
			return c, false
		}
		if *spans == nil {
			*spans = millrace.Spans{}
		}
		(*spans)[int(binary.LittleEndian.Uint16([]byte(class)))] = count
	}
	return c, !p.broken
}
