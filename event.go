package millrace

import (
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// DefaultTenant is the tenant of an event that names none.
const DefaultTenant = "default"

// JSONContentType is the content type of an event that names none.
const JSONContentType = "application/json"

// Event is an immutable fact. A publisher fills in what it knows; on commit the
// store stamps RecordedAt, Seq and Prev.
type Event struct {
	ID          string // unique within tenant, topic, source and key; made if empty
	Topic       string
	Type        string
	Tenant      string // whose event it is, the unit of fairness; DefaultTenant if empty
	Key         string // the object it is about, the unit of order; may be empty
	Time        time.Time
	ContentType string // JSONContentType if empty
	Data        []byte // JSON text if the content type is JSON, else any bytes; may be nil. What comes from a broker must not be changed: its store may share it
	Attributes  map[string]string

	// How it is to be published; at most one of them. They are not stored.
	Delay     time.Duration // from now
	DeliverAt time.Time

	RecordedAt time.Time
	Seq        uint64
	Prev       uint64 // the Seq of the key's event before; 0 for the first
	Unchained  bool   // though it may have a key it stands in no key's chain and has no Prev: it is an operation's
}

// Address is the text that patterns match: tenant:topic:type.
func (e *Event) Address() string { return Address(e.Tenant, e.Topic, e.Type) }

// Address is the text that patterns match: tenant:topic:type.
func Address(tenant, topic, typ string) string { return tenant + ":" + topic + ":" + typ }

// Source is the CloudEvents source of the event, part of what its id is compared within.
func (e *Event) Source() string { return e.Attributes["source"] }

// Faults lists what is wrong with an event as a publisher gives it, each
// located below the given prefix, such as "body[3]".
func (e *Event) Faults(at string) []Fault {
	f := faults{at: at}
	f.text("id", e.ID, MaxIDLen)
	f.name("topic", e.Topic)
	f.name("type", e.Type)
	if e.Tenant != "" {
		f.name("tenant", e.Tenant)
	}
	f.text("key", e.Key, MaxKeyLen)
	if e.Topic == SystemTopic {
		f.add("topic", "is reserved")
	}
	if y := e.Time.Year(); !e.Time.IsZero() && (y < 1 || y > 9999) {
		f.add("time", "must lie in the years 1 to 9999")
	}
	f.delay(e)
	f.contentType(e.ContentType)
	f.attributes(e.Attributes)
	if len(e.Data) > 0 && e.IsJSON() && !jsontext.Value(e.Data).IsValid(jsontext.AllowDuplicateNames(true)) {
		f.add("data", "must be JSON, as the content type says")
	}
	if n := e.Size(); n > MaxEventSize {
		f.add("data", "makes the event larger than "+strconv.Itoa(MaxEventSize)+" bytes")
	}
	return f.list
}

// SystemTopic is the topic of the store's own events; publishers may not use it.
const SystemTopic = "millrace"

// Size is the number of bytes that count against MaxEventSize.
func (e *Event) Size() int {
	n := len(e.ID) + len(e.Topic) + len(e.Type) + len(e.Tenant) + len(e.Key) + len(e.ContentType) + len(e.Data)
	for k, v := range e.Attributes {
		n += len(k) + len(v)
	}
	return n
}

// IsJSON reports whether the event's data is JSON text.
func (e *Event) IsJSON() bool { return IsJSON(e.ContentType) }

// IsJSON reports whether a content type means JSON text: application/json, any
// type that ends in +json, or none.
func IsJSON(contentType string) bool {
	if contentType == "" || contentType == JSONContentType {
		return true
	}
	t, _, _ := strings.Cut(contentType, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	return t == JSONContentType || t == "text/json" || strings.HasSuffix(t, "+json")
}

// faults gathers what is wrong with one object.
type faults struct {
	at   string
	list []Fault
}

func (f *faults) add(field, message string) {
	if f.at != "" && field != "" {
		field = f.at + "." + field
	}
	if field == "" {
		field = f.at
	}
	f.list = append(f.list, Fault{Location: field, Message: message})
}

// below is the location of a member.
func (f *faults) below(field string) string {
	if f.at == "" {
		return field
	}
	return f.at + "." + field
}

func (f *faults) delay(e *Event) {
	switch {
	case e.Delay != 0 && !e.DeliverAt.IsZero():
		f.add("deliver_at", "must not stand beside delay")
	case e.Delay < 0 || e.Delay > MaxEventDelay:
		f.add("delay", "must be between 0s and "+MaxEventDelay.String())
	}
}

func (f *faults) name(field, s string) {
	if m := NameFault(s); m != "" {
		f.add(field, m)
	}
}

func (f *faults) text(field, s string, limit int) {
	if m := TextFault(s, limit); m != "" {
		f.add(field, m)
	}
}

func (f *faults) contentType(s string) {
	if s == "" || s == JSONContentType {
		return
	}
	if m := TextFault(s, 256); m != "" {
		f.add("content_type", m)
	} else if _, _, err := mime.ParseMediaType(s); err != nil {
		f.add("content_type", "must be a media type")
	}
}

func (f *faults) attributes(attrs map[string]string) {
	if len(attrs) > MaxAttributes {
		f.add("attributes", "must be at most "+strconv.Itoa(MaxAttributes))
		return
	}
	for name, value := range attrs {
		if !attributeName(name) {
			f.add("attributes", "must have names of 1 to 64 of a-z, 0-9 and '_'")
			return
		}
		if m := TextFault(value, MaxAttrValue); m != "" {
			f.add("attributes."+name, m)
		}
	}
}

func attributeName(s string) bool {
	if s == "" || len(s) > MaxAttrName {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
