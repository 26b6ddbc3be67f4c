package enginetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

// Phase is how far a call has come.
type Phase string

// The phases of a call: it is invoked, and then it is done, refused, or nobody
// knows. A call without an outcome is one that nobody knows of.
const (
	Invoked   Phase = "invoke"
	Done      Phase = "ok"
	Refused   Phase = "fail"      // nothing happened
	Uncertain Phase = "unknown"   // it may have happened
	Forbidden Phase = "forbidden" // an error that a caller must not see
)

// Entry is one line of a ledger: a call as it is invoked, or its outcome.
type Entry struct {
	Call   string // pairs an outcome with its invocation
	Phase  Phase
	Op     string // publish, lease, settle, release; redrive, purge, inject, weigh; take, outcome; start, cancel, observe
	Lane   int
	Queue  string        `json:",omitempty"`
	Verb   string        `json:",omitempty"`
	Events []LedgerEvent `json:",omitempty"`

	Released bool                     `json:",omitempty"` // a settlement of what was released before: it must be lost
	Tenant   string                   `json:",omitempty"` // of a purge or of a weight
	Settings *millrace.TenantSettings `json:",omitempty"`
	Count    int                      `json:",omitempty"` // how many a redrive, a purge or a release told of
	Left     int                      `json:",omitempty"` // how many a purge left

	Code  millrace.Code `json:",omitempty"`
	Error string        `json:",omitempty"`

	Batches []LedgerBatch `json:",omitempty"`
}

// ended is the entry of a call's outcome.
func (e Entry) ended(err error) Entry {
	e.Phase, e.Code, e.Events, e.Batches = outcome(err), millrace.CodeOf(err), nil, nil
	if err != nil {
		e.Error = err.Error()
	}
	return e
}

// LedgerEvent is an event of a publish, or a message of a lease or settlement.
type LedgerEvent struct {
	ID        string   `json:",omitempty"`
	Tenant    string   `json:",omitempty"`
	Key       string   `json:",omitempty"`
	Queues    []string `json:",omitempty"`
	Subs      []string `json:",omitempty"`
	Seq       uint64   `json:",omitempty"` // of a message: its name
	Own       uint64   `json:",omitempty"` // the event's own seq, if it was injected
	Prev      uint64   `json:",omitempty"`
	Attempt   int      `json:",omitempty"`
	Duplicate bool     `json:",omitempty"`
	Lost      bool     `json:",omitempty"`

	Delay time.Duration `json:",omitempty"` // of an event that is held first

	Status  millrace.OperationStatus `json:",omitempty"` // of its operation
	Percent int                      `json:",omitempty"`
}

// LedgerBatch is a batch of a take, or how its sending went.
type LedgerBatch struct {
	Sub     string
	Name    uint64
	Attempt int           `json:",omitempty"`
	Events  []LedgerEvent `json:",omitempty"` // ids, seqs and prevs
	OK      bool          `json:",omitempty"`
	Lost    bool          `json:",omitempty"`
}

// History is what a ledger has written down, in order.
type History []Entry

// Cut returns the history as it is known at its n-th entry: what was invoked
// later may have happened too, but no outcome that came later counts.
func (h History) Cut(n int) History {
	cut := make(History, 0, len(h))
	for i, e := range h {
		if i < n || e.Phase == Invoked {
			cut = append(cut, e)
		}
	}
	return cut
}

// Acknowledged is the number of calls that were done: what there is to judge.
func (h History) Acknowledged(op string) int {
	n := 0
	for _, e := range h {
		if e.Phase == Done && e.Op == op && (len(e.Events)+len(e.Batches)+e.Count > 0 || op == "inject" || op == "weigh") {
			n++
		}
	}
	return n
}

// Ledger writes down the calls of a load, from many goroutines.
type Ledger struct {
	mu      sync.Mutex
	entries History
	file    *os.File
}

// NewLedger returns a ledger in memory.
func NewLedger() *Ledger { return &Ledger{} }

// FileLedger returns a ledger that writes every entry to a file at once, so that it outlives the process.
func FileLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return &Ledger{file: f}, nil
}

// Record writes an entry down.
func (l *Ledger) Record(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		l.entries = append(l.entries, e)
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic("write ledger: " + err.Error())
	}
}

// Len is the number of entries in memory.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// History returns what was written down in memory so far.
func (l *Ledger) History() History {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(History{}, l.entries...)
}

// ReadHistory reads what a ledger wrote to a file; a last line that was cut short does not count.
func ReadHistory(path string) (History, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	defer func() { _ = f.Close() }()
	var h History
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		h = append(h, e)
	}
}

// outcome is the phase that an error means. What a caller of a store under
// fault may see is that nothing happened, that it is not known, or that there is no room.
func outcome(err error) Phase {
	switch millrace.CodeOf(err) {
	case "":
		return Done
	case millrace.CodeUnavailable, millrace.CodeStoreFull:
		return Refused
	case millrace.CodeOutcomeUnknown, millrace.CodeNotReplicated:
		return Uncertain
	default:
		return Forbidden
	}
}
