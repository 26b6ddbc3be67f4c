package api

import (
	"bytes"
	"strings"

	"github.com/millrace-dev/millrace"
)

// TriggerPath is where a trigger is called, by its secret.
func TriggerPath(secret string) string { return triggerPath + secret }

const triggerPath = "/t/"

// DecodeTriggerSpec reads a trigger's definition. What it leaves out has its default.
func DecodeTriggerSpec(body []byte) (millrace.TriggerSpec, error) {
	d := newDecoder(body)
	spec := d.triggerSpec()
	return spec, d.finish()
}

func (d *decoder) triggerSpec() millrace.TriggerSpec {
	spec := millrace.DefaultTriggerSpec()
	if !d.object() {
		return spec
	}
	for d.next() {
		if !d.triggerMember(&spec) {
			d.skip()
		}
	}
	if d.broken == nil && d.strict {
		d.merge(0, spec.Faults(d.root))
	}
	return spec
}

// triggerMember reads a member of a trigger's definition, if it is one.
func (d *decoder) triggerMember(t *millrace.TriggerSpec) bool {
	switch string(d.name) {
	case "event":
		e := d.triggerEvent()
		t.Event = &e
	case "operation":
		r := d.operationRequest()
		t.Operation = &r
	case "per_minute":
		d.limit(&t.PerMinute)
	case "enabled":
		t.Enabled = d.bool()
	default:
		return false
	}
	return true
}

func (d *decoder) triggerEvent() (e millrace.TriggerEvent) {
	if !d.object() {
		return e
	}
	topic, typ := false, false
	for d.next() {
		switch string(d.name) {
		case "topic":
			e.Topic, _ = d.string("")
			topic = true
		case "type":
			e.Type, _ = d.string("")
			typ = true
		case "tenant":
			e.Tenant, _ = d.word("")
		case "key":
			e.Key, _ = d.word("")
		default:
			d.triggerContent(&e)
		}
	}
	if d.strict && !topic {
		d.missing("topic")
	}
	if d.strict && !typ {
		d.missing("type")
	}
	return e
}

func (d *decoder) triggerContent(e *millrace.TriggerEvent) {
	switch string(d.name) {
	case "content_type":
		e.ContentType, _ = d.word("")
	case "data":
		e.Data, _ = d.data()
	case "attributes":
		e.Attributes = d.attributes()
	case "delay":
		e.Delay, _ = d.duration(0, millrace.MaxEventDelay)
	default:
		d.skip()
	}
}

// AppendTriggerSpec writes a trigger's definition.
func AppendTriggerSpec(b []byte, t *millrace.TriggerSpec) []byte {
	b = appendTriggerDoes(append(b, '{'), t)
	b = appendIntField(b, "per_minute", int64(t.PerMinute))
	return append(appendBoolField(b, "enabled", t.Enabled), '}')
}

// appendTriggerDoes writes what a trigger does.
func appendTriggerDoes(b []byte, t *millrace.TriggerSpec) []byte {
	if t.Event != nil {
		b = appendTriggerEvent(appendName(b, "event"), t.Event)
	}
	if t.Operation != nil {
		b = AppendOperationRequest(appendName(b, "operation"), t.Operation)
	}
	return b
}

func appendTriggerEvent(b []byte, e *millrace.TriggerEvent) []byte {
	b = appendTextField(append(b, '{'), "topic", e.Topic)
	b = appendTextField(b, "type", e.Type)
	if e.Tenant != "" {
		b = appendTextField(b, "tenant", e.Tenant)
	}
	if e.Key != "" {
		b = appendTextField(b, "key", e.Key)
	}
	if e.ContentType != "" {
		b = appendTextField(b, "content_type", e.ContentType)
	}
	if len(e.Data) > 0 {
		b = append(appendName(b, "data"), e.Data...)
	}
	if len(e.Attributes) > 0 {
		b = appendStringMap(appendName(b, "attributes"), e.Attributes)
	}
	if e.Delay != 0 {
		b = appendDurationField(b, "delay", e.Delay)
	}
	return append(b, '}')
}

// AppendTrigger writes a trigger and how often it was called. Its URL is there if its secret was just made.
func AppendTrigger(b []byte, t *millrace.Trigger) []byte {
	b = appendTextField(append(b, '{'), "name", t.Name)
	b = appendUintField(b, "version", t.Version)
	b = appendBoolField(b, "enabled", t.Spec.Enabled)
	b = appendIntField(b, "per_minute", int64(t.Spec.PerMinute))
	b = appendIntField(b, "fired", t.Fired)
	b = appendTimeOrNull(appendName(b, "last_at"), t.LastAt)
	if t.Secret != "" {
		b = appendTextField(b, "url", TriggerPath(t.Secret))
	}
	return append(appendTriggerDoes(b, &t.Spec), '}')
}

// DecodeTrigger reads a trigger.
func DecodeTrigger(text []byte) (millrace.Trigger, error) {
	d := newAnswerDecoder(text)
	t := d.trigger()
	return t, d.finish()
}

// AppendTriggers writes a page of triggers.
func AppendTriggers(b []byte, list []millrace.Trigger, next string) []byte {
	return appendPage(b, "triggers", list, next, AppendTrigger)
}

// DecodeTriggers reads a page of triggers.
func DecodeTriggers(text []byte) ([]millrace.Trigger, string, error) {
	return decodePage(text, "triggers", (*decoder).trigger)
}

func (d *decoder) trigger() (t millrace.Trigger) {
	if !d.object() {
		return t
	}
	for d.next() {
		switch string(d.name) {
		case "name":
			t.Name, _ = d.string("")
		case "version":
			t.Version = d.unsigned()
		case "fired":
			t.Fired, _ = d.integer(0, maxInteger)
		case "last_at":
			t.LastAt = d.timeOrNull()
		case "url":
			url, _ := d.string("")
			t.Secret = strings.TrimPrefix(url, triggerPath)
		default:
			if !d.triggerMember(&t.Spec) {
				d.skip()
			}
		}
	}
	return t
}

// DecodeTriggerCall reads what a trigger is called with: any JSON, or nothing.
func DecodeTriggerCall(body []byte) ([]byte, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil, nil
	}
	d := newDecoder(body)
	request, _ := d.value()
	return request, d.finish()
}

// AppendTriggerResult writes what a trigger did.
func AppendTriggerResult(b []byte, r *millrace.TriggerResult) []byte {
	b = append(b, '{')
	if r.Operation != nil {
		b = AppendStarted(appendName(b, "operation"), r.Operation)
	}
	if r.Event != nil {
		b = appendPublishedEvent(appendName(b, "event"), r.Event)
	}
	return append(b, '}')
}

// DecodeTriggerResult reads what a trigger did.
func DecodeTriggerResult(text []byte) (r millrace.TriggerResult, err error) {
	d := newAnswerDecoder(text)
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case "operation":
				s := d.started()
				r.Operation = &s
			case "event":
				p := d.publishedEvent()
				r.Event = &p
			default:
				d.skip()
			}
		}
	}
	return r, d.finish()
}
