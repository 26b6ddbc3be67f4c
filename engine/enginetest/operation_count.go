package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func countPromises() []promise {
	return []promise{
		{"EveryMoveIsCountedInItsMinuteHourAndDay", countedMoves},
		{"BucketsBeginAtWholeMinutesHoursAndDays", countBorders},
		{"TimesAreCountedByTheirClass", countSpans},
		{"BucketsAreAnsweredFromSinceUntil", countRange},
		{"BucketsAreKeptForTheirTimeAndTheTotalForEver", countKept},
		{"ARemovedQueueHasNoCounts", countRemoved},
		{"CountsOfAQueueAreItsOwn", countOwn},
	}
}

// count reads all buckets of a length, and the total.
func (r *rig) count(lane int, q string, b millrace.CountBucket) ([]millrace.OperationCount, millrace.Tally) {
	r.Helper()
	return r.countIn(lane, millrace.CountQuery{Queue: q, Bucket: b, Since: start().AddDate(-5, 0, 0), Until: start().AddDate(50, 0, 0)})
}

func (r *rig) countIn(lane int, c millrace.CountQuery) ([]millrace.OperationCount, millrace.Tally) {
	r.Helper()
	c.Now = r.now
	counts, total, err := r.OperationCounts(r.ctx(), lane, c)
	r.ok(err)
	return counts, total
}

// spans are lengths of time, counted.
func spans(lengths ...time.Duration) millrace.Spans {
	s := millrace.Spans{}
	for _, d := range lengths {
		s[millrace.SpanIndex(d.Milliseconds())]++
	}
	return s
}

func lengths() []millrace.CountBucket {
	return []millrace.CountBucket{millrace.Minutes, millrace.Hours, millrace.Days}
}

// countedMoves makes every move once, within one minute.
func countedMoves(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{MaxAttempts: 2})
	r.each(func(lane int) {
		r.wholeMinute()
		began := r.now
		numbers := r.starts(lane, q, "a1", "b1", "c1", "d1", "e1", "f1")
		r.cancel(lane, numbers[5])
		r.pass(time.Second)
		h := r.leaseFor(lane, q, 5, 2*time.Second) // a1 to e1
		r.pass(time.Second)
		r.settled(lane, q, millrace.Ack, h.item(0))
		r.settled(lane, q, millrace.Bury, h.item(1))
		r.settled(lane, q, millrace.Retry, h.item(2))
		r.cancel(lane, numbers[3])
		r.settled(lane, q, millrace.Retry, h.item(3))
		r.pass(time.Second)
		r.same("expired", r.step(lane).Expired, 1) // e1
		h = r.lease(lane, q, 3)                    // f1 is dropped
		r.pass(3 * time.Second)
		r.settled(lane, q, millrace.Retry, h.items()...) // their attempts are spent
		r.starts(lane, q, "g1")
		r.purge(lane, q, "g", 9)
		tally := millrace.Tally{Success: 1, Error: 3, Cancelled: 3, Retried: 2}
		second := time.Second
		want := millrace.OperationCount{
			Tally: tally, Queued: spans(second, second, second, second, second), Running: spans(second, second, 3*second, 3*second),
		}
		for _, b := range lengths() {
			want.At = began.Truncate(b.Span())
			counts, total := r.count(lane, q, b)
			r.same("count of "+string(b), counts, []millrace.OperationCount{want})
			r.same("total", total, tally)
		}
	})
}

// succeedAt lets one operation succeed at a moment.
func (r *rig) succeedAt(lane int, q string, at time.Time) {
	r.Helper()
	r.now = at
	r.starts(lane, q, "a1")
	r.settled(lane, q, millrace.Ack, r.leased(lane, q, 1).items()...)
}

func countBorders(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	day := start().Truncate(24 * time.Hour).Add(24 * time.Hour)
	moments := []time.Time{
		day.Add(-time.Millisecond), day, day.Add(time.Minute - time.Millisecond), day.Add(time.Minute),
		day.Add(time.Hour - time.Millisecond), day.Add(time.Hour), day.Add(24*time.Hour - time.Millisecond), day.Add(24 * time.Hour),
	}
	for i, at := range moments {
		r.succeedAt(0, q, at)
		for _, b := range lengths() {
			var want []millrace.OperationCount
			for _, at := range moments[:i+1] {
				begins := at.Truncate(b.Span())
				if n := len(want); n == 0 || !want[n-1].At.Equal(begins) {
					want = append(want, millrace.OperationCount{At: begins, Queued: millrace.Spans{}, Running: millrace.Spans{}})
				}
				last := &want[len(want)-1]
				last.Success++
				last.Queued[0]++
				last.Running[0]++
			}
			counts, total := r.count(0, q, b)
			r.same("counts of "+string(b), counts, want)
			r.same("total", total, millrace.Tally{Success: int64(i + 1)})
		}
	}
}

