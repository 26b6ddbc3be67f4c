package api

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// fill repeats a text up to the limit of a request.
func fill(before, each, after string) []byte {
	n := (millrace.MaxRequestSize - len(before) - len(after)) / len(each)
	return []byte(before + strings.Repeat(each, n) + after)
}

func TestTheWorstRequestIsRefusedInATimeThatGrowsWithItsSize(t *testing.T) {
	for name, decode := range map[string]func() error{
		"receipts": func() error { _, err := DecodeSettle(fill(`{"receipts":["b"`, `,"a"`, `]}`), Ack); return err },
		"items":    func() error { _, err := DecodeSettle(fill(`{"items":[{}`, `,{}`, `]}`), Ack); return err },
		"events":   func() error { _, err := DecodePublish(fill(`[{}`, `,{}`, `]`), PublishPath{Topic: "t"}); return err },
		"numbers":  func() error { _, err := DecodePublish(fill(`[1`, `,1`, `]`), PublishPath{Topic: "t"}); return err },
		"members": func() error {
			_, err := DecodePublish([]byte(`{"a":1`+unknownMembers(300000)+`}`), PublishPath{Topic: "t"})
			return err
		},
		"attributes": func() error {
			_, err := DecodePublish([]byte(`{"type":"t","attributes":{"a":0`+unknownMembers(300000)+`}}`), PublishPath{Topic: "t"})
			return err
		},
		"extensions": func() error {
			_, err := DecodeCloudEvents(StructuredForm, nil, []byte(`{"a":0`+unknownMembers(300000)+`}`), orders)
			return err
		},
		"batch": func() error {
			_, err := DecodeCloudEvents(BatchForm, nil, fill(`[{}`, `,{"a":{}}`, `]`), orders)
			return err
		},
		"redact": func() error { _, err := DecodeQueueSpec(fill(`{"match":"x","redact":[1`, `,1`, `]}`)); return err },
		"match":  func() error { _, err := DecodeQueueSpec(fill(`{"match":"`, `(a*)*`, `"}`)); return err },
		"queues": func() error {
			_, _, err := DecodeLeaseAny([]byte(`{"queues":{"a":0` + unknownMembers(300000) + `}}`))
			return err
		},
		"ids":      func() error { _, err := DecodeRedrive(fill(`{"ids":["a"`, `,"a"`, `]}`)); return err },
		"injected": func() error { _, err := DecodeInject(fill(`{"events":[{}`, `,{}`, `]}`)); return err },
		"quotes": func() error {
			_, err := DecodePublish(fill(`{"type":"`, `\u0041`, `"}`), PublishPath{Topic: "t"})
			return err
		},
	} {
		start := time.Now()
		if err := decode(); millrace.CodeOf(err) != millrace.CodeInvalid {
			t.Errorf("%s: %v", name, millrace.CodeOf(err))
		}
		if took := time.Since(start); took > time.Minute { // what grows with the square takes much longer, also on a machine at rest
			t.Errorf("%s took %s", name, took)
		} else {
			t.Logf("%s took %s", name, took)
		}
	}
}
