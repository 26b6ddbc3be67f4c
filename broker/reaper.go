package broker

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

const (
	stepSize   = 500         // entries of one step, so that no step holds a lane for long
	stepRetry  = time.Second // after a step that failed
	othersWait = time.Second // by which a node that does not own a lane steps later than its owner
	never      = 100 * 365 * 24 * time.Hour
)

// reaper steps each lane when something in it is due: leases that have ended,
// retries whose delay is over. It sleeps until then.
type reaper struct {
	engine millrace.Engine
	self   string
	log    *slog.Logger
	nudged chan struct{}
	held   func(ctx context.Context, lane int, due []millrace.HeldEvent) // takes delayed events that are due
	left   func(ctx context.Context, exits []millrace.Exit)              // is told what left a lease or a queue

	mu      sync.Mutex
	next    []time.Time // by lane, when its next entry is due
	members []string
}

func newReaper(e millrace.Engine, lanes int, self string, log *slog.Logger) *reaper {
	r := &reaper{engine: e, self: self, log: log, nudged: make(chan struct{}, 1), next: make([]time.Time, lanes), members: []string{self}}
	return r // every lane is due at once: what is in it is not known yet
}

// note says that a lane's next entry is due in a while; negative means none.
func (r *reaper) note(lane int, in time.Duration) {
	if in < 0 {
		return
	}
	at := time.Now().Add(in)
	r.mu.Lock()
	earlier := at.Before(r.next[lane])
	if earlier {
		r.next[lane] = at
	}
	r.mu.Unlock()
	if earlier {
		r.nudge()
	}
}

// noteAll says that anything may be due anywhere.
func (r *reaper) noteAll() {
	for lane := range r.next {
		r.note(lane, 0)
	}
}

func (r *reaper) nudge() {
	select {
	case r.nudged <- struct{}{}:
	default:
	}
}

// setMembers says which nodes are there.
func (r *reaper) setMembers(nodes []millrace.Node) {
	ids := make([]string, 0, len(nodes)+1)
	for _, n := range nodes {
		for _, role := range n.Roles {
			if role == RoleMonitor {
				ids = append(ids, n.ID)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = ids
}

// run steps lanes as they fall due, until ctx ends.
func (r *reaper) run(ctx context.Context) {
	scan := time.NewTicker(slowScan)
	defer scan.Stop()
	for {
		timer := time.NewTimer(time.Until(r.earliest()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-scan.C:
			r.noteAll()
		case <-r.nudged:
		case <-timer.C:
			r.stepDue(ctx, time.Now())
		}
		timer.Stop()
	}
}

func (r *reaper) earliest() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := time.Now().Add(never)
	for lane, at := range r.next {
		if at = at.Add(r.lag(lane)); at.Before(first) {
			first = at
		}
	}
	return first
}

// lag is how much later than due this node steps a lane; the lock is held.
func (r *reaper) lag(lane int) time.Duration {
	if owner(r.members, lane) == r.self || len(r.members) == 0 {
		return 0
	}
	return othersWait
}

// owns reports whether a lane is this node's to step first.
func (r *reaper) owns(lane int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lag(lane) == 0
}

// owner is the member that steps a lane first: the one whose hash with the lane
// is greatest, so that a member that comes or goes moves few lanes.
func owner(members []string, lane int) string {
	best, most := "", uint64(0)
	for _, m := range members {
		if h := millrace.Hash(m, strconv.Itoa(lane)); best == "" || h > most {
			best, most = m, h
		}
	}
	return best
}

// stepDue steps every lane whose time has come.
func (r *reaper) stepDue(ctx context.Context, now time.Time) {
	for lane := range r.next {
		r.mu.Lock()
		due := !r.next[lane].Add(r.lag(lane)).After(now)
		if due {
			r.next[lane] = now.Add(never) // what happens from here on is noted anew
		}
		r.mu.Unlock()
		if due {
			r.step(ctx, lane)
		}
	}
}

// step does what is due in a lane and notes when to come back.
func (r *reaper) step(ctx context.Context, lane int) {
	s, err := r.engine.Step(ctx, lane, time.Time{}, stepSize)
	if len(s.Events) > 0 {
		r.held(ctx, lane, s.Events)
	}
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		r.log.Warn("step a lane", "lane", lane, "error", err)
		r.note(lane, stepRetry)
	case s.More:
		r.note(lane, 0)
	default:
		r.note(lane, s.Due)
	}
	r.left(ctx, s.Exits)
	if s.Expired+s.Returned+s.Forgotten+len(s.Events) > 0 {
		r.log.Debug("stepped", "lane", lane, "expired", s.Expired, "returned", s.Returned, "dead", s.Dead, "forgotten", s.Forgotten, "due", len(s.Events))
	}
}