func countSpans(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	waits := []time.Duration{0, time.Millisecond, 7 * time.Millisecond, 1500 * time.Millisecond, time.Minute, 26 * time.Hour}
	for _, d := range waits {
		r.starts(0, q, "a1")
		r.pass(d)
		h := r.leaseFor(0, q, 1, 100*time.Hour)
		r.pass(2 * d)
		r.settled(0, q, millrace.Ack, h.items()...)
	}
	late := r.starting(q, "a1")
	late.Delay = time.Hour
	r.start(0, late)
	r.pass(time.Hour + 3*time.Second)
	r.step(0)
	h := r.leased(0, q, 1)
	r.settled(0, q, millrace.Retry, h.items()...) // its second lease is not its first
	r.pass(5 * time.Second)
	r.settled(0, q, millrace.Bury, r.leased(0, q, 1).items()...)
	queued, ran := millrace.Spans{}, millrace.Spans{}
	counts, _ := r.count(0, q, millrace.Days)
	for _, count := range counts {
		for i, n := range count.Queued {
			queued[i] += n
		}
		for i, n := range count.Running {
			ran[i] += n
		}
	}
	r.same("queued", queued, spans(append(waits, 3*time.Second)...))
	for i := range waits {
		waits[i] *= 2
	}
	r.same("ran", ran, spans(append(waits, 0)...))
}

func countRange(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.wholeMinute()
	began := r.now
	for i := range 5 {
		r.succeedAt(0, q, began.Add(time.Duration(i)*2*time.Minute+30*time.Second))
	}
	at := func(since, until time.Duration) []time.Time {
		r.Helper()
		counts, total := r.countIn(0, millrace.CountQuery{Queue: q, Bucket: millrace.Minutes, Since: began.Add(since), Until: began.Add(until)})
		r.same("total", total.Success, int64(5))
		list := []time.Time{}
		for _, count := range counts {
			list = append(list, count.At)
		}
		return list
	}
	minutes := func(list ...int) []time.Time {
		all := []time.Time{}
		for _, n := range list {
			all = append(all, began.Add(time.Duration(n)*time.Minute))
		}
		return all
	}
	r.same("all", at(0, time.Hour), minutes(0, 2, 4, 6, 8))
	r.same("from a bucket until one", at(2*time.Minute, 6*time.Minute), minutes(2, 4))
	r.same("from within a bucket", at(2*time.Minute+time.Millisecond, 6*time.Minute+time.Millisecond), minutes(4, 6))
	r.same("nothing", at(time.Hour, 2*time.Hour), minutes())
	r.same("an empty bucket", at(time.Minute, 2*time.Minute), minutes())
}

func countKept(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	for _, b := range lengths() {
		began := r.now.Truncate(24 * time.Hour).Add(48 * time.Hour)
		r.succeedAt(0, q, began)
		for _, moment := range []struct {
			now  time.Time
			want bool
		}{{began.Add(b.Kept()), true}, {began.Add(b.Kept() + time.Millisecond), false}} {
			r.now = moment.now
			counts, total := r.count(0, q, b)
			r.same("kept "+string(b), len(counts) > 0 && counts[0].At.Equal(began), moment.want)
			if total.Success == 0 {
				t.Error("the total is forgotten")
			}
		}
	}
	_, total := r.count(0, q, millrace.Minutes)
	r.same("total", total, millrace.Tally{Success: 3})
}

func countRemoved(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) { r.ends(lane, q) })
	r.remove(q)
	none := func(uid string) {
		r.each(func(lane int) {
			for _, b := range lengths() {
				counts, total := r.count(lane, uid, b)
				r.same("counts", counts, []millrace.OperationCount{})
				r.same("total", total, millrace.Tally{})
			}
		})
	}
	none(q)
	r.each(func(lane int) { r.sweepAll(lane) })
	none(q)
	none("00000000000000cc")
}

func countOwn(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.tracked(millrace.QueueSettings{}), r.tracked(millrace.QueueSettings{})
	r.publish(0, event("a", "a1", q, other))
	r.settled(0, q, millrace.Ack, r.leased(0, q, 1).items()...)
	r.settled(0, other, millrace.Bury, r.leased(0, other, 1).items()...)
	_, one := r.count(0, q, millrace.Days)
	_, two := r.count(0, other, millrace.Days)
	r.same("totals", []millrace.Tally{one, two}, []millrace.Tally{{Success: 1}, {Error: 1}})
	for lane := 1; lane < c.Lanes; lane++ {
		_, total := r.count(lane, q, millrace.Days)
		r.same("another lane's", total, millrace.Tally{})
	}
}
