package api

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-dev/millrace"
)

// AppendPush writes the body of a batch in a format, and says its content type.
func AppendPush(b []byte, format millrace.BodyFormat, events []millrace.Event) (body []byte, contentType string) {
	if format == millrace.FormatCloudEvents {
		return appendList(b, events, AppendCloudEvent), CloudEventBatchType
	}
	return appendList(b, events, AppendEvent), millrace.JSONContentType
}

// AppendCloudEvent writes an event as a CloudEvent in JSON. What Millrace knows
// beyond CloudEvents are extensions, as texts: an Integer of CloudEvents has 32 bits.
// A partitionkey that the publisher gave beside the subject stays.
func AppendCloudEvent(b []byte, e *millrace.Event) []byte {
	b = appendTextField(append(b, '{'), "specversion", "1.0")
	b = appendTextField(b, "id", e.ID)
	b = appendTextField(b, "source", cloudSource(e))
	b = appendTextField(b, "type", e.Type)
	if e.Key != "" {
		b = appendTextField(b, "subject", e.Key)
		b = appendTextField(b, "partitionkey", cmp.Or(e.Attributes["partitionkey"], e.Key))
	}
	if e.Key != "" && !e.Unchained {
		b = appendTextField(b, "previd", strconv.FormatUint(e.Prev, 10))
	}
	b = appendTime(appendName(b, "time"), e.Time)
	b = appendTime(appendName(b, "recordedtime"), e.RecordedAt)
	b = appendTextField(b, "topic", e.Topic)
	b = appendTextField(b, "tenant", e.Tenant)
	b = appendTextField(b, "seq", strconv.FormatUint(e.Seq, 10))
	b = appendCloudExtensions(b, e.Attributes)
	if schema := e.Attributes["dataschema"]; isURI(schema) {
		b = appendTextField(b, "dataschema", schema)
	}
	b = appendTextField(b, "datacontenttype", contentType(e))
	if e.IsJSON() && len(e.Data) == 0 {
		return append(b, '}')
	}
	return append(appendData(b, e), '}')
}

// cloudSource is where an event comes from: what its publisher said, or its topic.
func cloudSource(e *millrace.Event) string {
	if s := e.Source(); s != "" {
		return s
	}
	return "/topics/" + e.Topic
}

// appendCloudExtensions writes the attributes that can be extensions: letters and
// digits only, and no name that is taken.
func appendCloudExtensions(b []byte, attributes map[string]string) []byte {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if isExtension(name) {
			b = appendTextField(b, name, attributes[name])
		}
	}
	return b
}

func isExtension(name string) bool {
	switch name {
	case "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data",
		"partitionkey", "previd", "recordedtime", "topic", "tenant", "seq":
		return false
	}
	return !strings.Contains(name, "_")
}
