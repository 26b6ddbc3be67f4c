package api

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace/internal/importguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheWireKnowsOnlyTheWords(t *testing.T) { importguard.Check(t, ".") }
