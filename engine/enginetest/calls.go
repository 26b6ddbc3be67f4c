package enginetest

import (
	"time"

	"github.com/millrace-dev/millrace"
)

// everyCall makes every call that names a lane and returns its error.
func (r *rig) everyCall(lane int, queue string) map[string]error {
	ctx := r.ctx()
	errs := map[string]error{}
	_, errs["publish"] = r.Publish(ctx, lane, millrace.Commit{Version: r.version, Events: []millrace.CommitEvent{event("a", "1", queue)}})
	_, errs["held"] = r.Held(ctx, lane, "a", "1")
	errs["cancel held"] = r.CancelHeld(ctx, lane, "a", "1")
	errs["inject"] = r.Inject(ctx, lane, millrace.Inject{Queue: queue})
	_, errs["stats"] = r.Stats(ctx, lane, queue)
	_, errs["step"] = r.Step(ctx, lane, time.Time{}, 1)
	_, errs["sweep"] = r.Sweep(ctx, lane, 1)
	_, errs["lane stats"] = r.LaneStats(ctx, lane)
	_, errs["topics"] = r.Topics(ctx, lane)
	errs["forget topic"] = r.ForgetTopic(ctx, lane, "orders")
	_, errs["start"] = r.Start(ctx, lane, millrace.Start{Tenant: "a", Opening: millrace.Opening{Queue: queue}})
	_, errs["operation"] = r.Operation(ctx, lane, millrace.ReadOperation{Number: 1})
	_, _, errs["list operations"] = r.ListOperations(ctx, lane, millrace.OperationPage{Queue: queue, Limit: 1})
	_, errs["cancel operation"] = r.CancelOperation(ctx, lane, time.Time{}, 1)
	errs["report"] = r.Report(ctx, lane, millrace.ProgressReport{Number: 1})
	_, _, errs["operation counts"] = r.OperationCounts(ctx, lane, millrace.CountQuery{Queue: queue, Bucket: millrace.Days})
	_, errs["fire"] = r.Fire(ctx, lane, millrace.Fire{UID: "00000000000000ff"})
	_, errs["fired"] = r.Fired(ctx, lane, "00000000000000ff")
	_, errs["apply"] = r.Apply(ctx, lane, millrace.Apply{Version: r.version})
	r.queueCalls(lane, queue, errs)
	r.batchCalls(lane, queue, errs)
	r.operationCalls(lane, queue, errs)
	return errs
}

func (r *rig) queueCalls(lane int, queue string, errs map[string]error) {
	ctx := r.ctx()
	_, errs["lease"] = r.Lease(ctx, lane, millrace.Lease{Queue: queue, Max: 1, MaxBytes: 1, For: minute})
	_, errs["settle"] = r.Settle(ctx, lane, millrace.Settle{Queue: queue, Verb: millrace.Ack, Items: []millrace.SettleItem{{Name: 1}}})
	_, errs["extend"] = r.Extend(ctx, lane, millrace.Extend{Queue: queue, For: minute, Items: []millrace.SettleItem{{Name: 1}}})
	_, errs["release"] = r.Release(ctx, lane, millrace.Release{Queue: queue, Consumer: "c", Max: 1})
	_, errs["peek"] = r.Peek(ctx, lane, millrace.Peek{Queue: queue, Limit: 1})
	_, errs["dead"] = r.Dead(ctx, lane, millrace.DeadPage{Queue: queue, Limit: 1})
	_, _, errs["redrive"] = r.Redrive(ctx, lane, millrace.DeadOf{Queue: queue, All: true, Max: 1})
	_, _, errs["drop dead"] = r.DropDead(ctx, lane, millrace.DeadOf{Queue: queue, All: true, Max: 1})
	_, _, errs["purge"] = r.Purge(ctx, lane, millrace.Purge{Queue: queue, Tenant: "nobody", Max: 1})
	errs["set tenant"] = r.SetTenant(ctx, lane, queue, "a", nil)
	_, errs["tenants"] = r.Tenants(ctx, lane, queue, "", 1)
	_, errs["tenant"] = r.Tenant(ctx, lane, queue, "a")
}

// batchCalls makes every call on batches.
func (r *rig) batchCalls(lane int, sub string, errs map[string]error) {
	ctx := r.ctx()
	_, errs["take"] = r.Take(ctx, lane, millrace.Take{Max: 1, MaxBytes: 1, For: minute})
	_, errs["settle batches"] = r.SettleBatches(ctx, lane, millrace.Outcomes{Items: []millrace.Outcome{{Subscription: sub, Name: 1, OK: true}}})
	_, errs["list batches"] = r.ListBatches(ctx, lane, millrace.BatchPage{Subscription: sub, Limit: 1})
	_, _, errs["batch"] = r.Batch(ctx, lane, sub, 1)
	_, _, errs["retry batches"] = r.RetryBatches(ctx, lane, millrace.BatchesOf{Subscription: sub, Dead: true, Max: 1})
	errs["drop batch"] = r.DropBatch(ctx, lane, sub, 1)
	_, errs["drop oldest"] = r.DropOldest(ctx, lane, 1)
	_, errs["attempt log"] = r.AttemptLog(ctx, lane, sub)
	_, errs["subscription stats"] = r.SubscriptionStats(ctx, lane, sub)
}

func (r *rig) operationCalls(lane int, queue string, errs map[string]error) {
	ctx := r.ctx()
	_, errs["start"] = r.Start(ctx, lane, millrace.Start{Tenant: "a", Body: []byte("x"), Opening: millrace.Opening{Queue: queue, Name: "q", Type: "t", Event: "1"}})
	_, errs["operation"] = r.Operation(ctx, lane, millrace.ReadOperation{Number: 1})
	_, _, errs["list operations"] = r.ListOperations(ctx, lane, millrace.OperationPage{Queue: queue, Limit: 1})
	_, errs["cancel operation"] = r.CancelOperation(ctx, lane, time.Time{}, 1)
	errs["report"] = r.Report(ctx, lane, millrace.ProgressReport{Number: 1, Name: 1})
	_, _, errs["operation counts"] = r.OperationCounts(ctx, lane, millrace.CountQuery{Queue: queue, Bucket: millrace.Minutes})
	_, errs["fire"] = r.Fire(ctx, lane, millrace.Fire{UID: queue})
	_, errs["fired"] = r.Fired(ctx, lane, queue)
	_, errs["wanted"] = r.Wanted(ctx, lane)
}
