package api

import (
	"bytes"

	"github.com/millrace-dev/millrace"
)

// DecodeLease reads the body of a lease; no body asks for the defaults.
func DecodeLease(body []byte) (o millrace.LeaseOptions, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return o, nil
	}
	d := newDecoder(body)
	if d.object() {
		for d.next() {
			d.leaseMember(&o)
		}
	}
	return o, d.finish()
}

func (d *decoder) leaseMember(o *millrace.LeaseOptions) {
	switch string(d.name) {
	case "max":
		n, _ := d.integer(1, millrace.MaxLeaseCount)
		o.Max = int(n)
	case "wait":
		o.Wait, _ = d.duration(0, millrace.MaxWait)
	case "lease":
		v, ok := d.duration(0, millrace.MaxLease)
		switch {
		case ok && v == 0:
			d.fault(notAvailable)
		case ok && v < millrace.MinLease:
			d.fault("must be at least " + FormatDuration(millrace.MinLease))
		}
		o.Lease = v
	case "consumer":
		if s, ok := d.given(""); ok {
			if m := millrace.TextFault(s, millrace.MaxIDLen); m != "" {
				d.fault(m)
			}
		}
	default:
		d.skip()
	}
}

// AppendLease writes the body of a lease.
func AppendLease(b []byte, o millrace.LeaseOptions) []byte {
	b = append(b, '{')
	if o.Max != 0 {
		b = appendIntField(b, "max", int64(o.Max))
	}
	if o.Wait != 0 {
		b = appendDurationField(b, "wait", o.Wait)
	}
	if o.Lease != 0 {
		b = appendDurationField(b, "lease", o.Lease)
	}
	return append(b, '}')
}

// AppendMessages writes the answer to a lease.
func AppendMessages(b []byte, messages []millrace.Message) []byte {
	b = appendList(appendName(append(b, '{'), "messages"), messages, appendMessage)
	return append(b, '}')
}

func appendMessage(b []byte, m *millrace.Message) []byte {
	b = appendTextField(append(b, '{'), "id", m.ID)
	b = appendTextField(b, "queue", m.Queue)
	b = appendTextField(b, "receipt", m.Receipt)
	b = appendIntField(b, "attempt", int64(m.Attempt))
	b = appendTime(appendName(b, "leased_until"), m.LeasedUntil)
	b = AppendEvent(appendName(b, "event"), &m.Event)
	return append(b, '}')
}

// DecodeMessages reads the answer to a lease. The events' data is a part of text.
func DecodeMessages(text []byte) ([]millrace.Message, error) {
	d := newAnswerDecoder(text)
	list := []millrace.Message{}
	if d.object() {
		for d.next() {
			if string(d.name) == "messages" {
				list = d.messages()
			} else {
				d.skip()
			}
		}
	}
	return list, d.finish()
}

func (d *decoder) messages() []millrace.Message {
	list := []millrace.Message{}
	if !d.array() {
		return list
	}
	like := &millrace.Message{}
	for d.more() {
		list = append(list, d.message(like))
		like = &list[len(list)-1]
	}
	return list
}

func (d *decoder) message(like *millrace.Message) (m millrace.Message) {
	if !d.object() {
		return m
	}
	for d.next() {
		switch string(d.name) {
		case "id":
			m.ID, _ = d.string("")
		case "queue":
			m.Queue, _ = d.string(like.Queue)
		case "receipt":
			m.Receipt, _ = d.string("")
		case "attempt":
			m.Attempt = int(d.unsigned())
		case "leased_until":
			m.LeasedUntil, _ = d.time()
		case "event":
			m.Event = d.event(&like.Event)
		default:
			d.skip()
		}
	}
	return m
}
