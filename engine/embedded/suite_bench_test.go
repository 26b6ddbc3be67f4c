package embedded_test

import (
	"testing"

	"github.com/millrace-dev/millrace/engine/enginetest"
)

func BenchmarkOnDisk(b *testing.B) {
	enginetest.Bench(b, enginetest.Config{Lanes: 1, New: onDisk})
}
