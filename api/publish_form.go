package api

import (
	"mime"
	"net/http"
	"strings"

	"github.com/millrace-dev/millrace"
)

// PublishForm is how a publish is written.
type PublishForm int

// The forms of a publish.
const (
	EventsForm     PublishForm = iota // our own JSON: one event or an array
	BinaryForm                        // one CloudEvent: attributes in the headers, data in the body
	StructuredForm                    // one CloudEvent as a JSON object
	BatchForm                         // CloudEvents as a JSON array
)

// PublishFormOf is the form that the headers of a publish announce, or
// CodeUnsupportedMedia. The content type decides; headers that begin with ce-
// mean the binary form.
func PublishFormOf(h http.Header) (PublishForm, error) {
	attributes := len(attributeHeaders(h)) > 0
	if h.Get("Content-Type") == millrace.JSONContentType && !attributes {
		return EventsForm, nil // nearly every publish
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	form := EventsForm
	switch {
	case kind == CloudEventType:
		form = StructuredForm
	case kind == CloudEventBatchType:
		form = BatchForm
	case strings.HasPrefix(kind, "application/cloudevents"):
		return form, millrace.Errorf(millrace.CodeUnsupportedMedia, "CloudEvents must come as %s, %s or with ce- headers", CloudEventType, CloudEventBatchType)
	case attributes:
		form = BinaryForm
	}
	if form == BinaryForm && !millrace.IsJSON(kind) {
		return form, nil
	}
	charset := params["charset"]
	badCharset := charset != "" && !strings.EqualFold(charset, "utf-8")
	if badCharset || (form != BinaryForm && (err != nil || (form == EventsForm && kind != millrace.JSONContentType))) {
		return form, millrace.Errorf(millrace.CodeUnsupportedMedia, "a publish must have the Content-Type application/json, or be a CloudEvent")
	}
	return form, nil
}
