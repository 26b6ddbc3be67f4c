package embedded

import (
	"context"
	"testing"

	"github.com/millrace-dev/millrace"
)

func TestWhatIsTakenAndNotAppliedIsReadBackWhenAnEarlierGroupIsDurable(t *testing.T) {
	e, err := OpenMemory(context.Background(), millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	l := e.lanes[0]
	first := writeDead(l, 1)
	second := writeDead(l, 2) // is taken while the first is being synced
	for i, g := range []*group{first, second} {
		if !e.apply([]flight{{g, &l.journal}}) {
			t.Fatal(e.failure())
		}
		l.journal.release(g)
		if i == 0 {
			l.mu.Lock()
			found, err := l.overlay.get(deadKeyOf(l, 2))
			l.mu.Unlock()
			if err != nil || string(found) != "a dead letter" {
				t.Fatalf("the second group reads back as %q, %v", found, err)
			}
		}
	}
	if l.overlay.batch != nil {
		t.Error("what the disk has is kept in memory")
	}
}

func deadKeyOf(l *lane, seq uint64) []byte { return queueSeqKey(nil, kindDead, l.no, 7, seq) }

// writeDead writes a record into a group of its own, and takes it as the committer does.
func writeDead(l *lane, seq uint64) *group {
	l.mu.Lock()
	g := l.group()
	g.key, g.val = append(g.key[:0], deadKeyOf(l, seq)...), []byte("a dead letter")
	g.set()
	l.mu.Unlock()
	return l.take(false)
}
