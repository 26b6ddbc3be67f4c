package httpapi

import (
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// description is what the API's description says of one route beside what the
// table of routes knows. Schemas and examples go by their names in api.
type description struct {
	in, inExample   string // the body
	inOptional      bool   // the body may be left out
	out, outExample string // the body of 200; none for 204
	stream          string // the content type of an answer that is no JSON
	streamed        string // what such an answer holds

	accepts    bool     // 202 in place of 200
	creates    bool     // 201 for what is new
	newExample string   // the body of 201, if it differs from that of 200
	unready    bool     // 503 with the body of 200
	refuses    []int    // statuses of problems that not every route has
	wants      []string // parameters of the query that must be there

	more  []*huma.Param              // parameters that the table of routes does not know
	forms map[string]*huma.MediaType // further forms of the body
}

func (d *description) needs(parameter string) bool { return slices.Contains(d.wants, parameter) }

// descriptions is the description of every route, by method and path.
func descriptions() map[string]description {
	all := map[string]description{}
	for _, part := range []map[string]description{describeEvents(), describeQueues(), describeTenants(), describeLeases(), describeDead(), describeSubscriptions(), describeBatches(), describeOperations(), describeTriggers(), describeHouse()} {
		maps.Copy(all, part)
	}
	return all
}

// gone is the refusal of what is about something that is not there.
func gone(more ...int) []int { return append([]int{http.StatusNotFound}, more...) }

// liveFrames says what a stream of live events holds.
const liveFrames = "Server-sent events: first the comment `open`, then for each event a frame `event` whose data is an Event, `missed` with how many were missed, " +
	"and the comment `beat` every 15 s. Nothing is replayed."

func describeEvents() map[string]description {
	return map[string]description{
		"POST /v1/topics/{topic}/events": {
			in: "Publish", inExample: "publish_in", out: "Published", outExample: "publish_out", more: publishHeaders(), forms: cloudEventForms(),
			inOptional: true, // a CloudEvent of the binary form may have no data
			refuses:    []int{http.StatusTooManyRequests, http.StatusInsufficientStorage},
		},
		"GET /v1/events/{id}":       {out: "DelayedEvent", outExample: "delayed", refuses: gone()},
		"DELETE /v1/events/{id}":    {refuses: gone()},
		"GET /v1/route":             {out: "Route", outExample: "route", wants: []string{"topic", "type"}},
		"GET /v1/live":              {stream: "text/event-stream", streamed: liveFrames},
		"GET /v1/topics":            {out: "Topics", outExample: "topics"},
		"GET /v1/topics/{topic}":    {out: "Topic", outExample: "topic", refuses: gone()},
		"PUT /v1/topics/{topic}":    {in: "TopicOwner", inExample: "topic_in", out: "Topic", outExample: "topic"},
		"DELETE /v1/topics/{topic}": {refuses: gone()},
	}
}

// publishHeaders is the headers that a publish knows.
func publishHeaders() []*huma.Param {
	params := []*huma.Param{{
		Name: "Idempotency-Key", In: "header", Description: "Event i that has no id gets the id KEY.i, so that the request can be repeated.",
		Extensions: schemaOf(api.Schema{"type": "string", "minLength": 1, "maxLength": millrace.MaxIDLen - len(".999")}),
	}}
	for name, description := range map[string]string{
		"specversion": "1.0", "id": "The event's id.", "source": "Part of what the id is compared within.", "type": "The event's type.", "time": "The event's time.",
		"subject": "The event's key.", "partitionkey": "The event's key, if there is no subject.", "tenant": "The event's tenant.",
	} {
		params = append(params, &huma.Param{
			Name: "ce-" + name, In: "header", Description: "Of a CloudEvent of the binary form, percent-encoded: " + description,
			Extensions: schemaOf(api.Schema{"type": "string"}),
		})
	}
	slices.SortFunc(params, func(a, b *huma.Param) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return params
}

// cloudEventForms is the further forms that a publish takes.
func cloudEventForms() map[string]*huma.MediaType {
	forms := media(api.CloudEventType, api.SchemaRef("CloudEvent"), "cloudevent_in")
	maps.Copy(forms, media(api.CloudEventBatchType, api.SchemaRef("CloudEvents"), "cloudevents_in"))
	maps.Copy(forms, media("*/*", api.Schema{"description": "The data of a CloudEvent of the binary form, whose attributes are headers that begin with ce-."}, ""))
	return forms
}

func describeQueues() map[string]description {
	return map[string]description{
		"GET /v1/queues":         {out: "Queues", outExample: "queues"},
		"GET /v1/queues/{queue}": {out: "Queue", outExample: "queue_out", refuses: gone()},
		"PUT /v1/queues/{queue}": {
			in: "QueueSpec", inExample: "queue_in", out: "Queue", outExample: "queue_out", creates: true, refuses: []int{http.StatusConflict},
		},
		"DELETE /v1/queues/{queue}":      {refuses: gone(http.StatusConflict)},
		"POST /v1/queues/{queue}/pause":  {in: "Nothing", inOptional: true, refuses: gone()},
		"POST /v1/queues/{queue}/resume": {in: "Nothing", inOptional: true, refuses: gone()},
		"POST /v1/queues/{queue}/inject": {
			in: "Inject", inExample: "inject_in", out: "Injected", outExample: "injected", refuses: gone(http.StatusInsufficientStorage),
		},
	}
}

func describeTenants() map[string]description {
	return map[string]description{
		"GET /v1/queues/{queue}/tenants":          {out: "Tenants", outExample: "tenants", refuses: gone()},
		"GET /v1/queues/{queue}/tenants/{tenant}": {out: "Tenant", outExample: "tenant", refuses: gone()},
		"PUT /v1/queues/{queue}/tenants/{tenant}": {
			in: "TenantSettings", inExample: "tenant_in", out: "Tenant", outExample: "tenant", refuses: gone(),
		},
		"DELETE /v1/queues/{queue}/tenants/{tenant}": {refuses: gone()},
	}
}

func describeLeases() map[string]description {
	return map[string]description{
		"POST /v1/lease":                 {in: "LeaseAny", inExample: "lease_any_in", out: "Messages", outExample: "lease_out", refuses: gone()},
		"POST /v1/queues/{queue}/lease":  {in: "Lease", inExample: "lease_in", inOptional: true, out: "Messages", outExample: "lease_out", refuses: gone()},
		"POST /v1/queues/{queue}/ack":    {in: "Ack", inExample: "ack_in", out: "Settled", outExample: "settled", refuses: gone()},
		"POST /v1/queues/{queue}/retry":  {in: "Retry", inExample: "retry_in", out: "Settled", outExample: "settled", refuses: gone()},
		"POST /v1/queues/{queue}/bury":   {in: "Bury", inExample: "bury_in", out: "Settled", outExample: "settled", refuses: gone()},
		"POST /v1/queues/{queue}/extend": {in: "Extend", inExample: "extend_in", out: "Extended", outExample: "extended", refuses: gone()},
		"POST /v1/queues/{queue}/release": {
			in: "Release", inExample: "release_in", out: "Released", outExample: "released", refuses: gone(),
		},
	}
}

func describeDead() map[string]description {
	return map[string]description{
		"GET /v1/queues/{queue}/peek":         {out: "Peeked", outExample: "peek", refuses: gone()},
		"POST /v1/queues/{queue}/purge":       {in: "Purge", inExample: "purge_in", inOptional: true, out: "Purged", outExample: "purged", refuses: gone()},
		"GET /v1/queues/{queue}/dead":         {out: "DeadLetters", outExample: "dead", refuses: gone()},
		"DELETE /v1/queues/{queue}/dead":      {out: "Purged", outExample: "purged", refuses: gone()},
		"DELETE /v1/queues/{queue}/dead/{id}": {refuses: gone()},
		"POST /v1/queues/{queue}/dead/redrive": {
			in: "Redrive", inExample: "redrive_in", out: "Redriven", outExample: "redriven", refuses: gone(),
		},
	}
}

// subscriptionOne is the path of one subscription.
const subscriptionOne = "/v1/subscriptions/{subscription}"

func describeSubscriptions() map[string]description {
	return map[string]description{
		"GET /v1/subscriptions":  {out: "Subscriptions", outExample: "subscriptions"},
		"GET " + subscriptionOne: {out: "Subscription", outExample: "subscription_out", refuses: gone()},
		"PUT " + subscriptionOne: {
			in: "SubscriptionSpec", inExample: "subscription_in", out: "Subscription", outExample: "subscription_out",
			creates: true, newExample: "subscription_made", refuses: []int{http.StatusConflict},
		},
		"DELETE " + subscriptionOne:           {refuses: gone(http.StatusConflict)},
		"POST " + subscriptionOne + "/pause":  {in: "Nothing", inOptional: true, refuses: gone()},
		"POST " + subscriptionOne + "/resume": {in: "Nothing", inOptional: true, refuses: gone()},
		"POST " + subscriptionOne + "/test":   {in: "Nothing", inOptional: true, out: "Tested", outExample: "tested", refuses: gone()},
		"POST " + subscriptionOne + "/rotate": {
			in: "Rotate", inExample: "rotate_in", inOptional: true, out: "Rotated", outExample: "rotated", refuses: gone(),
		},
		"POST " + subscriptionOne + "/inject": {
			in: "Inject", inExample: "inject_in", out: "Injected", outExample: "injected", refuses: gone(http.StatusInsufficientStorage),
		},
	}
}

func describeBatches() map[string]description {
	return map[string]description{
		"GET " + subscriptionOne + "/batches":             {out: "Batches", outExample: "batches", refuses: gone()},
		"GET " + subscriptionOne + "/batches/{id}":        {out: "Batch", outExample: "batch", refuses: gone()},
		"DELETE " + subscriptionOne + "/batches/{id}":     {refuses: gone(http.StatusConflict)},
		"POST " + subscriptionOne + "/batches/{id}/retry": {in: "Nothing", inOptional: true, out: "Retried", outExample: "retried", refuses: gone()},
		"POST " + subscriptionOne + "/dead/retry":         {in: "Nothing", inOptional: true, out: "Retried", outExample: "retried", refuses: gone()},
		"GET " + subscriptionOne + "/attempts":            {out: "Attempts", outExample: "attempts", refuses: gone()},
	}
}

// operationFrames says what a stream of an operation holds.
const operationFrames = "Server-sent events: first the comment `open`, then a frame `operation` whose data is an Operation, now and at each change, " +
	"and the comment `beat` every 15 s. It ends after an operation that has finished."

// operationOne is the path of one operation, triggerOne that of one trigger.
const (
	operationOne = "/v1/operations/{id}"
	triggerOne   = "/v1/triggers/{trigger}"
)

func describeOperations() map[string]description {
	return map[string]description{
		"POST /v1/operations": {
			in: "OperationRequest", inExample: "operation_in", out: "StartedOperation", outExample: "operation_started", accepts: true,
			refuses: gone(http.StatusConflict, http.StatusTooManyRequests, http.StatusInsufficientStorage),
		},
		"GET /v1/operations":                 {out: "Operations", outExample: "operations", refuses: gone(http.StatusConflict)},
		"GET /v1/operations/counts":          {out: "OperationCounts", outExample: "operation_counts", wants: []string{"queue"}, refuses: gone(http.StatusConflict)},
		"GET " + operationOne:                {out: "Operation", outExample: "operation_out", refuses: gone()},
		"GET " + operationOne + "/watch":     {stream: "text/event-stream", streamed: operationFrames, refuses: gone()},
		"POST " + operationOne + "/cancel":   {in: "Nothing", inOptional: true, out: "Operation", outExample: "operation_out", refuses: gone(http.StatusConflict)},
		"POST " + operationOne + "/progress": {in: "ReportProgress", inExample: "progress_in", refuses: gone(http.StatusConflict)},
	}
}

func describeTriggers() map[string]description {
	return map[string]description{
		"GET /v1/triggers":  {out: "Triggers", outExample: "triggers"},
		"GET " + triggerOne: {out: "Trigger", outExample: "trigger_out", refuses: gone()},
		"PUT " + triggerOne: {
			in: "TriggerSpec", inExample: "trigger_in", out: "Trigger", outExample: "trigger_out", creates: true, newExample: "trigger_made",
		},
		"DELETE " + triggerOne:           {refuses: gone()},
		"POST " + triggerOne + "/rotate": {in: "Nothing", inOptional: true, out: "Trigger", outExample: "trigger_made", refuses: gone()},
		"POST /t/{secret}": {
			in: "TriggerCall", inOptional: true, out: "TriggerResult", outExample: "trigger_result", accepts: true,
			forms:   media("*/*", api.SchemaRef("TriggerCall"), ""),
			refuses: gone(http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInsufficientStorage),
		},
	}
}

// verbose is the parameter of those who want to know more than whether a server is ready.
func verbose() []*huma.Param {
	return []*huma.Param{{
		Name: "verbose", In: "query", Description: "With a token that may manage: the statistics of the store, and what was looked at.",
		Extensions: schemaOf(api.Schema{"type": "string"}),
	}}
}

func describeHouse() map[string]description {
	return map[string]description{
		"GET /v1/definitions": {out: "Definitions", outExample: "definitions"},
		"PUT /v1/definitions": {
			in: "Apply", inExample: "definitions_in", out: "Applied", outExample: "applied", refuses: []int{http.StatusConflict},
		},
		"GET /v1/nodes":     {out: "Nodes", outExample: "nodes"},
		"GET /v1/stats":     {out: "Stats", outExample: "stats"},
		"GET /livez":        {out: "Health", outExample: "health"},
		"GET /readyz":       {out: "Readiness", outExample: "health", unready: true, more: verbose(), refuses: []int{http.StatusUnauthorized}},
		"GET /healthz":      {out: "Readiness", outExample: "health", unready: true, more: verbose(), refuses: []int{http.StatusUnauthorized}},
		"GET /metrics":      {stream: "text/plain", streamed: "The metrics in the text format of Prometheus.", refuses: gone()},
		"GET /openapi.json": {out: "Description"},
	}
}
