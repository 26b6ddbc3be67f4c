package api

import "github.com/millrace-dev/millrace"

// AppendStoredMessages writes messages that wait, or a page of dead letters.
func AppendStoredMessages(b []byte, messages []millrace.StoredMessage, next string) []byte {
	return appendPage(b, "messages", messages, next, appendStoredMessage)
}

// appendStoredMessage writes a message; one that is not dead has no reason, no
// error and no time of its death.
func appendStoredMessage(b []byte, m *millrace.StoredMessage) []byte {
	b = appendTextField(append(b, '{'), "id", m.ID)
	b = appendIntField(b, "attempts", int64(m.Attempts))
	b = appendStringOrNull(appendName(b, "reason"), m.Reason)
	b = appendStringOrNull(appendName(b, "error"), m.Error)
	b = appendTimeOrNull(appendName(b, "dead_at"), m.DeadAt)
	b = AppendEvent(appendName(b, "event"), &m.Event)
	return append(b, '}')
}

// DecodeStoredMessages reads what AppendStoredMessages writes. The events' data
// is a part of text, next the cursor as the server wrote it.
func DecodeStoredMessages(text []byte) (messages []millrace.StoredMessage, next string, err error) {
	return decodePage(text, "messages", (*decoder).storedMessage)
}

func (d *decoder) storedMessage() (m millrace.StoredMessage) {
	if !d.object() {
		return m
	}
	for d.next() {
		switch string(d.name) {
		case "id":
			m.ID, _ = d.string("")
		case "attempts":
			m.Attempts = int(d.unsigned())
		case "event":
			m.Event = d.event(&millrace.Event{})
		default:
			d.death(&m)
		}
	}
	return m
}

// death reads a member that only a dead letter has a value for.
func (d *decoder) death(m *millrace.StoredMessage) {
	if d.null() {
		return
	}
	switch string(d.name) {
	case "reason":
		m.Reason, _ = d.string(millrace.ReasonAttempts)
	case "error":
		m.Error, _ = d.string("")
	case "dead_at":
		m.DeadAt = d.time()
	default:
		d.skip()
	}
}
