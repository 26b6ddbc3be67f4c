package api

import (
	"strconv"

	"github.com/millrace-dev/millrace"
)

// PublishPath says what a publish request tells beside its body.
type PublishPath struct {
	Topic          string // of the path
	IdempotencyKey string // event i that has no id gets the id K.i
}

// DecodePublish reads the body of a publish: one event or an array of them.
// Faults of the topic and of the Idempotency-Key are reported with the body's.
// The events' data is a part of body.
func DecodePublish(body []byte, p PublishPath) ([]millrace.Event, error) {
	d := newDecoder(body)
	d.publishPath(p)
	events := d.events(p)
	if err := d.finish(); err != nil {
		return nil, err
	}
	return events, nil
}

// publishPath finds what is wrong beside the body.
func (d *decoder) publishPath(p PublishPath) {
	if m := millrace.NameFault(p.Topic); m != "" {
		d.faultAt("path.topic", m)
	} else if p.Topic == millrace.SystemTopic {
		d.faultAt("path.topic", "is reserved")
	}
	if m := millrace.TextFault(p.IdempotencyKey, millrace.MaxIDLen-len(".999")); m != "" {
		d.faultAt("header.Idempotency-Key", m)
	}
}

func (d *decoder) events(p PublishPath) []millrace.Event {
	if d.broken != nil {
		return nil
	}
	var like millrace.Event
	if d.dec.PeekKind() == '{' {
		return []millrace.Event{d.publishEvent(p, 0, &like)}
	}
	return d.eventList(func(i int) millrace.Event {
		like = d.publishEvent(p, i, &like)
		return like
	})
}

// eventList reads an array of events, as many as a request may hold.
func (d *decoder) eventList(event func(i int) millrace.Event) []millrace.Event {
	if !d.array() {
		return nil
	}
	events := make([]millrace.Event, 0, min(millrace.MaxEvents, 1+len(d.text)/64))
	count := 0
	for ; d.more(); count++ {
		if count >= millrace.MaxEvents {
			d.value()
			continue
		}
		events = append(events, event(count))
	}
	if count == 0 || count > millrace.MaxEvents {
		d.faultAt(d.root, "must hold 1 to "+strconv.Itoa(millrace.MaxEvents)+" events")
	}
	return events
}

// given is what a publisher said that an Event does not hold.
type given struct {
	typ, data, base64, delay, deliverAt bool
}

// publishEvent reads event i of a request and checks it.
func (d *decoder) publishEvent(p PublishPath, i int, like *millrace.Event) (e millrace.Event) {
	from := len(d.faults)
	if !d.object() {
		return e
	}
	var g given
	for d.next() {
		switch string(d.name) {
		case "id":
			e.ID, _ = d.given("")
		case "type":
			e.Type, _ = d.given(like.Type)
			g.typ = true
		case "tenant":
			e.Tenant, _ = d.given(like.Tenant)
		case "key":
			e.Key, _ = d.given("")
		case "time":
			e.Time = d.time()
		case "content_type":
			e.ContentType, _ = d.given(like.ContentType)
		default:
			d.publishContent(&e, &g)
		}
	}
	if d.broken == nil {
		d.check(&e, &g, from)
		e.Topic = p.Topic
		if e.ID == "" && p.IdempotencyKey != "" {
			e.ID = p.IdempotencyKey + "." + strconv.Itoa(i)
		}
	}
	return e
}

func (d *decoder) publishContent(e *millrace.Event, g *given) {
	switch string(d.name) {
	case "data":
		e.Data, g.data = d.data()
	case "data_base64":
		e.Data = d.base64()
		g.base64 = true
	case "attributes":
		e.Attributes = d.attributes()
	case "delay":
		g.delay = true
		e.Delay, _ = d.duration(0, millrace.MaxEventDelay)
	case "deliver_at":
		g.deliverAt = true
		e.DeliverAt = d.time()
	default:
		d.skip()
	}
}

// check finds what is wrong with an event whose text has just been read.
func (d *decoder) check(e *millrace.Event, g *given, from int) {
	if !g.typ {
		d.missing("type")
	}
	if g.delay && g.deliverAt {
		d.faultAt(d.here()+".deliver_at", "must not be given with delay")
	}
	d.checkData(e, g.data, g.base64)
	probe := *e
	probe.Topic = "t" // it stands in the path
	if probe.Type == "" {
		probe.Type = "t" // said already
	}
	d.checkEvent(&probe, from)
}

