package api

import (
	"net/url"
	"time"

	"github.com/millrace-dev/millrace"
)

// DecodeOperationQuery reads which operations are wanted.
func DecodeOperationQuery(q url.Values) (millrace.OperationQuery, error) {
	page, err := DecodePage(q)
	o := millrace.OperationQuery{
		Subject: q.Get("subject"), Queue: q.Get("queue"), Status: millrace.OperationStatus(q.Get("status")), Tenant: q.Get("tenant"), Page: page,
	}
	faults := inQuery(o.Faults())
	for _, name := range [...]string{"subject", "queue", "status", "tenant"} {
		if q.Has(name) && q.Get(name) == "" { // who left a word out must not see everything
			faults = append(faults, millrace.Fault{Location: "query." + name, Message: "must not be empty"})
		}
	}
	for name, value := range map[string]string{"queue": o.Queue, "tenant": o.Tenant} {
		if m := millrace.NameFault(value); value != "" && m != "" {
			faults = append(faults, millrace.Fault{Location: "query." + name, Message: m})
		}
	}
	return o, Join(millrace.Invalid(oneEach(faults)), err)
}

// oneEach is the first fault of each place.
func oneEach(faults []millrace.Fault) (list []millrace.Fault) {
	seen := map[string]bool{}
	for _, f := range faults {
		if !seen[f.Location] {
			list = append(list, f)
		}
		seen[f.Location] = true
	}
	return list
}

// inQuery locates faults of arguments in the query.
func inQuery(faults []millrace.Fault) []millrace.Fault {
	for i := range faults {
		faults[i].Location = "query." + faults[i].Location
	}
	return faults
}

