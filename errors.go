package millrace

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code names a class of error. Codes are stable: they are what callers branch
// on in-process and what travels over the wire.
type Code string

// The codes of the wire.
const (
	CodeMalformed        Code = "malformed"
	CodeBadCursor        Code = "bad_cursor"
	CodeUnauthenticated  Code = "unauthenticated"
	CodeForbidden        Code = "forbidden"
	CodeTopicClaimed     Code = "topic_claimed"
	CodeCrossSite        Code = "cross_site"
	CodeNotFound         Code = "not_found"
	CodeMethodNotAllowed Code = "method_not_allowed"
	CodeSlowRequest      Code = "slow_request"
	CodeImmutable        Code = "immutable"
	CodeNotEmpty         Code = "not_empty"
	CodeNotTracked       Code = "not_tracked"
	CodeFinished         Code = "finished"
	CodeLost             Code = "lost"
	CodeNotAMember       Code = "not_a_member"
	CodePending          Code = "pending"
	CodeVersionConflict  Code = "version_conflict"
	CodeTooLarge         Code = "too_large"
	CodeUnsupportedMedia Code = "unsupported_media_type"
	CodeInvalid          Code = "invalid"
	CodeRateLimited      Code = "rate_limited"
	CodeFull             Code = "full"
	CodeInternal         Code = "internal"
	CodeUnavailable      Code = "unavailable"
	CodeDraining         Code = "draining"
	CodeNotReplicated    Code = "not_replicated"
	CodeOutcomeUnknown   Code = "outcome_unknown"
	CodePartlyCommitted  Code = "partly_committed"
	CodeStoreFull        Code = "store_full"
)

// The codes between the engines and the broker. They never reach a caller.
const (
	// CodeStale refuses a commit routed with an older registry than its lane knows.
	CodeStale Code = "stale"
	// CodeChanged refuses a definition because the one it replaces has changed.
	CodeChanged Code = "changed"
	// CodeLaneMissing refuses any transition in a lane that was never created or has vanished.
	CodeLaneMissing Code = "lane_missing"
	// CodeMismatch refuses to open a store made with other settings.
	CodeMismatch Code = "mismatch"
)

// Error is an error that a caller may branch on.
type Error struct {
	Code   Code
	Detail string  // a sentence for people; never holds what the caller submitted
	Faults []Fault // every fault of a malformed or invalid input

	Sink           string      // with CodeFull: the sink that refused
	CurrentVersion uint64      // with CodeVersionConflict and CodeStale: the version that is there
	Events         []Published // with CodePartlyCommitted: one result per event

	RetryAfter time.Duration // with CodeRateLimited: when to try again; 0 for unknown

	Err error // what caused it, for logs
}

// Fault is one thing that is wrong with an input, and where.
type Fault struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Errorf returns an error with a code and a formatted detail.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Wrap returns an error with a code that carries its cause.
func Wrap(code Code, err error, detail string) *Error {
	return &Error{Code: code, Detail: detail, Err: err}
}

// Invalid returns the error for input with these faults, or nil without any.
func Invalid(faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	detail := "1 fault"
	if len(faults) > 1 {
		detail = fmt.Sprintf("%d faults", len(faults))
	}
	return &Error{Code: CodeInvalid, Detail: detail, Faults: faults}
}

// Error says the code, the detail, each fault and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	for _, f := range e.Faults {
		b.WriteString("; " + f.Location + " " + f.Message)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is a bare error of the same code, such as ErrNotFound.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Detail == "" && t.Err == nil
}

// Bare errors for errors.Is; CodeOf tells any code.
var (
	ErrNotFound       = &Error{Code: CodeNotFound}
	ErrInvalid        = &Error{Code: CodeInvalid}
	ErrUnavailable    = &Error{Code: CodeUnavailable}
	ErrOutcomeUnknown = &Error{Code: CodeOutcomeUnknown}
	ErrStoreFull      = &Error{Code: CodeStoreFull}
	ErrDraining       = &Error{Code: CodeDraining}
)

// ErrStoreInUse is in the chain of the error of opening a store that another
// process holds.
var ErrStoreInUse = errors.New("another process holds the store")

// CodeOf returns the code of the first Error in err's chain, or CodeInternal
// if there is none, or "" if err is nil.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return CodeInternal
}
