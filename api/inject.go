package api

import (
	"strconv"

	"github.com/millrace-dev/millrace"
)

// DecodeInject reads events as they were stored, to be put into one sink. An
// event that does not say when it was recorded was recorded at its own time; one
// that has a key and no prev is in no key's chain.
// The events' data is a part of body.
func DecodeInject(body []byte) ([]millrace.Event, error) {
	d := newDecoder(body)
	var events []millrace.Event
	if d.object() {
		found := false
		for d.next() {
			if string(d.name) == "events" {
				found = true
				events = d.storedEvents()
			} else {
				d.skip()
			}
		}
		if !found {
			d.missing("events")
		}
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	return events, nil
}

func (d *decoder) storedEvents() []millrace.Event {
	if !d.array() {
		return nil
	}
	events := []millrace.Event{}
	like := &millrace.Event{}
	count := 0
	for ; d.more(); count++ {
		if count >= millrace.MaxEvents {
			d.value()
			continue
		}
		events = append(events, d.storedEvent(like))
		like = &events[count]
	}
	if count == 0 || count > millrace.MaxEvents {
		d.fault("must hold 1 to " + strconv.Itoa(millrace.MaxEvents) + " events")
	}
	return events
}

// storedEvent reads one event of a request and checks it.
func (d *decoder) storedEvent(like *millrace.Event) (e millrace.Event) {
	from := len(d.faults)
	if !d.object() {
		return e
	}
	given := map[string]bool{}
	for d.next() {
		given[string(d.name)] = true
		d.eventMember(&e, like)
	}
	if d.broken != nil {
		return e
	}
	d.checkStored(&e, given, from)
	if e.Tenant == "" {
		e.Tenant = millrace.DefaultTenant
	}
	e.Unchained = e.Key != "" && !given["prev"]
	if e.RecordedAt.IsZero() {
		e.RecordedAt = e.Time
	}
	return e
}

// checkStored finds what is wrong with an event that should have all its stamps.
func (d *decoder) checkStored(e *millrace.Event, given map[string]bool, from int) {
	at := d.here()
	for _, name := range []string{"id", "topic", "type", "time", "seq"} {
		if !given[name] {
			d.faultAt(at+"."+name, "is required")
		}
	}
	if given["seq"] && e.Seq == 0 && !d.has(from, at+".seq") {
		d.faultAt(at+".seq", "must be at least 1")
	}
	if given["prev"] && !given["key"] {
		d.faultAt(at+".prev", "must not be given without a key")
	}
	if y := e.RecordedAt.Year(); y < 1 || y > 9999 {
		d.faultAt(at+".recorded_at", "must lie in the years 1 to 9999")
	}
	d.checkData(e, given["data"], given["data_base64"])
	d.checkEvent(e, from)
}

// AppendInject writes events as they were stored, to be put into one sink.
func AppendInject(b []byte, events []millrace.Event) []byte {
	b = appendList(appendName(append(b, '{'), "events"), events, AppendEvent)
	return append(b, '}')
}

// AppendInjected writes how many events were put into the sink.
func AppendInjected(b []byte, n int) []byte {
	return append(appendIntField(append(b, '{'), "injected", int64(n)), '}')
}

// DecodeInjected reads how many events were put into the sink.
func DecodeInjected(text []byte) (int, error) { return decodeNumber(text, "injected") }
