package api

import (
	"github.com/millrace-dev/millrace"
)

// OperationPath is where an operation is, by its id.
func OperationPath(id string) string { return "/v1/operations/" + id }

// DecodeOperationRequest reads what is to be done. Its payload is a part of body.
func DecodeOperationRequest(body []byte) (millrace.OperationRequest, error) {
	d := newDecoder(body)
	r := d.operationRequest()
	if d.broken == nil {
		d.merge(0, r.Faults(d.root))
	}
	return r, d.finish()
}

// operationRequest reads a request; whether its words are good is for its reader to find.
func (d *decoder) operationRequest() (r millrace.OperationRequest) {
	if !d.object() {
		return r
	}
	queue, typ := false, false
	for d.next() {
		switch string(d.name) {
		case "queue":
			r.Queue, _ = d.string("")
			queue = true
		case "type":
			r.Type, _ = d.string("")
			typ = true
		case "subject":
			r.Subject, _ = d.word("")
		case "tenant":
			r.Tenant, _ = d.word("")
		case "payload":
			r.Payload, _ = d.data()
		case "dedupe_key":
			r.DedupeKey, _ = d.word("")
		case "delay":
			r.Delay, _ = d.duration(0, millrace.MaxDelay)
		default:
			d.skip()
		}
	}
	if d.strict && !queue {
		d.missing("queue")
	}
	if d.strict && !typ {
		d.missing("type")
	}
	return r
}

// AppendOperationRequest writes what is to be done.
func AppendOperationRequest(b []byte, r *millrace.OperationRequest) []byte {
	b = appendTextField(append(b, '{'), "queue", r.Queue)
	b = appendTextField(b, "type", r.Type)
	if r.Subject != "" {
		b = appendTextField(b, "subject", r.Subject)
	}
	if r.Tenant != "" {
		b = appendTextField(b, "tenant", r.Tenant)
	}
	if len(r.Payload) > 0 {
		b = append(appendName(b, "payload"), r.Payload...)
	}
	if r.DedupeKey != "" {
		b = appendTextField(b, "dedupe_key", r.DedupeKey)
	}
	if r.Delay != 0 {
		b = appendDurationField(b, "delay", r.Delay)
	}
	return append(b, '}')
}

// AppendStarted writes the answer to a request.
func AppendStarted(b []byte, s *millrace.StartedOperation) []byte {
	b = appendTextField(append(b, '{'), "id", s.ID)
	b = appendTextField(b, "status", string(s.Status))
	b = appendTextField(b, "url", OperationPath(s.ID))
	return append(appendBoolField(b, "existing", s.Existing), '}')
}

// DecodeStarted reads the answer to a request.
func DecodeStarted(text []byte) (millrace.StartedOperation, error) {
	d := newAnswerDecoder(text)
	s := d.started()
	return s, d.finish()
}

func (d *decoder) started() (s millrace.StartedOperation) {
	if !d.object() {
		return s
	}
	for d.next() {
		switch string(d.name) {
		case "id":
			s.ID, _ = d.string("")
		case "status":
			s.Status = d.status()
		case "existing":
			s.Existing = d.bool()
		default:
			d.skip()
		}
	}
	return s
}

func (d *decoder) status() millrace.OperationStatus {
	s, _ := d.string(string(millrace.OperationQueued))
	return millrace.OperationStatus(s)
}

// AppendOperation writes an operation. Its payload and its output go out as they were written.
func AppendOperation(b []byte, o *millrace.TrackedOperation) []byte {
	b = appendTextField(append(b, '{'), "id", o.ID)
	b = appendTextField(b, "queue", o.Queue)
	b = appendTextField(b, "tenant", o.Tenant)
	b = appendTextField(b, "type", o.Type)
	b = appendStringOrNull(appendName(b, "subject"), o.Subject)
	b = appendTextField(b, "status", string(o.Status))
	b = appendIntField(b, "attempts", int64(o.Attempts))
	b = appendTime(appendName(b, "queued_at"), o.QueuedAt)
	b = appendTimeOrNull(appendName(b, "started_at"), o.StartedAt)
	b = appendTimeOrNull(appendName(b, "finished_at"), o.FinishedAt)
	b = appendProgress(appendName(b, "progress"), o.Progress)
	b = appendRawOrNull(appendName(b, "output"), o.Output)
	b = appendStringOrNull(appendName(b, "error"), o.Error)
	b = appendBoolField(b, "cancel_requested", o.CancelRequested)
	b = appendRawOrNull(appendName(b, "payload"), o.Payload)
	b = appendTextField(b, "event", o.Event)
	b = appendTimeOrNull(appendName(b, "expires_at"), o.ExpiresAt)
	return append(b, '}')
}

