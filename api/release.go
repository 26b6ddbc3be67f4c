package api

import "bytes"

// DecodeNothing reads the body of a request that has nothing to say: none, or {}.
func DecodeNothing(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	d := newDecoder(body)
	if d.object() {
		for d.next() {
			d.skip()
		}
	}
	return d.finish()
}

// DecodeRelease reads whose leases are to be given back.
func DecodeRelease(body []byte) (consumer string, err error) {
	d := newDecoder(body)
	if d.object() {
		found := false
		for d.next() {
			if string(d.name) != "consumer" {
				d.skip()
				continue
			}
			found = true
			consumer = d.nameValue()
		}
		if !found {
			d.missing("consumer")
		}
	}
	return consumer, d.finish()
}

// AppendRelease writes whose leases are to be given back.
func AppendRelease(b []byte, consumer string) []byte {
	return append(appendTextField(append(b, '{'), "consumer", consumer), '}')
}

// AppendReleased writes how many leases were given back.
func AppendReleased(b []byte, n int) []byte {
	return append(appendIntField(append(b, '{'), "released", int64(n)), '}')
}

// DecodeReleased reads how many leases were given back.
func DecodeReleased(text []byte) (int, error) { return decodeNumber(text, "released") }

func decodeNumber(text []byte, name string) (int, error) {
	d := newAnswerDecoder(text)
	var n int64
	d.numbers(map[string]*int64{name: &n})
	return int(n), d.finish()
}
