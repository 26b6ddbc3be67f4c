package api

import (
	"strconv"
	"time"

	"github.com/millrace-dev/millrace"
)

// Verb is what is done with receipts; it is the last part of the path.
type Verb string

// The verbs that take receipts.
const (
	Ack    Verb = "ack"
	Retry  Verb = "retry"
	Bury   Verb = "bury"
	Extend Verb = "extend"
)

// SettleItem is one receipt and what is to be done with it.
type SettleItem struct {
	millrace.Settlement
	Lease time.Duration // with Extend; 0 for the queue's
}

// DecodeSettle reads the body of a settlement or an extension: receipts with
// one argument for all, or items with one each.
func DecodeSettle(body []byte, verb Verb) ([]SettleItem, error) {
	s := settleReader{decoder: newDecoder(body), verb: verb}
	if s.object() {
		s.members()
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	return s.list, nil
}

type settleReader struct {
	*decoder
	verb            Verb
	list            []SettleItem
	seen            map[string]struct{}
	receipts, items bool
	full            bool // it holds all it may, and the fault is told
}

func (s *settleReader) members() {
	var shared SettleItem
	argument := ""
	for s.next() {
		switch string(s.name) {
		case "receipts":
			s.receipts = true
			s.readReceipts()
		case "items":
			s.items = true
			s.readItems()
		default:
			if name := string(s.name); s.argument(&shared) {
				argument = name
			}
		}
	}
	switch {
	case s.items && s.receipts:
		s.faultAt(s.root+".items", "must not be given with receipts")
	case s.items && argument != "":
		s.faultAt(s.root+"."+argument, "must be given in each of the items")
	case !s.items && !s.receipts:
		s.missing("receipts")
	case s.receipts:
		s.share(shared)
	}
}

// share gives every receipt the argument that was given for all.
func (s *settleReader) share(with SettleItem) {
	for i := range s.list {
		with.Receipt = s.list[i].Receipt
		s.list[i] = with
	}
}

func (s *settleReader) readReceipts() {
	if !s.array() {
		return
	}
	for s.more() {
		var item SettleItem
		s.receipt(&item)
		s.add(item)
	}
}

func (s *settleReader) readItems() {
	if !s.array() {
		return
	}
	for s.more() {
		s.add(s.item())
	}
}

func (s *settleReader) add(item SettleItem) {
	if len(s.list) < millrace.MaxReceipts {
		s.list = append(s.list, item)
	} else if !s.full {
		s.full = true
		s.faultAt(s.parent(), "must hold at most "+strconv.Itoa(millrace.MaxReceipts))
	}
}

func (s *settleReader) item() (item SettleItem) {
	if !s.object() {
		return item
	}
	found := false
	for s.next() {
		if string(s.name) == "receipt" {
			found = true
			s.receipt(&item)
		} else {
			s.argument(&item)
		}
	}
	if !found {
		s.missing("receipt")
	}
	return item
}

func (s *settleReader) receipt(item *SettleItem) {
	text, ok := s.string("")
	if !ok || s.full {
		return
	}
	if s.seen == nil {
		s.seen = make(map[string]struct{})
	}
	if _, twice := s.seen[text]; twice {
		s.fault("is given twice")
	}
	s.seen[text] = struct{}{}
	item.Receipt = text
}

// argument reads a member that the verb knows; any other is a fault.
func (s *settleReader) argument(item *SettleItem) bool {
	name := string(s.name)
	switch {
	case name == "delay" && s.verb == Retry:
		if v, ok := s.duration(0, millrace.MaxDelay); ok {
			item.Delay = &v
		}
	case name == "error" && (s.verb == Retry || s.verb == Bury):
		item.Error, _ = s.string("")
	case name == "lease" && s.verb == Extend:
		item.Lease, _ = s.duration(millrace.MinLease, millrace.MaxLease)
	case name == "output" && s.verb == Ack:
		if item.Output, _ = s.data(); len(item.Output) > millrace.MaxOutput {
			s.fault("must be at most " + strconv.Itoa(millrace.MaxOutput) + " bytes")
		}
	default:
		s.skip()
		return false
	}
	return true
}

// AppendSettle writes the body of a settlement.
func AppendSettle(b []byte, items []millrace.Settlement) []byte {
	b = appendList(appendName(append(b, '{'), "items"), items, appendSettlement)
	return append(b, '}')
}

func appendSettlement(b []byte, s *millrace.Settlement) []byte {
	b = appendTextField(append(b, '{'), "receipt", s.Receipt)
	if s.Delay != nil {
		b = appendDurationField(b, "delay", *s.Delay)
	}
	if s.Error != "" {
		b = appendTextField(b, "error", s.Error)
	}
	if len(s.Output) > 0 {
		b = append(appendName(b, "output"), s.Output...)
	}
	return append(b, '}')
}

// AppendExtend writes the body of an extension.
func AppendExtend(b []byte, lease time.Duration, receipts []string) []byte {
	b = appendStrings(appendName(append(b, '{'), "receipts"), receipts)
	if lease != 0 {
		b = appendDurationField(b, "lease", lease)
	}
	return append(b, '}')
}

// AppendSettled writes the answer to a settlement or an extension.
func AppendSettled(b []byte, verb Verb, r *millrace.SettleResult) []byte {
	b = appendIntField(append(b, '{'), "settled", int64(r.Settled))
	b = appendStrings(appendName(b, "lost"), r.Lost)
	if verb != Extend {
		return append(appendIntField(b, "dead", int64(r.Dead)), '}')
	}
	b = appendTimeOrNull(appendName(b, "leased_until"), r.LeasedUntil)
	return append(appendStrings(appendName(b, "cancelled"), r.Cancelled), '}')
}

// DecodeSettled reads the answer to a settlement or an extension.
func DecodeSettled(text []byte) (r millrace.SettleResult, err error) {
	d := newAnswerDecoder(text)
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case "settled":
				r.Settled = int(d.unsigned())
			case "lost":
				r.Lost = d.strings()
			case "dead":
				r.Dead = int(d.unsigned())
			case "leased_until":
				r.LeasedUntil = d.timeOrNull()
			case "cancelled":
				r.Cancelled = d.strings()
			default:
				d.skip()
			}
		}
	}
	return r, d.finish()
}
