package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/millrace-dev/millrace"
)

// ProblemType is the content type of an error's answer.
const ProblemType = "application/problem+json"

// AppendProblem writes an error as a problem. What is not an error of the wire
// is an internal one, and says nothing of its cause.
func AppendProblem(b []byte, err error, requestID string) []byte {
	e := WireError(err)
	status := StatusOf(e.Code)
	b = appendTextField(append(b, '{'), "type", "about:blank")
	b = appendTextField(b, "title", http.StatusText(status))
	b = appendIntField(b, "status", int64(status))
	b = appendTextField(b, "code", string(e.Code))
	b = appendTextField(b, "detail", e.Detail)
	b = appendTextField(b, "request_id", requestID)
	if len(e.Faults) > 0 && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) {
		b = appendList(appendName(b, "errors"), e.Faults, appendFault)
	}
	switch e.Code {
	case millrace.CodeFull:
		b = appendTextField(b, "sink", e.Sink)
	case millrace.CodeVersionConflict:
		b = appendUintField(b, "current_version", e.CurrentVersion)
	case millrace.CodePartlyCommitted:
		b = appendPublishedList(appendName(b, "events"), e.Events)
	}
	return append(b, '}')
}

func appendFault(b []byte, f *millrace.Fault) []byte {
	b = appendTextField(append(b, '{'), "location", f.Location)
	return append(appendTextField(b, "message", f.Message), '}')
}

// WireError is the error that a caller is told: err itself, or an internal one
// if it has no code of the wire.
func WireError(err error) *millrace.Error {
	var e *millrace.Error
	if errors.As(err, &e) && OnWire(e.Code) {
		return e
	}
	return &millrace.Error{Code: millrace.CodeInternal, Detail: "something went wrong here; the log has the request id"}
}

func wireCode(err error) millrace.Code { return WireError(err).Code }

// DecodeProblem reads an error's answer. A text that is no problem, or a code
// that is not known, gives the error that the status stands for.
func DecodeProblem(status int, text []byte) *millrace.Error {
	d := newAnswerDecoder(text)
	var e millrace.Error
	if d.object() {
		for d.next() {
			d.problemMember(&e)
		}
	}
	if err := d.finish(); err != nil || e.Code == "" {
		return &millrace.Error{Code: CodeOfStatus(status), Detail: "the server answered " + strconv.Itoa(status)}
	}
	if !OnWire(e.Code) {
		e.Code = CodeOfStatus(status)
	}
	return &e
}

func (d *decoder) problemMember(e *millrace.Error) {
	switch string(d.name) {
	case "code":
		code, _ := d.string("")
		e.Code = millrace.Code(code)
	case "detail":
		e.Detail, _ = d.string("")
	case "errors":
		e.Faults = d.faultList()
	case "sink":
		e.Sink, _ = d.string("")
	case "current_version":
		e.CurrentVersion = d.unsigned()
	case "events":
		e.Events = d.published()
	default:
		d.skip()
	}
}

func (d *decoder) faultList() (list []millrace.Fault) {
	if !d.array() {
		return nil
	}
	for d.more() {
		var f millrace.Fault
		if d.object() {
			for d.next() {
				switch string(d.name) {
				case "location":
					f.Location, _ = d.string("")
				case "message":
					f.Message, _ = d.string("")
				default:
					d.skip()
				}
			}
		}
		list = append(list, f)
	}
	return list
}

// Join is the one answer to several faults of a request: the first that is not
// about its meaning, or else one CodeInvalid with all of their faults.
func Join(errs ...error) error {
	var faults []millrace.Fault
	for _, err := range errs {
		var e *millrace.Error
		switch {
		case err == nil:
		case errors.As(err, &e) && e.Code == millrace.CodeInvalid:
			faults = append(faults, e.Faults...)
		default:
			return err
		}
	}
	return millrace.Invalid(faults)
}
