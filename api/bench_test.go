package api

import (
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace"
)

// benchEvents are n events whose data is 256 bytes.
func benchEvents(n int) []millrace.Event {
	events := make([]millrace.Event, n)
	for i := range events {
		e := exampleEvent
		e.ID = "01K0A3M8Z6QWERTYUIOP" + strconv.Itoa(i)
		e.Tenant = "tenant-" + strconv.Itoa(i%100)
		e.Key = "order:" + strconv.Itoa(i)
		e.Attributes = nil
		e.Data = []byte(`{"order":` + strconv.Itoa(1000000+i) + `,"state":"paid","lines":[1,2,3],"note":"` + strings.Repeat("x", 194) + `"}`)
		events[i] = e
	}
	return events
}

func BenchmarkDecodePublish(b *testing.B) {
	body := AppendPublish(nil, benchEvents(1000))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodePublish(body, PublishPath{Topic: "orders"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
}

func benchMessages() []millrace.Message {
	events := benchEvents(1000)
	messages := make([]millrace.Message, len(events))
	for i, e := range events {
		messages[i] = millrace.Message{
			ID: millrace.MessageID(uint64(i)), Queue: "emails", Receipt: millrace.Receipt{Name: uint64(i)}.String(),
			Attempt: 1, LeasedUntil: e.Time, Event: e,
		}
	}
	return messages
}

func BenchmarkAppendMessages(b *testing.B) {
	messages := benchMessages()
	buf := AppendMessages(nil, messages)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendMessages(buf[:0], messages)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/message")
}

func BenchmarkDecodeMessages(b *testing.B) {
	text := AppendMessages(nil, benchMessages())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeMessages(text); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/message")
}

func BenchmarkDecodeSettle(b *testing.B) {
	items := make([]millrace.Settlement, 1000)
	for i := range items {
		items[i].Receipt = millrace.Receipt{Name: uint64(i)}.String()
	}
	body := AppendSettle(nil, items)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeSettle(body, Ack); err != nil {
			b.Fatal(err)
		}
	}
}
