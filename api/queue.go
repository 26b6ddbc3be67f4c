package api

import (
	"time"

	"github.com/millrace-dev/millrace"
)

// forever bounds nothing: the queue's own rules say how long a time may be.
const forever = time.Duration(1<<63 - 1)

// DecodeQueueSpec reads a queue's definition. What it leaves out has its
// default; an ordered queue blocks when attempts are spent.
func DecodeQueueSpec(body []byte) (millrace.QueueSpec, error) {
	d := newDecoder(body)
	spec := d.queueSpec()
	return spec, d.finish()
}

// queueSpec reads a text that is a queue's definition.
func (d *decoder) queueSpec() millrace.QueueSpec {
	spec := millrace.DefaultQueueSpec("")
	if !d.object() {
		return spec
	}
	found, chosen := false, false
	for d.next() {
		found = found || string(d.name) == "match"
		chosen = chosen || string(d.name) == "on_exhausted"
		if !d.specMember(&spec) {
			d.skip()
		}
	}
	if spec.Ordered && !chosen {
		spec.OnExhausted = millrace.ExhaustedBlock // a dead letter would be a gap in its key
	}
	if d.broken == nil && d.strict {
		if !found {
			d.missing("match")
		}
		d.merge(0, spec.Faults(d.root))
	}
	return spec
}

// specMember reads a member of a queue's definition, if it is one.
func (d *decoder) specMember(q *millrace.QueueSpec) bool {
	switch string(d.name) {
	case "match":
		q.Match, _ = d.string("")
	case "max_attempts":
		d.limit(&q.MaxAttempts)
	case "on_exhausted":
		d.oneOf((*string)(&q.OnExhausted), string(millrace.ExhaustedDead), string(millrace.ExhaustedBlock))
	case "ordered":
		q.Ordered = d.bool()
	case "tracked":
		q.Tracked = d.bool()
	case "tenant_limit":
		d.limit(&q.TenantLimit)
	case "max_length":
		d.limit(&q.MaxLength)
	case "overflow":
		d.oneOf((*string)(&q.Overflow), string(millrace.OverflowReject), string(millrace.OverflowDropOldest))
	case "redact":
		q.Redact = d.strings()
	default:
		return d.specDuration(q)
	}
	return true
}

func (d *decoder) specDuration(q *millrace.QueueSpec) bool {
	var to *time.Duration
	switch string(d.name) {
	case "lease":
		to = &q.Lease
	case "backoff_first":
		to = &q.BackoffFirst
	case "backoff_max":
		to = &q.BackoffMax
	case "dead_retention":
		to = &q.DeadRetention
	case "retention":
		to = &q.Retention
	case "error_retention":
		to = &q.ErrorRetention
	default:
		return false
	}
	if v, ok := d.duration(0, forever); ok {
		*to = v
	}
	return true
}

func (d *decoder) limit(to *int) {
	if n, ok := d.integer(0, maxInteger); ok {
		*to = int(n)
	}
}

// oneOf reads a string that is either of two; in an answer a later version may say a third.
func (d *decoder) oneOf(to *string, a, b string) {
	s, ok := d.string(a)
	switch {
	case !ok:
	case s == a || s == b || !d.strict:
		*to = s
	default:
		d.fault("must be " + a + " or " + b)
	}
}

// AppendQueueSpec writes a queue's definition.
func AppendQueueSpec(b []byte, q *millrace.QueueSpec) []byte {
	return append(appendSpec(append(b, '{'), q), '}')
}

