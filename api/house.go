package api

import "github.com/millrace-dev/millrace"

// AppendHealth writes the answer of a health check.
func AppendHealth(b []byte, ok bool) []byte {
	return append(appendBoolField(append(b, '{'), "ok", ok), '}')
}

// AppendNodes writes the nodes of a store.
func AppendNodes(b []byte, nodes []millrace.Node) []byte {
	return appendPage(b, "nodes", nodes, "", appendNode)
}

func appendNode(b []byte, n *millrace.Node) []byte {
	b = appendTextField(append(b, '{'), "id", n.ID)
	b = appendTextField(b, "host", n.Host)
	b = appendTextField(b, "version", n.Version)
	b = appendStrings(appendName(b, "roles"), n.Roles)
	b = appendBoolField(b, "leader", false)
	b = appendTime(appendName(b, "started_at"), n.StartedAt)
	b = appendTime(appendName(b, "seen_at"), n.SeenAt)
	return append(b, '}')
}

// DecodeNodes reads the nodes of a store.
func DecodeNodes(text []byte) ([]millrace.Node, error) {
	nodes, _, err := decodePage(text, "nodes", (*decoder).node)
	return nodes, err
}

func (d *decoder) node() (n millrace.Node) {
	if !d.object() {
		return n
	}
	for d.next() {
		switch string(d.name) {
		case "id":
			n.ID, _ = d.string("")
		case "host":
			n.Host, _ = d.string("")
		case "version":
			n.Version, _ = d.string("")
		case "roles":
			n.Roles = d.strings()
		case "started_at":
			n.StartedAt = d.time()
		case "seen_at":
			n.SeenAt = d.time()
		default:
			d.skip()
		}
	}
	return n
}

// laterStats are the parts of the statistics whose nouns are not there yet.
const laterStats = `,"streams":{"records":0,"lag":0,"quarantined":0}`

// AppendStats writes the statistics of a store.
func AppendStats(b []byte, s *millrace.Stats) []byte {
	b = appendTextField(append(b, '{'), "engine", s.Engine)
	b = appendTextField(b, "durability", string(s.Durability))
	b = appendIntField(b, "lanes", int64(s.Lanes))
	b = appendIntField(b, "format", int64(s.Format))
	b = appendTextField(b, "namespace", s.Namespace)
	b = appendIntField(b, "bytes", s.Bytes)
	b = appendIntField(b, "published", s.Published)
	b = appendIntField(b, "duplicates", s.Duplicates)
	b = appendIntField(b, "refused", s.Refused)
	b = appendIntField(b, "dropped", s.Dropped)
	b = appendIntField(b, "unrouted", s.Unrouted)
	b = appendIntField(b, "delayed", s.Held)
	b = appendCounts(appendName(b, "queues"), &s.Queues)
	b = append(appendName(b, "subscriptions"), '{')
	b = appendIntField(b, "queued", s.Subscriptions.Queued)
	b = appendIntField(b, "dead", s.Subscriptions.Dead)
	b = appendIntField(b, "failing", s.Subscriptions.Failing)
	b = append(appendIntField(b, "disabled", s.Subscriptions.Disabled), '}')
	b = append(appendName(append(b, laterStats...), "operations"), '{')
	b = appendIntField(b, "queued", s.Operations.Queued)
	return append(appendIntField(b, "running", s.Operations.Running), '}', '}')
}

// DecodeStats reads the statistics of a store.
func DecodeStats(text []byte) (s millrace.Stats, err error) {
	d := newAnswerDecoder(text)
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case "engine":
				s.Engine, _ = d.string("")
			case "durability":
				level, _ := d.string("")
				s.Durability = millrace.Durability(level)
			case "lanes":
				s.Lanes = int(d.unsigned())
			case "format":
				s.Format = int(d.unsigned())
			case "namespace":
				s.Namespace, _ = d.string("")
			case "queues":
				s.Queues = d.counts()
			case "subscriptions":
				c := &s.Subscriptions
				d.numbers(map[string]*int64{"queued": &c.Queued, "dead": &c.Dead, "failing": &c.Failing, "disabled": &c.Disabled})
			case "operations":
				d.numbers(map[string]*int64{"queued": &s.Operations.Queued, "running": &s.Operations.Running})
			default:
				d.statsNumber(&s)
			}
		}
	}
	return s, d.finish()
}

func (d *decoder) statsNumber(s *millrace.Stats) {
	var to *int64
	switch string(d.name) {
	case "bytes":
		to = &s.Bytes
	case "published":
		to = &s.Published
	case "duplicates":
		to = &s.Duplicates
	case "refused":
		to = &s.Refused
	case "dropped":
		to = &s.Dropped
	case "unrouted":
		to = &s.Unrouted
	case "delayed":
		to = &s.Held
	default:
		d.skip()
		return
	}
	*to, _ = d.integer(0, maxInteger)
}

// AppendReadiness writes the statistics of a store, whether it is ready, and
// what was looked at. Of what is good the name says enough.
func AppendReadiness(b []byte, s *millrace.Stats, ok bool, found []millrace.Finding) []byte {
	b = AppendStats(b, s)
	b = appendBoolField(b[:len(b)-1], "ok", ok)
	b = appendList(appendName(b, "checks"), found, appendFinding)
	return append(b, '}')
}

func appendFinding(b []byte, f *millrace.Finding) []byte {
	detail := ""
	if f.Grade != millrace.GradeOK {
		detail = f.Detail
		if f.Next != "" {
			detail += "; " + f.Next
		}
	}
	b = appendTextField(append(b, '{'), "name", f.Name)
	b = appendBoolField(b, "ok", f.Grade != millrace.GradeFail)
	return append(appendTextField(b, "detail", detail), '}')
}

// DecodeReadiness reads what was looked at. What works and has a detail is a warning.
func DecodeReadiness(text []byte) ([]millrace.Finding, error) {
	list, _, err := decodePage(text, "checks", (*decoder).finding)
	return list, err
}

func (d *decoder) finding() (f millrace.Finding) {
	if !d.object() {
		return f
	}
	ok := false
	for d.next() {
		switch string(d.name) {
		case "name":
			f.Name, _ = d.string("")
		case "ok":
			ok = d.bool()
		case "detail":
			f.Detail, _ = d.string("")
		default:
			d.skip()
		}
	}
	switch {
	case !ok:
		f.Grade = millrace.GradeFail
	case f.Detail != "":
		f.Grade = millrace.GradeWarn
	default:
		f.Grade = millrace.GradeOK
	}
	return f
}
