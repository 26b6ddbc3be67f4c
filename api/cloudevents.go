package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace-dev/millrace"
)

// The content types of CloudEvents.
const (
	CloudEventType      = "application/cloudevents+json"
	CloudEventBatchType = "application/cloudevents-batch+json"
)

// DecodeCloudEvents reads a publish of CloudEvents 1.0 in one of their three
// forms, with all its faults at once. The attributes id, type, time and
// datacontenttype are the event's own; subject, or else partitionkey, is its
// key and tenant its tenant; source and the rest become attributes. The events'
// data may be a part of body.
func DecodeCloudEvents(form PublishForm, h http.Header, body []byte, p PublishPath) ([]millrace.Event, error) {
	text := body
	if form == BinaryForm && !millrace.IsJSON(binaryContentType(h, body)) {
		text = nil // it is not JSON, and is taken as it is
	}
	d := newDecoder(text)
	d.publishPath(p)
	var events []millrace.Event
	switch form {
	case BinaryForm:
		events = []millrace.Event{d.binaryEvent(h, body, p)}
	case BatchForm:
		events = d.eventList(func(int) millrace.Event { return d.structuredEvent(p) })
	default:
		events = []millrace.Event{d.structuredEvent(p)}
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	return events, nil
}

// cloudEvent is an event on its way from CloudEvents' attributes to ours.
type cloudEvent struct {
	attributes  map[string]string
	contentType string
	data        []byte
	at          func(attribute string) string // where an attribute stands in the request
	from        int                           // the number of faults before it was read
}

// assemble makes an event of its attributes and checks it.
func (d *decoder) assemble(c *cloudEvent, p PublishPath) millrace.Event {
	d.checkContext(c)
	e := millrace.Event{Topic: p.Topic, ContentType: c.contentType, Data: c.data}
	d.take(c, "specversion")
	e.ID, e.Type, e.Tenant = d.take(c, "id"), d.take(c, "type"), d.take(c, "tenant")
	if at := d.take(c, "time"); at != "" {
		var ok bool
		if e.Time, ok = ParseTime(at); !ok {
			d.faultOnce(c, "time", "must be a time as in RFC 3339")
		}
	}
	key := "subject"
	if _, found := c.attributes[key]; !found {
		key = "partitionkey"
	}
	e.Key = d.take(c, key)
	e.Attributes = c.attributes // source and the rest
	d.checkCloudEvent(c, &e, key)
	return e
}

// take takes an attribute out of the others. It must not be empty.
func (d *decoder) take(c *cloudEvent, name string) string {
	value, found := c.attributes[name]
	if found && value == "" {
		d.faultOnce(c, name, "must not be empty")
	}
	delete(c.attributes, name)
	return value
}

// checkContext finds what is wrong with the attributes that CloudEvents itself defines.
func (d *decoder) checkContext(c *cloudEvent) {
	for _, name := range [...]string{"specversion", "id", "source", "type"} {
		if _, found := c.attributes[name]; !found {
			d.faultOnce(c, name, "is required")
		}
	}
	if v, found := c.attributes["specversion"]; found && v != "1.0" {
		d.faultOnce(c, "specversion", "must be 1.0")
	}
	if v, found := c.attributes["source"]; found {
		if _, err := url.Parse(v); err != nil {
			d.faultOnce(c, "source", "must be a URI reference")
		} else if v == "" {
			d.faultOnce(c, "source", "must not be empty")
		}
	}
	if v, found := c.attributes["dataschema"]; found && !isURI(v) {
		d.faultOnce(c, "dataschema", "must be a URI")
	}
}

// isURI reports whether a text can be a dataschema.
func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs()
}