func appendSpec(b []byte, q *millrace.QueueSpec) []byte {
	b = appendTextField(b, "match", q.Match)
	b = appendDurationField(b, "lease", q.Lease)
	b = appendIntField(b, "max_attempts", int64(q.MaxAttempts))
	b = appendDurationField(b, "backoff_first", q.BackoffFirst)
	b = appendDurationField(b, "backoff_max", q.BackoffMax)
	b = appendTextField(b, "on_exhausted", string(q.OnExhausted))
	b = appendBoolField(b, "ordered", q.Ordered)
	b = appendBoolField(b, "tracked", q.Tracked)
	b = appendIntField(b, "tenant_limit", int64(q.TenantLimit))
	b = appendIntField(b, "max_length", int64(q.MaxLength))
	b = appendTextField(b, "overflow", string(q.Overflow))
	b = appendDurationField(b, "dead_retention", q.DeadRetention)
	b = appendDurationField(b, "retention", q.Retention)
	b = appendDurationField(b, "error_retention", q.ErrorRetention)
	return appendStrings(appendName(b, "redact"), q.Redact)
}

func appendDurationField(b []byte, name string, d time.Duration) []byte {
	b = append(appendName(b, name), '"')
	return append(appendDuration(b, d), '"')
}

// AppendQueue writes a queue: its definition and what it holds.
func AppendQueue(b []byte, q *millrace.Queue) []byte {
	b = appendTextField(append(b, '{'), "name", q.Name)
	b = appendIntField(b, "version", int64(q.Version))
	b = appendTextField(b, "state", q.State)
	b = appendSpec(b, &q.Spec)
	b = appendCounts(appendName(b, "counts"), &q.QueueCounts)
	b = appendIntField(b, "tenants", q.Tenants)
	b = appendTimeOrNull(appendName(b, "oldest"), q.Oldest)
	b = appendIntField(b, "dropped", q.Dropped)
	b = append(appendName(b, "totals"), '{')
	b = appendIntField(b, "success", q.Acked)
	b = appendIntField(b, "error", q.Spent)
	return append(b, '}', '}')
}

func appendCounts(b []byte, c *millrace.QueueCounts) []byte {
	b = appendIntField(append(b, '{'), "ready", c.Ready)
	b = appendIntField(b, "leased", c.Leased)
	b = appendIntField(b, "delayed", c.Delayed)
	b = appendIntField(b, "dead", c.Dead)
	return append(b, '}')
}

// DecodeQueue reads a queue.
func DecodeQueue(text []byte) (millrace.Queue, error) {
	d := newAnswerDecoder(text)
	q := d.queue()
	return q, d.finish()
}

// AppendQueues writes a page of queues.
func AppendQueues(b []byte, queues []millrace.Queue, next string) []byte {
	return appendPage(b, "queues", queues, next, AppendQueue)
}

// DecodeQueues reads a page of queues.
func DecodeQueues(text []byte) ([]millrace.Queue, string, error) {
	return decodePage(text, "queues", (*decoder).queue)
}

func (d *decoder) queue() (q millrace.Queue) {
	if !d.object() {
		return q
	}
	for d.next() {
		switch string(d.name) {
		case "name":
			q.Name, _ = d.string("")
		case "version":
			q.Version = int(d.unsigned())
		case "state":
			q.State, _ = d.string("active")
		default:
			if !d.specMember(&q.Spec) && !d.queueStats(&q.QueueStats) {
				d.skip()
			}
		}
	}
	return q
}

func (d *decoder) queueStats(s *millrace.QueueStats) bool {
	switch string(d.name) {
	case "counts":
		s.QueueCounts = d.counts()
	case "tenants":
		s.Tenants, _ = d.integer(0, maxInteger)
	case "oldest":
		s.Oldest = d.timeOrNull()
	case "dropped":
		s.Dropped, _ = d.integer(0, maxInteger)
	case "totals":
		d.numbers(map[string]*int64{"success": &s.Acked, "error": &s.Spent})
	default:
		return false
	}
	return true
}

func (d *decoder) counts() (c millrace.QueueCounts) {
	d.numbers(map[string]*int64{"ready": &c.Ready, "leased": &c.Leased, "delayed": &c.Delayed, "dead": &c.Dead})
	return c
}

// numbers reads an object of integers into where each belongs.
func (d *decoder) numbers(to map[string]*int64) {
	if !d.object() {
		return
	}
	for d.next() {
		if n := to[string(d.name)]; n != nil {
			*n, _ = d.integer(0, maxInteger)
		} else {
			d.skip()
		}
	}
}
