package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// source is a document's text and where its parts stand.
type source struct {
	name  string         // of the file
	lines map[string]int // of each member, by its location; nil if not known
	given []string       // the kinds of definitions that it speaks of, if only to say that there are none
}

// names reports whether the document speaks of a kind of definitions.
func (s *source) names(kind string) bool { return slices.Contains(s.given, kind) }

// readDocument reads definitions from YAML or, if it begins with a brace, JSON.
func readDocument(name string, content []byte) (millrace.Document, *source, error) {
	src := &source{name: name}
	if len(content) > millrace.MaxRequestSize {
		return millrace.Document{}, src, fmt.Errorf("%s: a document must be at most %d bytes", name, millrace.MaxRequestSize)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		src.lines = map[string]int{}
		var err error
		if content, err = src.toJSON(content); err != nil {
			return millrace.Document{}, src, fmt.Errorf("%s: %w", name, err)
		}
	}
	doc, err := api.DecodeDocument(content)
	if err == nil {
		src.given, err = members(content)
	}
	return doc, src, src.explain(err)
}

// members are the names of a JSON object's members.
func members(object []byte) ([]string, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, fmt.Errorf("read the document's kinds: %w", err)
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// explain says of every fault where in the file it is.
func (s *source) explain(err error) error {
	var e *millrace.Error
	if !errors.As(err, &e) || len(e.Faults) == 0 {
		return err
	}
	list := []error{fmt.Errorf("%s is refused, and nothing is changed", s.name)}
	for _, f := range e.Faults {
		where := strings.TrimPrefix(strings.TrimPrefix(f.Location, "body"), ".")
		at := s.name + s.line(f.Location) + ": "
		if where != "" {
			at += where + " "
		}
		list = append(list, errors.New(at+f.Message))
	}
	return errors.Join(list...)
}

// line is the line of a location, or of the nearest thing around it that has one.
func (s *source) line(location string) string {
	location = "body" + strings.TrimPrefix("."+strings.TrimPrefix(strings.TrimPrefix(location, "body"), "."), "..")
	for location != "" && s.lines != nil {
		if n, ok := s.lines[strings.TrimSuffix(location, ".")]; ok {
			return ":" + strconv.Itoa(n)
		}
		location = location[:max(0, strings.LastIndexByte(location, '.'))]
	}
	return ""
}

// toJSON writes a YAML document as JSON, and notes the lines of its members.
func (s *source) toJSON(content []byte) ([]byte, error) {
	var root yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(content))
	if err := dec.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return []byte("{}"), nil
		}
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be one YAML document, with nothing after it")
	}
	w := &jsonWriter{source: s}
	if err := w.write(&root, "body", 0); err != nil {
		return nil, err
	}
	return w.Bytes(), nil
}

// jsonWriter writes YAML as JSON. What aliases unfold to counts: a small file
// must not become a large document.
type jsonWriter struct {
	bytes.Buffer
	source *source
}

func (w *jsonWriter) write(n *yaml.Node, at string, depth int) error {
	switch {
	case w.Len() > millrace.MaxRequestSize:
		return fmt.Errorf("line %d: with its aliases unfolded, a document must be at most %d bytes", n.Line, millrace.MaxRequestSize)
	case depth > api.MaxDepth:
		return fmt.Errorf("line %d: nests deeper than %d", n.Line, api.MaxDepth)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return w.write(n.Content[0], at, depth)
	case yaml.AliasNode:
		return w.write(n.Alias, at, depth+1)
	case yaml.MappingNode:
		return w.object(n, at, depth)
	case yaml.SequenceNode:
		return w.array(n, at, depth)
	}
	return w.scalar(n)
}

func (w *jsonWriter) object(n *yaml.Node, at string, depth int) error {
	seen := map[string]int{}
	w.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch first, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: a name must be a text", key.Line)
		case key.Tag == "!!merge":
			return fmt.Errorf("line %d: << is not supported: write the members out, or alias a whole value", key.Line)
		case twice:
			return fmt.Errorf("line %d: %s is given twice, first in line %d", key.Line, shown(key.Value), first)
		}
		seen[key.Value] = key.Line
		if i > 0 {
			w.WriteByte(',')
		}
		if err := w.value(key.Value); err != nil {
			return err
		}
		w.WriteByte(':')
		member := at + "." + key.Value
		w.source.lines[member] = key.Line
		if err := w.write(n.Content[i+1], member, depth+1); err != nil {
			return err
		}
	}
	w.WriteByte('}')
	return nil
}

func (w *jsonWriter) array(n *yaml.Node, at string, depth int) error {
	w.WriteByte('[')
	for i, element := range n.Content {
		if i > 0 {
			w.WriteByte(',')
		}
		if err := w.write(element, at, depth+1); err != nil {
			return err
		}
	}
	w.WriteByte(']')
	return nil
}

func (w *jsonWriter) scalar(n *yaml.Node) error {
	var v any
	if tag := n.ShortTag(); (tag == "!!int" || tag == "!!float") && json.Valid([]byte(n.Value)) {
		w.WriteString(n.Value) // a number as JSON writes it stays as it was written
		return nil
	}
	switch n.ShortTag() {
	case "!!int":
		v = new(int64)
	case "!!float":
		v = new(float64)
	case "!!bool":
		v = new(bool)
	case "!!null":
	default:
		return w.value(n.Value)
	}
	if v != nil {
		if err := n.Decode(v); err != nil {
			return fmt.Errorf("line %d: is a number that is too large", n.Line)
		}
	}
	if err := w.value(v); err != nil {
		return fmt.Errorf("line %d: cannot be written as JSON", n.Line)
	}
	return nil
}

func (w *jsonWriter) value(v any) error {
	text, err := json.Marshal(v)
	w.Write(text)
	return err
}

// toYAML writes a JSON document as YAML, its members in the same order.
func toYAML(content []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.UseNumber()
	node, err := yamlNode(dec)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(node), enc.Close()); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return b.Bytes(), nil
}

// yamlNode is the next value of a JSON text.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return yamlScalar(token), nil
	}
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if delim == '[' {
		n = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	}
	for dec.More() {
		child, err := yamlNode(dec)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	_, err = dec.Token() // the end of it
	return n, err
}

// yamlScalar is a value that holds no others; the encoder quotes what must be.
func yamlScalar(token json.Token) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	switch v := token.(type) {
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Number:
		n.Tag, n.Value = "!!int", v.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(v)
	}
	return n
}