// checkCloudEvent finds what is wrong with an event's words, and says where in
// the request each of them stands.
func (d *decoder) checkCloudEvent(c *cloudEvent, e *millrace.Event, key string) {
	probe := *e
	probe.Data, probe.Topic = nil, "t" // they are checked already
	if probe.Type == "" {
		probe.Type = "t" // said already
	}
	names := map[string]string{"key": key, "content_type": "datacontenttype"}
	for _, f := range probe.Faults("") {
		name := strings.TrimPrefix(f.Location, "attributes.")
		if ours, found := names[name]; found {
			name = ours
		}
		if name == "attributes" {
			name = ""
			f.Message = "must have at most " + strconv.Itoa(millrace.MaxAttributes) + " attributes"
		}
		d.faultOnce(c, name, f.Message)
	}
	if e.Size() > millrace.MaxEventSize {
		d.faultOnce(c, "", "must be at most "+strconv.Itoa(millrace.MaxEventSize)+" bytes")
	}
}

// faultOnce records what is wrong with an attribute, unless it has a fault already.
func (d *decoder) faultOnce(c *cloudEvent, name, message string) {
	if at := c.at(name); !d.has(c.from, at) {
		d.faultAt(at, message)
	}
}

// structuredEvent reads an event that is one JSON object, its attributes among its members.
func (d *decoder) structuredEvent(p PublishPath) (e millrace.Event) {
	c := cloudEvent{attributes: map[string]string{}, from: len(d.faults)}
	if !d.object() {
		return e
	}
	var plain, encoded []byte
	base64 := false
	for d.next() {
		switch string(d.name) {
		case "data":
			plain, _ = d.data()
		case "data_base64":
			if base64 = !d.null(); base64 {
				encoded = d.base64()
			}
		default:
			d.attribute(&c, string(d.name))
		}
	}
	if d.broken != nil {
		return e
	}
	here := d.here()
	c.at = func(name string) string { return join(here, name) }
	c.contentType = d.take(&c, "datacontenttype")
	switch {
	case plain != nil && base64:
		d.faultOnce(&c, "data_base64", "must not be given with data")
	case base64:
		c.data = d.encodedData(&c, encoded)
	default:
		c.data = d.plainData(&c, plain)
	}
	return d.assemble(&c, p)
}

func join(here, name string) string {
	if name == "" {
		return here
	}
	return here + "." + name
}

// attribute reads one attribute. One that is null is not there.
func (d *decoder) attribute(c *cloudEvent, name string) {
	if d.null() {
		return
	}
	if len(c.attributes) > millrace.MaxAttributes+len(contextAttributes) && !isContextAttribute(name) {
		d.value() // there are too many already
		return
	}
	text, ok := d.attributeText(name)
	switch {
	case d.broken != nil:
	case attributeName(name):
		if ok {
			c.attributes[name] = text
		}
	case tellable(name):
		d.fault(attributeNameFault)
	default:
		d.faultAt(d.parent(), "must have attribute names of 1 to 64 of a-z, 0-9 and '_'")
	}
}

const attributeNameFault = "must have a name of 1 to 64 of a-z, 0-9 and '_'"

// attributeName reports whether an attribute may have a name.
func attributeName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= millrace.MaxAttrName
}

// contextAttributes is the attributes that CloudEvents itself defines.
var contextAttributes = [...]string{"specversion", "id", "source", "type", "datacontenttype", "dataschema", "subject", "time"}

func isContextAttribute(name string) bool { return slices.Contains(contextAttributes[:], name) }

// attributeText reads the value of an attribute as text: a string, or, if it is
// an extension, true, false or an integer of 32 bits.
func (d *decoder) attributeText(name string) (text string, ok bool) {
	raw, ok := d.value()
	if !ok {
		return "", false
	}
	extension := !isContextAttribute(name)
	switch kind := raw[0]; {
	case kind == '"':
		return string(unquote(raw)), true
	case extension && (kind == 't' || kind == 'f'):
		return string(raw), true
	case extension && kind != '{' && kind != '[':
		if n, err := strconv.ParseInt(string(raw), 10, 32); err == nil {
			return strconv.FormatInt(n, 10), true
		}
		d.fault("must be an integer of 32 bits")
	case extension && attributeName(name):
		d.fault("must be a string, true, false or an integer")
	case attributeName(name):
		d.fault("must be a string")
	}
	return "", false
}

