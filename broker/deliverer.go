package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/webhook"
)

const (
	deliverSlots = 128              // batches that a node sends at a time: twice what one subscription may have on its way
	takeAtOnce   = 16               // batches of one take
	takeBytes    = 8 << 20          // of their events
	pendingExtra = 15 * time.Second // by which a batch is pending longer than its request may take
	recordExtra  = 5 * time.Second  // of it, kept for the record of a request that took as long as it may
	takeRetry    = time.Second      // after a take that failed
)

// deliverer sends batches to subscriptions: it takes what is ready, a few at a time and by
// turns over subscriptions, posts each in a slot of its own, and tells the store what came of it.
type deliverer struct {
	b      *Broker
	sender *webhook.Sender
	log    *slog.Logger
	slots  chan struct{}
	woken  []chan struct{} // by lane
	work   sync.WaitGroup  // deliveries under way
	cut    chan struct{}   // closed when what is under way must end
}

func newDeliverer(b *Broker, sender *webhook.Sender) *deliverer {
	d := &deliverer{b: b, sender: sender, log: b.log, slots: make(chan struct{}, deliverSlots), cut: make(chan struct{}), woken: make([]chan struct{}, b.identity.Lanes)}
	for lane := range d.woken {
		d.woken[lane] = make(chan struct{}, 1)
	}
	return d
}

// wake says that a lane may have batches to send.
func (d *deliverer) wake(lane int) {
	select {
	case d.woken[lane] <- struct{}{}:
	default:
	}
}

func (d *deliverer) wakeAll() {
	for lane := range d.woken {
		d.wake(lane)
	}
}

// cutOff ends what is under way: it has failed.
func (d *deliverer) cutOff() { close(d.cut) }

// run sends batches until ctx ends; what is under way then is finished, unless it is cut off.
func (d *deliverer) run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var lanes, watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-d.cut:
			cancel()
		case <-sending.Done():
		}
	})
	for lane := range d.woken {
		lanes.Go(func() { d.runLane(ctx, sending, lane) })
	}
	lanes.Wait()
	d.work.Wait()
	cancel()
	watch.Wait()
}

func (d *deliverer) runLane(ctx, sending context.Context, lane int) {
	scan := time.NewTicker(slowScan)
	defer scan.Stop()
	for {
		more, err := d.takeSome(ctx, sending, lane)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d.log.Warn("take batches", "lane", lane, "error", err)
			pause(ctx, takeRetry)
			continue
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-d.woken[lane]:
		case <-scan.C:
		}
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}

// takeSome takes as many batches of a lane as there are free slots, up to a few, and
// sets their sending going, until sending ends. It waits for the first slot.
func (d *deliverer) takeSome(ctx, sending context.Context, lane int) (more bool, err error) {
	free := d.reserve(ctx)
	if free == 0 {
		return false, ctx.Err()
	}
	token, span := newToken(), d.pending()
	taken, err := d.b.engine.Take(ctx, lane, millrace.Take{
		Max: free, MaxBytes: takeBytes, For: span, Token: token, Node: d.b.node.ID,
	})
	for range free - len(taken.Batches) {
		<-d.slots
	}
	if err != nil {
		return false, err
	}
	d.b.reaper.note(lane, taken.Due)
	for i := range taken.Batches {
		batch := &parcel{TakenBatch: &taken.Batches[i], lane: lane, token: token, within: span - recordExtra}
		d.work.Go(func() {
			defer func() { <-d.slots }()
			d.deliver(sending, batch)
		})
	}
	return taken.More, nil
}

