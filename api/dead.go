package api

import (
	"bytes"
	"strconv"

	"github.com/millrace-dev/millrace"
)

// MaxIDs is how many messages one request may name.
const MaxIDs = 1000

// DecodeRedrive reads which dead letters are to wait again: some ids, or all,
// of one tenant if it names one.
func DecodeRedrive(body []byte) (which millrace.DeadSelection, err error) {
	d := newDecoder(body)
	if d.object() {
		ids, tenant := false, false
		for d.next() {
			switch string(d.name) {
			case "ids":
				ids = true
				which.IDs = d.ids()
			case "all":
				which.All = d.bool()
			case "tenant":
				tenant = true
				which.Tenant = d.nameValue()
			default:
				d.skip()
			}
		}
		d.checkSelection(ids, which.All, tenant)
	}
	return which, d.finish()
}

func (d *decoder) checkSelection(ids, all, tenant bool) {
	switch {
	case ids && all:
		d.faultAt(d.root+".all", "must not be given with ids")
	case ids && tenant:
		d.faultAt(d.root+".tenant", "must not be given with ids")
	case !ids && !all:
		d.faultAt(d.root, "must hold ids, or all as true")
	}
}

// ids reads an array of messages' ids.
func (d *decoder) ids() []string {
	list := []string{}
	if !d.array() {
		return list
	}
	count := 0
	for ; d.more(); count++ {
		if count >= MaxIDs {
			d.value()
		} else if id, ok := d.given(""); ok {
			list = append(list, id)
		}
	}
	if count == 0 || count > MaxIDs {
		d.fault("must hold 1 to " + strconv.Itoa(MaxIDs) + " ids")
	}
	return list
}

// AppendRedrive writes which dead letters are to wait again.
func AppendRedrive(b []byte, which millrace.DeadSelection) []byte {
	b = append(b, '{')
	if len(which.IDs) > 0 {
		b = appendStrings(appendName(b, "ids"), which.IDs)
	}
	if which.All {
		b = appendBoolField(b, "all", true)
	}
	if which.Tenant != "" {
		b = appendTextField(b, "tenant", which.Tenant)
	}
	return append(b, '}')
}

// AppendRedriven writes how many dead letters wait again and how many are left.
func AppendRedriven(b []byte, done, left int) []byte {
	b = appendIntField(append(b, '{'), "redriven", int64(done))
	return append(appendIntField(b, "remaining", int64(left)), '}')
}

// DecodeRedriven reads how many dead letters wait again and how many are left.
func DecodeRedriven(text []byte) (done, left int, err error) {
	return decodeDone(text, "redriven")
}

// DecodePurge reads whose messages are to go; empty for everybody's. No body says so too.
func DecodePurge(body []byte) (tenant string, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return "", nil
	}
	d := newDecoder(body)
	if d.object() {
		for d.next() {
			if string(d.name) == "tenant" {
				tenant = d.nameValue()
			} else {
				d.skip()
			}
		}
	}
	return tenant, d.finish()
}

// AppendPurge writes whose messages are to go; empty for everybody's.
func AppendPurge(b []byte, tenant string) []byte {
	b = append(b, '{')
	if tenant != "" {
		b = appendTextField(b, "tenant", tenant)
	}
	return append(b, '}')
}

// AppendPurged writes how many messages are gone and how many are left.
func AppendPurged(b []byte, done, left int) []byte {
	b = appendIntField(append(b, '{'), "purged", int64(done))
	return append(appendIntField(b, "remaining", int64(left)), '}')
}

// DecodePurged reads how many messages are gone and how many are left.
func DecodePurged(text []byte) (done, left int, err error) {
	return decodeDone(text, "purged")
}

func decodeDone(text []byte, name string) (done, left int, err error) {
	d := newAnswerDecoder(text)
	var n, remaining int64
	d.numbers(map[string]*int64{name: &n, "remaining": &remaining})
	return int(n), int(remaining), d.finish()
}
