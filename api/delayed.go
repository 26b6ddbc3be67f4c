package api

import "github.com/millrace-dev/millrace"

// AppendDelayed writes an event that is not due yet: itself, with the time at
// which it is. What it gets only then is null.
func AppendDelayed(b []byte, e *millrace.Delayed) []byte {
	b = appendEventHead(append(b, '{'), &e.Event)
	b = appendTimeOrNull(appendName(b, "recorded_at"), e.RecordedAt)
	b = appendEventBody(b, &e.Event)
	b = append(appendName(b, "seq"), "null"...)
	if e.Key != "" {
		b = append(appendName(b, "prev"), "null"...)
	}
	b = appendTime(appendName(b, "due_at"), e.DueAt)
	return append(b, '}')
}

// DecodeDelayed reads an event that is not due yet. Its data is a part of text.
func DecodeDelayed(text []byte) (e millrace.Delayed, err error) {
	d := newAnswerDecoder(text)
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case "due_at":
				e.DueAt = d.time()
			case "recorded_at", "seq", "prev":
				if !d.null() {
					d.eventMember(&e.Event, &millrace.Event{})
				}
			default:
				d.eventMember(&e.Event, &millrace.Event{})
			}
		}
	}
	return e, d.finish()
}
