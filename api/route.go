package api

import "github.com/millrace-dev/millrace"

// AppendRoute writes what an address would reach.
func AppendRoute(b []byte, r *millrace.Route) []byte {
	b = appendTextField(append(b, '{'), "address", r.Address)
	b = appendList(appendName(b, "sinks"), r.Sinks, appendSink)
	return append(b, '}')
}

func appendSink(b []byte, s *millrace.Sink) []byte {
	b = appendTextField(append(b, '{'), "kind", string(s.Kind))
	b = appendTextField(b, "name", s.Name)
	b = appendTextField(b, "match", s.Match)
	b = appendTextField(b, "state", s.State)
	return append(b, '}')
}

// DecodeRoute reads what an address would reach.
func DecodeRoute(text []byte) (r millrace.Route, err error) {
	d := newAnswerDecoder(text)
	r.Sinks = []millrace.Sink{}
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case "address":
				r.Address, _ = d.string("")
			case "sinks":
				r.Sinks = readList(d, (*decoder).sink)
			default:
				d.skip()
			}
		}
	}
	return r, d.finish()
}

func (d *decoder) sink() (s millrace.Sink) {
	if !d.object() {
		return s
	}
	for d.next() {
		switch string(d.name) {
		case "kind":
			kind, _ := d.string(string(millrace.KindQueue))
			s.Kind = millrace.Kind(kind)
		case "name":
			s.Name, _ = d.string("")
		case "match":
			s.Match, _ = d.string("")
		case "state":
			s.State, _ = d.string(millrace.StateActive)
		default:
			d.skip()
		}
	}
	return s
}
