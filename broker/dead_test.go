package broker

import (
	"testing"

	"github.com/millrace-dev/millrace"
)

func TestADeadLetterWithoutAnIDIsInvalid(t *testing.T) {
	b := start(t, openMemory(t, 2))
	define(t, b, "all", ".")
	none := millrace.DeadSelection{IDs: []string{""}}
	if _, _, err := b.Queues().Redrive(t.Context(), "all", none); millrace.CodeOf(err) != millrace.CodeInvalid {
		t.Errorf("redrive: got %v", err)
	}
	if _, _, err := b.Queues().DropDead(t.Context(), "all", none); millrace.CodeOf(err) != millrace.CodeInvalid {
		t.Errorf("drop: got %v", err)
	}
}
