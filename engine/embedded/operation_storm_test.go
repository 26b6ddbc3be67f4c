package embedded_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// trackedStorm does everything that operations can live through, from many goroutines at once, while the
// machine's clock runs fast: minutes turn and operations expire.
type trackedStorm struct {
	testing.TB
	*embedded.Engine
	clock  atomic.Int64 // in milliseconds
	tokens atomic.Uint64
	known  sync.Map // numbers of operations that were started
}

func TestAPowerLossInAStormOfOperationsLeavesStatusAndQueueAgreed(t *testing.T) {
	for seed := range 6 {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) { trackedStormAndCrash(t, uint64(seed)) })
	}
}

func trackedStormAndCrash(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	fs := vfs.NewCrashableMem()
	s := &trackedStorm{TB: t}
	s.clock.Store(time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	s.open(fs)
	for _, q := range []millrace.QueueSettings{
		{UID: stormPlain, Version: 1, MaxAttempts: 3, TenantLimit: 20, MaxLength: 100, DropOldest: true, DeadRetention: 30 * time.Second},
		{UID: stormOrdered, Version: 2, Ordered: true, MaxAttempts: 2, DeadRetention: time.Hour},
	} {
		q.Tracked, q.Retention, q.ErrorRetention = true, time.Second, time.Minute
		defineAs(s, s.Engine, q)
	}
	crashed := rage(fs, seed, int64(600+random.IntN(1200)), random, func(r *rand.Rand) {
		s.clock.Add(r.Int64N(400))
		if err := s.one(r); err != nil {
			s.Error(err)
		}
	})
	s.check("after the storm")
	closed(t, s.Engine)
	s.open(crashed)
	defer func() { closed(t, s.Engine) }()
	s.check("after the crash")
	s.empty()
}

func (s *trackedStorm) open(fs *vfs.MemFS) {
	var err error
	if s.Engine, err = embedded.OpenFS(context.Background(), fs, "store", millrace.EngineOptions{}); err != nil {
		s.Fatalf("open: %v", err)
	}
	s.SetClock(func() time.Time { return time.UnixMilli(s.clock.Load()) })
}

func (s *trackedStorm) check(when string) {
	if err := s.Check(context.Background()); err != nil {
		s.Errorf("check %s: %v", when, err)
	}
}

// one does one thing at random.
func (s *trackedStorm) one(r *rand.Rand) (err error) {
	ctx, queue, tenant := context.Background(), []string{stormPlain, stormOrdered}[r.IntN(2)], fmt.Sprint("t", r.IntN(4))
	switch r.IntN(16) {
	case 0, 1:
		_, err = s.Publish(ctx, 0, s.commit(r))
	case 2, 3, 4:
		err = s.start(r, queue, tenant)
	case 5, 6, 7:
		err = s.leaseAndSettle(r, queue)
	case 8:
		_, err = s.Step(ctx, 0, time.Time{}, 1+r.IntN(50))
	case 9:
		err = s.redrive(queue)
	case 10:
		_, _, err = s.Purge(ctx, 0, millrace.Purge{Queue: queue, Tenant: tenant, Max: 1 + r.IntN(10)})
	case 11:
		_, err = s.Release(ctx, 0, millrace.Release{Queue: queue, Consumer: tenant, Max: 10})
	case 12:
		o := s.opening(r, queue)
		err = s.Inject(ctx, 0, millrace.Inject{Queue: queue, Events: []millrace.InjectEvent{
			{Tenant: tenant, Key: fmt.Sprint(r.IntN(5)), Seq: r.Uint64N(1000) + 1, RecordedAt: time.Now(), Body: []byte("injected"), Opening: &o},
		}})
	case 13:
		err = s.read(r, queue)
	default:
		err = s.cancelSome(r)
	}
	return err
}

func (s *trackedStorm) opening(r *rand.Rand, queue string) millrace.Opening {
	o := millrace.Opening{Queue: queue, Name: "q", Type: "job", Subject: fmt.Sprint("s", r.IntN(3)), Payload: []byte(`{"a":1}`)}
	binary.BigEndian.PutUint64(o.Secret[:], r.Uint64())
	return o
}

func (s *trackedStorm) commit(r *rand.Rand) millrace.Commit {
	c := millrace.Commit{Version: 2}
	for range 1 + r.IntN(20) {
		ev := millrace.CommitEvent{Tenant: fmt.Sprint("t", r.IntN(4)), Topic: "storm", Body: []byte("body"), Queues: []string{stormPlain, stormOrdered}}
		ev.Operations = []millrace.Opening{s.opening(r, stormPlain), s.opening(r, stormOrdered)}
		if r.IntN(3) > 0 {
			ev.Key = fmt.Sprint(r.IntN(8))
		}
		c.Events = append(c.Events, ev)
	}
	return c
}

func (s *trackedStorm) start(r *rand.Rand, queue, tenant string) error {
	m := millrace.Start{Tenant: tenant, Key: fmt.Sprint(r.IntN(8)), Body: []byte("started"), Opening: s.opening(r, queue)}
	if queue == stormPlain && r.IntN(3) == 0 {
		m.Delay = time.Duration(r.IntN(5000)) * time.Millisecond
	}
	if m.Deduped = r.IntN(2) == 0; m.Deduped {
		m.Dedupe[0] = byte(r.IntN(10))
	}
	done, err := s.Start(context.Background(), 0, m)
	if err == nil {
		s.known.Store(done.ID.Number, true)
	}
	return err
}

func (s *trackedStorm) leaseAndSettle(r *rand.Rand, queue string) error {
	ctx := context.Background()
	var token millrace.Token
	binary.BigEndian.PutUint64(token[:], s.tokens.Add(1))
	got, err := s.Lease(ctx, 0, millrace.Lease{
		Queue: queue, Max: 1 + r.IntN(20), For: time.Duration(1+r.IntN(4000)) * time.Millisecond, Token: token, Consumer: fmt.Sprint("t", r.IntN(4)),
	})
	if err != nil {
		return err
	}
	var items []millrace.SettleItem
	for _, m := range got.Messages {
		if m.Operation.Secret == (millrace.OperationSecret{}) {
			s.Errorf("message %d was leased without its operation", m.Name)
		}
		if r.IntN(4) == 0 {
			s.known.Store(m.Operation.Number, true)
			err := s.Report(ctx, 0, millrace.ProgressReport{Number: m.Operation.Number, Name: m.Name, Token: token, Progress: millrace.Progress{Percent: r.IntN(101), Note: "on"}})
			if err != nil && millrace.CodeOf(err) != millrace.CodeLost {
				return err
			}
		}
		if r.IntN(4) > 0 {
			items = append(items, millrace.SettleItem{Name: m.Name, Token: token, Delay: time.Duration(r.IntN(3)) * time.Second, Error: "why", Output: []byte(`{"b":2}`)})
		}
	}
	if r.IntN(3) == 0 {
		if _, err := s.Extend(ctx, 0, millrace.Extend{Queue: queue, For: time.Second, Items: items}); err != nil {
			return err
		}
	}
	verb := []millrace.Verb{millrace.Ack, millrace.Ack, millrace.Retry, millrace.Bury}[r.IntN(4)]
	_, err = s.Settle(ctx, 0, millrace.Settle{Queue: queue, Verb: verb, Items: items})
	return err
}

// redrive makes some dead letters wait again, each with an operation of its own.
func (s *trackedStorm) redrive(queue string) error {
	r := rand.New(rand.NewPCG(s.tokens.Add(1), 3))
	dead, err := s.Dead(context.Background(), 0, millrace.DeadPage{Queue: queue, Limit: 5})
	if err != nil {
		return err
	}
	d := millrace.DeadOf{Queue: queue}
	for _, m := range dead {
		d.Names, d.Openings = append(d.Names, m.Name), append(d.Openings, s.opening(r, queue))
	}
	_, _, err = s.Redrive(context.Background(), 0, d)
	return err
}

// cancelSome cancels operations that were started or that ran.
func (s *trackedStorm) cancelSome(r *rand.Rand) (err error) {
	left := 1 + r.IntN(3)
	s.known.Range(func(number, _ any) bool {
		s.known.Delete(number)
		_, cancelErr := s.CancelOperation(context.Background(), 0, time.Time{}, number.(uint64))
		if code := millrace.CodeOf(cancelErr); cancelErr != nil && code != millrace.CodeNotFound && code != millrace.CodeFinished {
			err = errors.Join(err, cancelErr)
		}
		left--
		return left > 0
	})
	return err
}

// read lists operations and looks at each; one may have expired or moved meanwhile.
func (s *trackedStorm) read(r *rand.Rand, queue string) error {
	ctx := context.Background()
	page := millrace.OperationPage{Queue: queue, Limit: 1 + r.IntN(20)}
	if r.IntN(2) == 0 {
		page.Subject = fmt.Sprint("s", r.IntN(3))
	}
	list, _, err := s.ListOperations(ctx, 0, page)
	if err != nil {
		return err
	}
	for _, o := range list {
		now, err := s.Operation(ctx, 0, millrace.ReadOperation{Number: o.ID.Number, Watch: r.IntN(2) == 0})
		switch {
		case millrace.CodeOf(err) == millrace.CodeNotFound && err != nil && o.Status.Finished():
		case err != nil:
			if millrace.CodeOf(err) != millrace.CodeNotFound {
				return err
			}
		case o.Status.Finished() && now.Status != o.Status, now.Attempts < o.Attempts, now.ID != o.ID:
			s.Errorf("operation %d was %s after %d attempts, then %s after %d", o.ID.Number, o.Status, o.Attempts, now.Status, now.Attempts)
		}
	}
	_, _, err = s.OperationCounts(ctx, 0, millrace.CountQuery{Queue: queue, Bucket: millrace.Hours, Until: time.UnixMilli(s.clock.Load() + 1)})
	return err
}

// empty removes the queues. When all has been swept and has expired, nothing may be left.
func (s *trackedStorm) empty() {
	ctx := context.Background()
	if _, err := s.Apply(ctx, 0, millrace.Apply{Version: 3, Removed: []string{stormPlain, stormOrdered}}); err != nil {
		s.Fatal(err)
	}
	s.check("after the removal")
	for n := 37; n == 37; {
		var err error
		if n, err = s.Sweep(ctx, 0, 37); err != nil {
			s.Fatal(err)
		}
		s.check("within the sweep")
	}
	for what, n := range s.RecordsOfSinks() {
		s.Errorf("%d records of kind %s are left of swept queues", n, what)
	}
	s.clock.Add(time.Hour.Milliseconds())
	for more := true; more; {
		done, err := s.Step(ctx, 0, time.Time{}, 100)
		if err != nil {
			s.Fatal(err)
		}
		more = done.More
	}
	s.check("when all has expired")
	for what, n := range s.RecordsOfOperations() {
		s.Errorf("%d records of kind %s are left of expired operations", n, what)
	}
}
