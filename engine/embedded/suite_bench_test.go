package embedded_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/millrace-dev/millrace/engine/enginetest"
)

func BenchmarkOnDisk(b *testing.B) {
	enginetest.Bench(b, enginetest.Config{Lanes: 1, New: onDisk}, func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	})
}