// plainData is the data of the member data: JSON text, or of a content type
// that is not JSON the text of a string.
func (d *decoder) plainData(c *cloudEvent, raw []byte) []byte {
	if raw == nil || millrace.IsJSON(c.contentType) {
		return raw
	}
	if raw[0] != '"' {
		d.faultOnce(c, "data", "must be a string, or given as data_base64, because the content type is not JSON")
		return nil
	}
	return unquote(raw)
}

// encodedData is the data of the member data_base64. If the content type is
// JSON it must be that, as strictly as if it were a part of the body.
func (d *decoder) encodedData(c *cloudEvent, bytes []byte) []byte {
	if len(bytes) == 0 || !millrace.IsJSON(c.contentType) {
		return bytes
	}
	inner := newDecoder(bytes)
	raw, _ := inner.data()
	if inner.finish() != nil {
		d.faultOnce(c, "data_base64", "must hold JSON, as the content type says")
	}
	return raw
}

// binaryEvent reads an event whose attributes are headers and whose data is the body.
func (d *decoder) binaryEvent(h http.Header, body []byte, p PublishPath) millrace.Event {
	c := cloudEvent{
		attributes: map[string]string{}, contentType: binaryContentType(h, body), at: headerLocation,
		from: len(d.faults), data: body,
	}
	if len(body) > 0 && millrace.IsJSON(c.contentType) {
		c.data, _ = d.data()
	}
	for _, name := range attributeHeaders(h) {
		d.headerAttribute(&c, name, h)
	}
	return d.assemble(&c, p)
}

// binaryContentType is the content type of a body that may have none: then it is just bytes.
func binaryContentType(h http.Header, body []byte) string {
	if t := h.Get("Content-Type"); t != "" || len(body) == 0 {
		return t
	}
	return "application/octet-stream"
}

// attributeHeaders is the names, sorted, of the headers that are attributes.
func attributeHeaders(h http.Header) (names []string) {
	for name := range h {
		if isAttributeHeader(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func isAttributeHeader(name string) bool { return len(name) > 3 && strings.EqualFold(name[:3], "ce-") }

// headerLocation is where an attribute stands in a request of the binary form.
func headerLocation(attribute string) string {
	switch attribute {
	case "":
		return "body"
	case "datacontenttype":
		return "header.Content-Type"
	}
	return "header.ce-" + attribute
}

// headerAttribute reads the attribute that a header holds.
func (d *decoder) headerAttribute(c *cloudEvent, header string, h http.Header) {
	name := strings.ToLower(header[len("ce-"):])
	switch {
	case !tellable(name):
		d.faultAt("header", "must have attribute names of 1 to 64 of a-z, 0-9 and '_'")
	case !attributeName(name):
		d.faultOnce(c, name, attributeNameFault)
	case name == "datacontenttype":
		d.faultAt("header.ce-datacontenttype", "must be given as the Content-Type")
	case name == "data" || name == "data_base64":
		d.faultOnce(c, name, "must be given as the body")
	case len(h[header]) > 1:
		d.faultOnce(c, name, "is given twice")
		c.attributes[name] = "-" // it is there
	default:
		text, fault := headerText(h[header][0])
		if fault != "" {
			d.faultOnce(c, name, fault)
		}
		c.attributes[name] = text
	}
}

// headerText is the meaning of a header's value: a quoted string is unquoted,
// then every %XX stands for a byte.
func headerText(value string) (text, fault string) {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		value = unescape(value[1 : n-1])
	}
	text, err := url.PathUnescape(value)
	switch {
	case err != nil:
		return "", "must be percent-encoded: a % stands before two hexadecimal digits"
	case !utf8.ValidString(text):
		return "", "must be valid UTF-8"
	}
	return text, ""
}

// unescape takes the backslashes out of a quoted string.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
