package api

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

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
		o.AtMostOnce = ok && v == 0
		if v != 0 && v < millrace.MinLease {
			d.fault("must be 0s or at least " + FormatDuration(millrace.MinLease))
		}
		o.Lease = v
	case "consumer":
		o.Consumer = d.nameValue()
	default:
		d.skip()
	}
}

// nameValue reads a name.
func (d *decoder) nameValue() string {
	s, ok := d.string("")
	if !ok {
		return ""
	}
	if m := millrace.NameFault(s); m != "" {
		d.fault(m)
	}
	return s
}

// DecodeLeaseAny reads the body of a lease over several queues with their weights.
func DecodeLeaseAny(body []byte) (weights map[string]int, o millrace.LeaseOptions, err error) {
	d := newDecoder(body)
	if d.object() {
		found := false
		for d.next() {
			if string(d.name) == "queues" {
				found = true
				weights = d.weights()
			} else {
				d.leaseMember(&o)
			}
		}
		if !found {
			d.missing("queues")
		}
	}
	return weights, o, d.finish()
}

// maxLeaseQueues is how many queues one lease may name.
const maxLeaseQueues = 1000

// weights reads an object of queues' names with the weight of each.
func (d *decoder) weights() map[string]int {
	weights := map[string]int{}
	if !d.object() {
		return weights
	}
	count := 0
	for ; d.next(); count++ {
		if count >= maxLeaseQueues {
			d.value()
			continue
		}
		name := string(d.name)
		n, _ := d.integer(1, millrace.MaxWeight)
		if m := millrace.NameFault(name); m != "" {
			d.fault("must name queues: a name " + m)
		}
		weights[name] = int(n)
	}
	if count == 0 || count > maxLeaseQueues {
		d.fault("must hold 1 to " + strconv.Itoa(maxLeaseQueues) + " queues")
	}
	return weights
}

// AppendLease writes the body of a lease.
func AppendLease(b []byte, o millrace.LeaseOptions) []byte {
	return append(appendLeaseOptions(append(b, '{'), o), '}')
}

// AppendLeaseAny writes the body of a lease over several queues.
func AppendLeaseAny(b []byte, weights map[string]int, o millrace.LeaseOptions) []byte {
	b = append(appendName(append(b, '{'), "queues"), '{')
	for i, name := range slices.Sorted(maps.Keys(weights)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		b = strconv.AppendInt(b, int64(weights[name]), 10)
	}
	return append(appendLeaseOptions(append(b, '}'), o), '}')
}

func appendLeaseOptions(b []byte, o millrace.LeaseOptions) []byte {
	if o.Max != 0 {
		b = appendIntField(b, "max", int64(o.Max))
	}
	if o.Wait != 0 {
		b = appendDurationField(b, "wait", o.Wait)
	}
	switch {
	case o.AtMostOnce:
		b = appendDurationField(b, "lease", 0)
	case o.Lease != 0:
		b = appendDurationField(b, "lease", o.Lease)
	}
	if o.Consumer != "" {
		b = appendTextField(b, "consumer", o.Consumer)
	}
	return b
}

// AppendMessages writes the answer to a lease.
func AppendMessages(b []byte, messages []millrace.Message) []byte {
	b = appendList(appendName(append(b, '{'), "messages"), messages, appendMessage)
	return append(b, '}')
}

func appendMessage(b []byte, m *millrace.Message) []byte {
	b = appendTextField(append(b, '{'), "id", m.ID)
	b = appendTextField(b, "queue", m.Queue)
	if m.Receipt != "" { // a message given at most once has none, and no lease that ends
		b = appendTextField(b, "receipt", m.Receipt)
	}
	b = appendIntField(b, "attempt", int64(m.Attempt))
	if m.Receipt != "" {
		b = appendTime(appendName(b, "leased_until"), m.LeasedUntil)
	}
	if m.Operation != "" {
		b = appendTextField(b, "operation", m.Operation)
	}
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
			m.LeasedUntil = d.time()
		case "operation":
			m.Operation, _ = d.string("")
		case "event":
			m.Event = d.event(&like.Event)
		default:
			d.skip()
		}
	}
	return m
}
