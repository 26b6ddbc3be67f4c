package api

import "github.com/millrace-dev/millrace"

// AppendTopic writes a topic.
func AppendTopic(b []byte, t *millrace.Topic) []byte {
	b = appendTextField(append(b, '{'), "name", t.Name)
	b = appendStringOrNull(appendName(b, "publisher"), t.Publisher)
	b = appendIntField(b, "events", t.Events)
	b = appendTimeOrNull(appendName(b, "last_event_at"), t.LastEventAt)
	b = appendStrings(appendName(b, "subscriptions"), t.Subscriptions)
	return append(b, '}')
}

// DecodeTopic reads a topic.
func DecodeTopic(text []byte) (millrace.Topic, error) {
	d := newAnswerDecoder(text)
	t := d.topicAnswer()
	return t, d.finish()
}

// AppendTopics writes a page of topics.
func AppendTopics(b []byte, topics []millrace.Topic, next string) []byte {
	return appendPage(b, "topics", topics, next, AppendTopic)
}

// DecodeTopics reads a page of topics.
func DecodeTopics(text []byte) ([]millrace.Topic, string, error) {
	return decodePage(text, "topics", (*decoder).topicAnswer)
}

func (d *decoder) topicAnswer() (t millrace.Topic) {
	if !d.object() {
		return t
	}
	for d.next() {
		switch string(d.name) {
		case "name":
			t.Name, _ = d.string("")
		case "publisher":
			t.Publisher = d.stringOrNull()
		case "events":
			t.Events, _ = d.integer(0, maxInteger)
		case "last_event_at":
			t.LastEventAt = d.timeOrNull()
		case "subscriptions":
			t.Subscriptions = d.strings()
		default:
			d.skip()
		}
	}
	return t
}

// AppendTopicPut writes the body that hands a topic to a publisher, or to nobody.
func AppendTopicPut(b []byte, publisher string) []byte {
	b = appendStringOrNull(appendName(append(b, '{'), "publisher"), publisher)
	return append(b, '}')
}

// DecodeTopicPut reads the body that hands a topic to a publisher; empty for nobody.
func DecodeTopicPut(body []byte) (publisher string, err error) {
	d := newDecoder(body)
	if d.object() {
		found := false
		for d.next() {
			if string(d.name) != "publisher" {
				d.skip()
				continue
			}
			found = true
			publisher = d.publisher()
		}
		if !found {
			d.missing("publisher")
		}
	}
	return publisher, d.finish()
}

func (d *decoder) publisher() string {
	if d.null() {
		return ""
	}
	s, ok := d.string("")
	if !ok {
		return ""
	}
	if m := millrace.NameFault(s); m != "" {
		d.fault(m)
	}
	return s
}