func appendRawOrNull(b, text []byte) []byte {
	if len(text) == 0 {
		return append(b, "null"...)
	}
	return append(b, text...)
}

func appendProgress(b []byte, p *millrace.Progress) []byte {
	if p == nil {
		return append(b, "null"...)
	}
	b = appendIntField(append(b, '{'), "percent", int64(p.Percent))
	return append(appendStringOrNull(appendName(b, "note"), p.Note), '}')
}

// DecodeOperation reads an operation. Its payload and its output are parts of text.
func DecodeOperation(text []byte) (millrace.TrackedOperation, error) {
	d := newAnswerDecoder(text)
	o := d.operation()
	return o, d.finish()
}

// AppendOperations writes a page of operations.
func AppendOperations(b []byte, list []millrace.TrackedOperation, next string) []byte {
	return appendPage(b, "operations", list, next, AppendOperation)
}

// DecodeOperations reads a page of operations.
func DecodeOperations(text []byte) ([]millrace.TrackedOperation, string, error) {
	return decodePage(text, "operations", (*decoder).operation)
}

func (d *decoder) operation() (o millrace.TrackedOperation) {
	if !d.object() {
		return o
	}
	for d.next() {
		switch string(d.name) {
		case "id":
			o.ID, _ = d.string("")
		case "status":
			o.Status = d.status()
		case "attempts":
			o.Attempts = int(d.unsigned())
		case "progress":
			o.Progress = d.progressOrNull()
		case "output":
			o.Output, _ = d.data()
		case "payload":
			o.Payload, _ = d.data()
		case "cancel_requested":
			o.CancelRequested = d.bool()
		default:
			if !d.operationWord(&o.Operation) && !d.operationTime(&o.Operation) {
				d.skip()
			}
		}
	}
	return o
}

func (d *decoder) operationWord(o *millrace.Operation) bool {
	to := map[string]*string{
		"queue": &o.Queue, "tenant": &o.Tenant, "type": &o.Type, "subject": &o.Subject, "error": &o.Error, "event": &o.Event,
	}[string(d.name)]
	if to == nil {
		return false
	}
	*to = d.stringOrNull()
	return true
}

func (d *decoder) operationTime(o *millrace.Operation) bool {
	switch string(d.name) {
	case "queued_at":
		o.QueuedAt = d.timeOrNull()
	case "started_at":
		o.StartedAt = d.timeOrNull()
	case "finished_at":
		o.FinishedAt = d.timeOrNull()
	case "expires_at":
		o.ExpiresAt = d.timeOrNull()
	default:
		return false
	}
	return true
}

func (d *decoder) progressOrNull() *millrace.Progress {
	if d.null() || !d.object() {
		return nil
	}
	p := &millrace.Progress{}
	for d.next() {
		switch string(d.name) {
		case "percent":
			p.Percent = int(d.unsigned())
		case "note":
			p.Note = d.stringOrNull()
		default:
			d.skip()
		}
	}
	return p
}

// DecodeProgress reads how far the work of a receipt's message has come.
func DecodeProgress(body []byte) (receipt string, p millrace.Progress, err error) {
	d := newDecoder(body)
	if !d.object() {
		return "", p, d.finish()
	}
	found := false
	for d.next() {
		switch string(d.name) {
		case "receipt":
			receipt, _ = d.given("")
			found = true
		case "percent":
			n, _ := d.integer(0, 100)
			p.Percent = int(n)
		case "note":
			p.Note, _ = d.string("")
		default:
			d.skip()
		}
	}
	if !found {
		d.missing("receipt")
	}
	if d.broken == nil {
		d.merge(0, p.Faults(d.root))
	}
	return receipt, p, d.finish()
}

// AppendProgress writes how far the work of a receipt's message has come.
func AppendProgress(b []byte, receipt string, p millrace.Progress) []byte {
	b = appendTextField(append(b, '{'), "receipt", receipt)
	b = appendIntField(b, "percent", int64(p.Percent))
	if p.Note != "" {
		b = appendTextField(b, "note", p.Note)
	}
	return append(b, '}')
}

// frameOperation is the name of the frames of a watched operation.
const frameOperation = "operation"

// AppendOperationFrame writes an operation that has changed as a frame of server-sent events.
func AppendOperationFrame(b []byte, o *millrace.TrackedOperation) []byte {
	b = append(b, "event: "+frameOperation+"\n"...)
	return append(appendLines(b, AppendOperation(nil, o)), '\n')
}

// DecodeOperationFrame reads a frame by its name and its data. A frame of another name is one that this program does
// not know: ok is false.
func DecodeOperationFrame(name string, data []byte) (o millrace.TrackedOperation, ok bool, err error) {
	if name != frameOperation {
		return o, false, nil
	}
	o, err = DecodeOperation(data)
	return o, true, err
}
