package api

import (
	"net/http"

	"github.com/millrace-dev/millrace"
)

// statuses says, for every status that an error can have, its codes. The first
// code of a status stands for an answer that carries none.
var statuses = []struct {
	status int
	codes  []millrace.Code
}{
	{http.StatusBadRequest, []millrace.Code{millrace.CodeMalformed, millrace.CodeBadCursor}},
	{http.StatusUnauthorized, []millrace.Code{millrace.CodeUnauthenticated}},
	{http.StatusForbidden, []millrace.Code{millrace.CodeForbidden, millrace.CodeTopicClaimed, millrace.CodeCrossSite}},
	{http.StatusNotFound, []millrace.Code{millrace.CodeNotFound}},
	{http.StatusMethodNotAllowed, []millrace.Code{millrace.CodeMethodNotAllowed}},
	{http.StatusRequestTimeout, []millrace.Code{millrace.CodeSlowRequest}},
	{http.StatusConflict, []millrace.Code{
		millrace.CodePending, millrace.CodeImmutable, millrace.CodeNotEmpty, millrace.CodeNotTracked,
		millrace.CodeFinished, millrace.CodeLost, millrace.CodeNotAMember,
	}},
	{http.StatusPreconditionFailed, []millrace.Code{millrace.CodeVersionConflict}},
	{http.StatusRequestEntityTooLarge, []millrace.Code{millrace.CodeTooLarge}},
	{http.StatusUnsupportedMediaType, []millrace.Code{millrace.CodeUnsupportedMedia}},
	{http.StatusUnprocessableEntity, []millrace.Code{millrace.CodeInvalid}},
	{http.StatusTooManyRequests, []millrace.Code{millrace.CodeRateLimited, millrace.CodeFull}},
	{http.StatusInternalServerError, []millrace.Code{millrace.CodeInternal}},
	{http.StatusServiceUnavailable, []millrace.Code{
		millrace.CodeUnavailable, millrace.CodeDraining, millrace.CodeNotReplicated,
		millrace.CodeOutcomeUnknown, millrace.CodePartlyCommitted,
	}},
	{http.StatusInsufficientStorage, []millrace.Code{millrace.CodeStoreFull}},
}

// StatusOf is the HTTP status of a code; 500 for one that is not of the wire.
func StatusOf(code millrace.Code) int {
	for _, s := range statuses {
		for _, c := range s.codes {
			if c == code {
				return s.status
			}
		}
	}
	return http.StatusInternalServerError
}

// CodeOfStatus is the code of an error answer that carries none, such as a
// proxy's. A gateway that got no answer does not know what happened.
func CodeOfStatus(status int) millrace.Code {
	if status == http.StatusBadGateway || status == http.StatusGatewayTimeout {
		return millrace.CodeOutcomeUnknown
	}
	for _, s := range statuses {
		if s.status == status {
			return s.codes[0]
		}
	}
	return millrace.CodeInternal
}

// OnWire reports whether a code may appear in an answer.
func OnWire(code millrace.Code) bool {
	return code == millrace.CodeInternal || StatusOf(code) != http.StatusInternalServerError
}
