package metrics_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/metrics"
)

func TestOperationsAreCountedByTheirStatusAndNeverGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{Logger: quiet()})
		s := &scripted{}
		m.Watch(s)
		look := func(uid string, tally millrace.Tally, success, failed, cancelled float64) {
			t.Helper()
			s.answer = broker.Observation{Queues: []broker.ObservedQueue{{Name: "sync", UID: uid, Tracked: true, Operations: tally}}}
			time.Sleep(time.Second)
			seen := expose(t, m)
			seen.want(success, "operations_total", "queue", "sync", "status", "SUCCESS")
			seen.want(failed, "operations_total", "queue", "sync", "status", "ERROR")
			seen.want(cancelled, "operations_total", "queue", "sync", "status", "CANCELLED")
		}
		look("a", millrace.Tally{Success: 5, Error: 2, Cancelled: 1, Retried: 9}, 5, 2, 1)
		look("a", millrace.Tally{Success: 4, Error: 3}, 5, 3, 1) // a store that lost its last changes
		look("b", millrace.Tally{Success: 1}, 6, 3, 1)           // deleted and defined again
	})
}

func TestTheOperationsOfATrackedQueueAreReadFromItsStore(t *testing.T) {
	n, _ := pushing(t)
	spec := millrace.DefaultQueueSpec("nothing")
	spec.Tracked = true
	if _, _, err := n.broker.Queues().Put(t.Context(), "sync", spec); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := n.broker.Operations().Start(t.Context(), millrace.OperationRequest{Queue: "sync", Type: "MANUAL"}); err != nil {
			t.Fatal(err)
		}
	}
	settle(t)(n.broker.Queues().Ack(t.Context(), "sync", n.lease("sync", 1)...))
	n.until(1, "operations_total", "queue", "sync", "status", "SUCCESS")
}