// checkData finds whether data came in the form that its content type asks for.
func (d *decoder) checkData(e *millrace.Event, data, base64 bool) {
	switch {
	case data && base64:
		d.faultAt(d.here()+".data_base64", "must not be given with data")
	case data && !e.IsJSON() && len(e.Data) > 0:
		d.faultAt(d.here()+".data", "must be given as data_base64, because the content type is not JSON")
	case base64 && e.IsJSON():
		d.faultAt(d.here()+".data_base64", "must be given as data, because the content type is JSON")
	}
}

// checkEvent finds what is wrong with the words of an event.
func (d *decoder) checkEvent(e *millrace.Event, from int) {
	probe := *e
	probe.Data = nil // it was read as JSON already
	if probe.Faults("") != nil {
		d.merge(from, probe.Faults(d.here()))
	}
	if e.Size() > millrace.MaxEventSize {
		d.faultAt(d.here(), "must be at most "+strconv.Itoa(millrace.MaxEventSize)+" bytes")
	}
}

// AppendPublish writes the body of a publish.
func AppendPublish(b []byte, events []millrace.Event) []byte {
	return appendList(b, events, AppendPublishEvent)
}

// AppendPublishEvent writes one event of the body of a publish.
func AppendPublishEvent(b []byte, e *millrace.Event) []byte {
	b = append(b, '{')
	if e.ID != "" {
		b = appendTextField(b, "id", e.ID)
	}
	b = appendTextField(b, "type", e.Type)
	if e.Tenant != "" {
		b = appendTextField(b, "tenant", e.Tenant)
	}
	if e.Key != "" {
		b = appendTextField(b, "key", e.Key)
	}
	if !e.Time.IsZero() {
		b = appendTime(appendName(b, "time"), e.Time)
	}
	if len(e.Data) > 0 {
		b = appendData(b, e)
	}
	if e.ContentType != "" && e.ContentType != millrace.JSONContentType {
		b = appendTextField(b, "content_type", e.ContentType)
	}
	if len(e.Attributes) > 0 {
		b = appendStringMap(appendName(b, "attributes"), e.Attributes)
	}
	if e.Delay != 0 {
		b = appendDurationField(b, "delay", e.Delay)
	}
	if !e.DeliverAt.IsZero() {
		b = appendTime(appendName(b, "deliver_at"), e.DeliverAt)
	}
	return append(b, '}')
}

// AppendPublished writes the answer to a publish.
func AppendPublished(b []byte, results []millrace.Published, level millrace.Durability) []byte {
	b = appendPublishedList(appendName(append(b, '{'), "events"), results)
	b = appendTextField(b, "durability", string(level))
	return append(b, '}')
}

func appendPublishedList(b []byte, results []millrace.Published) []byte {
	return appendList(b, results, appendPublishedEvent)
}

func appendPublishedEvent(b []byte, p *millrace.Published) []byte {
	b = appendTextField(append(b, '{'), "id", p.ID)
	if p.Err != nil {
		return append(appendTextField(b, "error", string(wireCode(p.Err))), '}')
	}
	if !p.DueAt.IsZero() {
		b = appendTime(appendName(b, "due_at"), p.DueAt)
		return append(appendBoolField(b, "duplicate", p.Duplicate), '}')
	}
	b = appendUintField(b, "seq", p.Seq)
	if p.HasKey {
		b = appendUintField(b, "prev", p.Prev)
	}
	b = appendBoolField(b, "duplicate", p.Duplicate)
	b = appendIntField(b, "sinks", int64(p.Sinks))
	return append(b, '}')
}

// DecodePublished reads the answer to a publish.
func DecodePublished(text []byte) (results []millrace.Published, level millrace.Durability, err error) {
	d := newAnswerDecoder(text)
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case "events":
				results = d.published()
			case "durability":
				s, _ := d.string(string(millrace.Durable))
				level = millrace.Durability(s)
			default:
				d.skip()
			}
		}
	}
	return results, level, d.finish()
}

func (d *decoder) published() []millrace.Published {
	if !d.array() {
		return nil
	}
	list := []millrace.Published{}
	for d.more() {
		list = append(list, d.publishedEvent())
	}
	return list
}

func (d *decoder) publishedEvent() (p millrace.Published) {
	if !d.object() {
		return p
	}
	for d.next() {
		switch string(d.name) {
		case "id":
			p.ID, _ = d.string("")
		case "seq":
			p.Seq = d.unsigned()
		case "prev":
			p.Prev, p.HasKey = d.unsigned(), true
		case "duplicate":
			p.Duplicate = d.bool()
		case "sinks":
			p.Sinks = int(d.unsigned())
		case "due_at":
			p.DueAt = d.time()
		case "error":
			code, _ := d.string("")
			p.Err = &millrace.Error{Code: millrace.Code(code)}
		default:
			d.skip()
		}
	}
	return p
}