// reserve takes slots: it waits for one, and takes more if they are free.
func (d *deliverer) reserve(ctx context.Context) (n int) {
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n = 1; n < takeAtOnce; n++ {
		select {
		case d.slots <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

// parcel is a batch that a node has taken to send it.
type parcel struct {
	*millrace.TakenBatch
	lane   int
	token  millrace.Token
	within time.Duration // its request ends, whatever its subscription allows: this node may have heard of that too late
}

// pending is how long a batch may be on its way: longer than any request takes.
func (d *deliverer) pending() time.Duration { return d.b.registry.now().longest + pendingExtra }

// subscription finds a batch's subscription as the batch's lane knows it, or later. Another node may
// have defined it a moment ago: what this node has not heard of is looked for in the store, or the
// batch would be sent to where it is wanted no more. If the subscription was
// removed it is nil, and the lane, which has not heard of that, is told.
func (d *deliverer) subscription(ctx context.Context, batch *parcel) (*subscription, error) {
	h := d.b.registry.now()
	if sub := h.subOf[batch.Subscription]; sub != nil && h.version >= batch.Version {
		return sub, nil
	}
	h, err := d.b.registry.reload(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for a subscription: %w", err)
	}
	if sub := h.subOf[batch.Subscription]; sub != nil {
		return sub, nil
	}
	if err := d.b.registry.applyAll(ctx, batch.lane, h); err != nil {
		return nil, fmt.Errorf("tell the lane of a removal: %w", err)
	}
	return nil, nil
}

// deliver posts one batch and tells the store.
func (d *deliverer) deliver(ctx context.Context, batch *parcel) {
	sub, err := d.subscription(ctx, batch)
	if err != nil {
		d.log.Warn("a batch is not sent; it counts as failed when its time is over", "uid", batch.Subscription, "lane", batch.lane, "error", err)
		return
	}
	if sub == nil {
		return // it was removed, and its batches with it
	}
	outcome, attempt := d.post(ctx, sub, batch)
	ctx = context.WithoutCancel(ctx) // also what was cut off is told
	settled, err := d.settle(ctx, batch, outcome, attempt)
	if err == nil {
		d.observeDelivered(sub, batch.TakenBatch, &outcome, settled)
	}
	switch {
	case err != nil:
		d.log.Warn("record a delivery; it counts as failed when its time is over", "subscription", sub.name, "error", err)
	case settled.Lost:
		d.log.Warn("a delivery took too long and counts as failed", "subscription", sub.name, "batch", attempt.Batch)
	default:
		d.conclude(ctx, sub, &outcome, settled)
	}
	d.log.Debug("delivery", "subscription", sub.name, "batch", attempt.Batch, "attempt", batch.Attempt, "events", len(batch.Events),
		"status", outcome.Status, "failure", outcome.Failure, "dead", settled.Dead, "took", outcome.Duration)
}

// post sends a batch as it is written every time: from what is stored alone.
func (d *deliverer) post(ctx context.Context, sub *subscription, batch *parcel) (webhook.Outcome, attemptRecord) {
	attempt := attemptRecord{Attempt: millrace.Attempt{
		Batch: millrace.MessageID(batch.Name), Attempt: batch.Attempt, At: time.Now().UTC(), Count: len(batch.Events), Node: d.b.node.ID,
	}}
	events, err := eventsOf(batch.Events)
	if err != nil {
		d.log.Error("a batch cannot be read", "subscription", sub.name, "batch", attempt.Batch, "error", err)
		return webhook.Outcome{Failure: webhook.FailedConnect}, attempt
	}
	for i := range events {
		attempt.mark(events[i].ID)
	}
	body, kind := api.AppendPush(nil, millrace.BodyFormat(batch.Format), events)
	outcome := d.send(ctx, sub, webhook.Delivery{
		ID: attempt.Batch, Attempt: batch.Attempt, ContentType: kind, Body: body, Timeout: min(sub.spec.RequestTimeout, batch.within),
	})
	recordOutcome(&attempt.Attempt, &outcome)
	return outcome, attempt
}

// send posts a body to where the subscription is now, signed with the secrets it has now.
func (d *deliverer) send(ctx context.Context, sub *subscription, what webhook.Delivery) webhook.Outcome {
	what.URL, what.UUID, what.Secrets = sub.spec.Callback, sub.spec.UUID, sub.secrets(time.Now())
	what.Subscription = sub.name
	return d.sender.Send(ctx, what)
}

// settle tells the store what came of a delivery.
func (d *deliverer) settle(ctx context.Context, batch *parcel, o webhook.Outcome, a attemptRecord) (millrace.SettledBatch, error) {
	log, err := json.Marshal(a)
	if err != nil {
		return millrace.SettledBatch{}, fmt.Errorf("write the log of an attempt: %w", err)
	}
	done, err := d.b.engine.SettleBatches(ctx, batch.lane, millrace.Outcomes{Items: []millrace.Outcome{{
		Subscription: batch.Subscription, Name: batch.Name, Token: batch.token, OK: o.OK(), Error: reasonOf(&o), After: o.RetryAfter,
		Jitter: millrace.Jitter(rand.IntN(1001)), Log: log,
	}}})
	if err != nil {
		return millrace.SettledBatch{}, err
	}
	d.b.reaper.note(batch.lane, done.Due)
	return done.Items[0], nil
}

func recordOutcome(a *millrace.Attempt, o *webhook.Outcome) {
	a.OK, a.Status, a.Error, a.Answer = o.OK(), o.Status, o.Failure, o.Answer
	a.Duration = o.Duration.Truncate(time.Millisecond)
}

// reasonOf is why a delivery failed, for people.
func reasonOf(o *webhook.Outcome) string {
	if o.Failure == webhook.FailedStatus {
		return "status " + strconv.Itoa(o.Status)
	}
	return o.Failure
}

// conclude disables a subscription whose receiver wants no more, or has failed for too long.
func (d *deliverer) conclude(ctx context.Context, sub *subscription, o *webhook.Outcome, settled millrace.SettledBatch) {
	since := settled.FailingSince
	if !since.IsZero() && since.Before(sub.freshAt) {
		since = sub.freshAt
	}
	switch {
	case o.OK():
	case o.Gone:
		d.disable(ctx, sub, "the receiver answered 410: it wants no more")
	case sub.spec.DisableAfter > 0 && !since.IsZero() && time.Since(since) >= sub.spec.DisableAfter && d.failsEverywhere(ctx, sub):
		d.disable(ctx, sub, "nothing but failures since "+since.UTC().Format(time.RFC3339)+"; the last: "+reasonOf(o))
	}
}

// failsEverywhere reports whether no lane has sent anything for as long as a subscription may fail: a
// lane knows only of its own failures, and a poisonous batch in one of them is not the receiver's end.
func (d *deliverer) failsEverywhere(ctx context.Context, sub *subscription) bool {
	from := time.Now().Add(-sub.spec.DisableAfter)
	sent, err := Subscriptions{d.b}.attempts(ctx, sub, func(a *attemptRecord) bool { return a.OK && a.At.After(from) })
	if err != nil {
		d.log.Warn("look for what was sent; the next failure looks again", "subscription", sub.name, "error", err)
	}
	return err == nil && len(sent) == 0
}

// disable stops a subscription for good, until somebody resumes it, and says so in an event. One
// that was resumed since, or has another callback, or is another under the name, is left
// alone: it was not asked.
func (d *deliverer) disable(ctx context.Context, sub *subscription, reason string) {
	changed := false
	err := Subscriptions{d.b}.change(ctx, sub.name, func(now *subscription, r *subscriptionRecord) {
		asked := now.uid == sub.uid && r.Callback == sub.spec.Callback && r.FreshAt.Equal(sub.freshAt)
		changed = asked && r.State != millrace.StateDisabled
		if changed {
			r.State, r.Reason = millrace.StateDisabled, reason
		}
	})
	if err != nil {
		d.log.Warn("disable a subscription", "subscription", sub.name, "error", err)
		return
	}
	if !changed {
		return
	}
	d.log.Warn("a subscription is disabled", "subscription", sub.name, "reason", reason)
	data, _ := json.Marshal(map[string]string{"subscription": sub.name, "reason": reason})
	event := millrace.Event{Topic: millrace.SystemTopic, Type: "subscription.disabled", Key: sub.name, Data: data}
	if err := d.b.publishOwn(ctx, event); err != nil {
		d.log.Warn("publish that a subscription is disabled", "subscription", sub.name, "error", err)
	}
}

// Test sends one ping now; see millrace.SubscriptionService.
func (s Subscriptions) Test(ctx context.Context, name string) (millrace.Attempt, error) {
	sub, err := s.enter(ctx, name)
	if err != nil {
		return millrace.Attempt{}, err
	}
	defer s.b.gate.leave()
	id, err := s.b.ids.next()
	if err != nil {
		return millrace.Attempt{}, err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	ping := millrace.Event{ID: id, Topic: millrace.SystemTopic, Type: "ping", Tenant: millrace.DefaultTenant, Time: now, RecordedAt: now}
	body, kind := api.AppendPush(nil, sub.spec.Format, []millrace.Event{ping})
	attempt := millrace.Attempt{Attempt: 1, At: now, Count: 1, Node: s.b.node.ID}
	outcome := s.b.deliverer.send(ctx, sub, webhook.Delivery{ID: id, Attempt: 1, ContentType: kind, Body: body, Timeout: sub.spec.RequestTimeout})
	recordOutcome(&attempt, &outcome)
	return attempt, nil
}