// EncodeOperationQuery is the query that DecodeOperationQuery reads. The cursor stands as the server wrote it.
func EncodeOperationQuery(o millrace.OperationQuery) url.Values {
	q := EncodePage(o.Page)
	for name, value := range map[string]string{"subject": o.Subject, "queue": o.Queue, "status": string(o.Status), "tenant": o.Tenant} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// DecodeAwait reads how long to wait for a status that is not seen; asked is false if nobody wants to wait.
func DecodeAwait(q url.Values) (seen millrace.OperationStatus, wait time.Duration, asked bool, err error) {
	var faults []millrace.Fault
	if q.Has("wait") {
		v, ok := ParseDuration(q.Get("wait"))
		if !ok || v > millrace.MaxWait {
			faults = append(faults, millrace.Fault{Location: "query.wait", Message: "must be a duration between 0s and " + FormatDuration(millrace.MaxWait)})
		}
		wait = v
	}
	if seen = millrace.OperationStatus(q.Get("seen")); q.Has("seen") {
		if m := seen.Fault(); m != "" || seen == "" {
			faults = append(faults, millrace.Fault{Location: "query.seen", Message: "must be QUEUED, RUNNING, SUCCESS, ERROR or CANCELLED"})
		}
	}
	return seen, wait, q.Has("wait") || q.Has("seen"), millrace.Invalid(faults)
}

// EncodeAwait is the query that DecodeAwait reads.
func EncodeAwait(seen millrace.OperationStatus, wait time.Duration) url.Values {
	q := url.Values{"wait": {FormatDuration(wait)}}
	if seen != "" {
		q.Set("seen", string(seen))
	}
	return q
}

// ParseBucket reads the length of a bucket: 1m, 1h or 1d.
func ParseBucket(s string) (b millrace.CountBucket, ok bool) {
	switch s {
	case "1m":
		return millrace.Minutes, true
	case "1h":
		return millrace.Hours, true
	case "1d":
		return millrace.Days, true
	}
	return 0, false
}

// FormatBucket is how the length of a bucket is written.
func FormatBucket(b millrace.CountBucket) string { return "1" + string(rune(b)) }

// ParseSince reads a time, or a duration back from now.
func ParseSince(s string, now time.Time) (t time.Time, ok bool) {
	if back, ok := ParseDuration(s); ok {
		return now.Add(-back), true
	}
	return ParseTime(s)
}

// DecodeCountQuery reads which counts are wanted. What is left out has its default.
func DecodeCountQuery(q url.Values, now time.Time) (millrace.OperationCountQuery, error) {
	c := millrace.OperationCountQuery{Queue: q.Get("queue")}
	var faults []millrace.Fault
	bad := func(name, message string) {
		faults = append(faults, millrace.Fault{Location: "query." + name, Message: message})
	}
	var ok bool
	if !q.Has("queue") {
		bad("queue", "is required")
	}
	if q.Has("bucket") {
		if c.Bucket, ok = ParseBucket(q.Get("bucket")); !ok {
			bad("bucket", "must be 1m, 1h or 1d")
		}
	}
	if q.Has("since") {
		if c.Since, ok = ParseSince(q.Get("since"), now); !ok {
			bad("since", "must be a time as in RFC 3339, or a duration back from now")
		}
	}
	if q.Has("until") {
		if c.Until, ok = ParseTime(q.Get("until")); !ok {
			bad("until", "must be a time as in RFC 3339")
		}
	}
	whole := c.WithDefaults(now)
	return c, millrace.Invalid(oneEach(append(faults, inQuery(whole.Faults())...)))
}

// EncodeCountQuery is the query that DecodeCountQuery reads.
func EncodeCountQuery(c millrace.OperationCountQuery) url.Values {
	q := url.Values{"queue": {c.Queue}}
	if c.Bucket != 0 {
		q.Set("bucket", FormatBucket(c.Bucket))
	}
	if !c.Since.IsZero() {
		q.Set("since", FormatTime(c.Since))
	}
	if !c.Until.IsZero() {
		q.Set("until", FormatTime(c.Until))
	}
	return q
}

// AppendOperationCounts writes what happened to the operations of a queue.
func AppendOperationCounts(b []byte, c *millrace.OperationCounts) []byte {
	b = appendTextField(append(b, '{'), "queue", c.Queue)
	b = appendTextField(b, "bucket", FormatBucket(c.Bucket))
	b = appendTime(appendName(b, "since"), c.Since)
	b = appendTime(appendName(b, "until"), c.Until)
	b = appendList(appendName(b, "counts"), c.Counts, appendOperationCount)
	b = append(appendTally(append(appendName(b, "total"), '{'), c.Total), '}')
	return append(b, '}')
}

func appendOperationCount(b []byte, c *millrace.OperationCount) []byte {
	b = appendTally(appendTime(appendName(append(b, '{'), "at"), c.At), c.Tally)
	b = appendSpans(appendName(b, "queued_ms"), c.Queued)
	return append(appendSpans(appendName(b, "running_ms"), c.Running), '}')
}

func appendTally(b []byte, t millrace.Tally) []byte {
	b = appendIntField(b, "success", t.Success)
	b = appendIntField(b, "error", t.Error)
	b = appendIntField(b, "cancelled", t.Cancelled)
	return appendIntField(b, "retried", t.Retried)
}

func appendSpans(b []byte, s millrace.Spans) []byte {
	b = appendIntField(append(b, '{'), "p50", s.Percentile(50))
	b = appendIntField(b, "p95", s.Percentile(95))
	return append(appendIntField(b, "p99", s.Percentile(99)), '}')
}

// DecodeOperationCounts reads what happened to the operations of a queue. The spans are not those that were counted, but some
// that have the same 50th, 95th and 99th percentile.
func DecodeOperationCounts(text []byte) (c millrace.OperationCounts, err error) {
	d := newAnswerDecoder(text)
	if !d.object() {
		return c, d.finish()
	}
	for d.next() {
		switch string(d.name) {
		case "queue":
			c.Queue, _ = d.string("")
		case "bucket":
			text, _ := d.string("")
			c.Bucket, _ = ParseBucket(text)
		case "since":
			c.Since = d.time()
		case "until":
			c.Until = d.time()
		case "counts":
			c.Counts = readList(d, (*decoder).operationCount)
		case "total":
			d.numbers(tallied(&c.Total))
		default:
			d.skip()
		}
	}
	return c, d.finish()
}

func tallied(t *millrace.Tally) map[string]*int64 {
	return map[string]*int64{"success": &t.Success, "error": &t.Error, "cancelled": &t.Cancelled, "retried": &t.Retried}
}

func (d *decoder) operationCount() (c millrace.OperationCount) {
	if !d.object() {
		return c
	}
	for d.next() {
		switch name := string(d.name); name {
		case "at":
			c.At = d.time()
		case "queued_ms":
			c.Queued = d.spans()
		case "running_ms":
			c.Running = d.spans()
		default:
			if to := tallied(&c.Tally)[name]; to != nil {
				*to, _ = d.integer(0, maxInteger)
			} else {
				d.skip()
			}
		}
	}
	return c
}

// spans are a hundred lengths of time that have the percentiles that are told.
func (d *decoder) spans() millrace.Spans {
	var p50, p95, p99 int64
	d.numbers(map[string]*int64{"p50": &p50, "p95": &p95, "p99": &p99})
	s := millrace.Spans{}
	if p99 > 0 {
		s[millrace.SpanIndex(p50)] += 50
		s[millrace.SpanIndex(p95)] += 45
		s[millrace.SpanIndex(p99)] += 5
	}
	return s
}
