package api

import (
	"time"

	"github.com/millrace-dev/millrace"
)

// AppendBatches writes a page of batches.
func AppendBatches(b []byte, list []millrace.SubscriptionBatch, next string) []byte {
	return appendPage(b, "batches", list, next, appendBatchHead)
}

// AppendBatch writes one batch with its events.
func AppendBatch(b []byte, batch *millrace.SubscriptionBatch) []byte {
	b = appendBatchHead(b, batch)
	b = appendList(appendName(b[:len(b)-1], "events"), batch.Events, AppendEvent)
	return append(b, '}')
}

func appendBatchHead(b []byte, batch *millrace.SubscriptionBatch) []byte {
	b = appendTextField(append(b, '{'), "id", batch.ID)
	b = appendTextField(b, "state", string(batch.State))
	b = appendBoolField(b, "current", batch.Current)
	b = appendIntField(b, "count", int64(batch.Count))
	b = appendIntField(b, "bytes", int64(batch.Bytes))
	b = appendIntField(b, "attempts", int64(batch.Attempts))
	b = appendTime(appendName(b, "created_at"), batch.CreatedAt)
	b = appendTimeOrNull(appendName(b, "due_at"), batch.DueAt)
	b = appendStringOrNull(appendName(b, "node"), batch.Node)
	b = appendStringOrNull(appendName(b, "error"), batch.Error)
	return append(b, '}')
}

// DecodeBatches reads a page of batches.
func DecodeBatches(text []byte) ([]millrace.SubscriptionBatch, string, error) {
	return decodePage(text, "batches", (*decoder).batch)
}

// DecodeBatch reads one batch with its events, whose data is a part of text.
func DecodeBatch(text []byte) (millrace.SubscriptionBatch, error) {
	d := newAnswerDecoder(text)
	b := d.batch()
	return b, d.finish()
}

func (d *decoder) batch() (b millrace.SubscriptionBatch) {
	if !d.object() {
		return b
	}
	for d.next() {
		switch string(d.name) {
		case "id":
			b.ID, _ = d.string("")
		case "state":
			s, _ := d.string("")
			b.State = millrace.BatchState(s)
		case "current":
			b.Current = d.bool()
		case "count":
			d.limit(&b.Count)
		case "bytes":
			d.limit(&b.Bytes)
		case "attempts":
			d.limit(&b.Attempts)
		case "events":
			b.Events = readList(d, func(d *decoder) millrace.Event { return d.event(&millrace.Event{}) })
		default:
			d.batchDetail(&b)
		}
	}
	return b
}

func (d *decoder) batchDetail(b *millrace.SubscriptionBatch) {
	switch string(d.name) {
	case "created_at":
		b.CreatedAt = d.time()
	case "due_at":
		b.DueAt = d.timeOrNull()
	case "node":
		b.Node = d.stringOrNull()
	case "error":
		b.Error = d.stringOrNull()
	default:
		d.skip()
	}
}

// AppendAttempts writes attempts.
func AppendAttempts(b []byte, list []millrace.Attempt) []byte {
	return appendPage(b, "attempts", list, "", appendAttempt)
}

// AppendAttempt writes the one attempt of a test.
func AppendAttempt(b []byte, a *millrace.Attempt) []byte {
	return append(appendAttempt(appendName(append(b, '{'), "attempt"), a), '}')
}

func appendAttempt(b []byte, a *millrace.Attempt) []byte {
	outcome := "failed"
	if a.OK {
		outcome = "sent"
	}
	b = appendStringOrNull(appendName(append(b, '{'), "batch"), a.Batch)
	b = appendIntField(b, "attempt", int64(a.Attempt))
	b = appendTime(appendName(b, "at"), a.At)
	b = appendTextField(b, "outcome", outcome)
	b = appendIntField(b, "status", int64(a.Status))
	b = appendStringOrNull(appendName(b, "error"), a.Error)
	b = appendIntField(b, "duration_ms", a.Duration.Milliseconds())
	b = appendIntField(b, "count", int64(a.Count))
	b = appendTextField(b, "answer", a.Answer)
	b = appendStringOrNull(appendName(b, "node"), a.Node)
	return append(b, '}')
}

// DecodeAttempts reads attempts.
func DecodeAttempts(text []byte) ([]millrace.Attempt, error) {
	list, _, err := decodePage(text, "attempts", (*decoder).attempt)
	return list, err
}

// DecodeAttempt reads the one attempt of a test.
func DecodeAttempt(text []byte) (a millrace.Attempt, err error) {
	d := newAnswerDecoder(text)
	if d.object() {
		for d.next() {
			if string(d.name) == "attempt" {
				a = d.attempt()
			} else {
				d.skip()
			}
		}
	}
	return a, d.finish()
}

func (d *decoder) attempt() (a millrace.Attempt) {
	if !d.object() {
		return a
	}
	for d.next() {
		switch string(d.name) {
		case "batch":
			a.Batch = d.stringOrNull()
		case "attempt":
			d.limit(&a.Attempt)
		case "at":
			a.At = d.time()
		case "outcome":
			s, _ := d.string("sent")
			a.OK = s == "sent"
		case "status":
			d.limit(&a.Status)
		case "error":
			a.Error = d.stringOrNull()
		case "duration_ms":
			n, _ := d.integer(0, maxInteger)
			a.Duration = time.Duration(n) * time.Millisecond
		case "count":
			d.limit(&a.Count)
		case "answer":
			a.Answer, _ = d.string("")
		case "node":
			a.Node = d.stringOrNull()
		default:
			d.skip()
		}
	}
	return a
}

// AppendRetried writes how many batches were made ready.
func AppendRetried(b []byte, n int) []byte {
	return append(appendIntField(append(b, '{'), "retried", int64(n)), '}')
}

// DecodeRetried reads how many batches were made ready.
func DecodeRetried(text []byte) (int, error) { return decodeNumber(text, "retried") }

// rotateOverlap is how long old secrets sign on unless a rotation says otherwise.
const rotateOverlap = 24 * time.Hour

// DecodeRotate reads a request for a new secret: the one it names, if any, and for how
// long the old ones sign on.
func DecodeRotate(body []byte) (secret string, overlap time.Duration, err error) {
	overlap = rotateOverlap
	if len(body) == 0 {
		return "", overlap, nil
	}
	d := newDecoder(body)
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case "secret":
				secret, _ = d.given("")
			case "overlap":
				if v, ok := d.duration(0, millrace.MaxDelay); ok {
					overlap = v
				}
			default:
				d.skip()
			}
		}
	}
	return secret, overlap, d.finish()
}

// AppendRotate writes a request for a new secret.
func AppendRotate(b []byte, secret string, overlap time.Duration) []byte {
	b = append(b, '{')
	if secret != "" {
		b = appendTextField(b, "secret", secret)
	}
	return append(appendDurationField(b, "overlap", overlap), '}')
}

// AppendRotated writes a new secret and when the old ones end.
func AppendRotated(b []byte, secret string, oldUntil time.Time) []byte {
	b = appendTextField(append(b, '{'), "secret", secret)
	return append(appendTime(appendName(b, "old_until"), oldUntil), '}')
}

// DecodeRotated reads a new secret and when the old ones end.
func DecodeRotated(text []byte) (secret string, oldUntil time.Time, err error) {
	d := newAnswerDecoder(text)
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case "secret":
				secret, _ = d.string("")
			case "old_until":
				oldUntil = d.time()
			default:
				d.skip()
			}
		}
	}
	return secret, oldUntil, d.finish()
}
