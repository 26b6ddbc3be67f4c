package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/millrace-dev/millrace"
)

// route is one operation of the API.
type route struct {
	method   string
	path     string
	scope    scope
	ofNode   bool   // it tells of the node itself, and is served by one that takes no requests
	noun     string // what it is about
	does     string // one line for the API's description
	query    []string
	anyQuery bool // whoever asks may add parameters, to get past a cache
	body     bool
	takes    func(http.Header) error // refuses a body by its headers; nil if the body is plain JSON
	handle   func(*server, *call) (answer, error)
}

// routes is every route there is.
func routes() []route {
	return slices.Concat(eventRoutes(), queueRoutes(), leaseRoutes(), deadRoutes(), subscriptionRoutes(), operationRoutes(), triggerRoutes(), houseRoutes(), metricsRoutes())
}

// page is the parameters of a list.
func page() []string { return []string{"limit", "cursor"} }

// eventRoutes are about events and topics.
func eventRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/topics/{topic}/events", scope: scopePublish, noun: "topic", does: "Publish one event or an array of events", body: true, takes: takesEvents, handle: (*server).publish},
		{method: "GET", path: "/v1/events/{id}", scope: scopePublish, noun: "event", does: "Show an event that is not due yet", query: []string{"tenant"}, handle: (*server).event},
		{method: "DELETE", path: "/v1/events/{id}", scope: scopePublish, noun: "event", does: "Take an event back that is not due yet", query: []string{"tenant"}, handle: (*server).cancelEvent},
		{method: "GET", path: "/v1/route", scope: scopeManage, noun: "event", does: "Say which sinks an event would reach now", query: []string{"tenant", "topic", "type"}, handle: (*server).route},
		{method: "GET", path: "/v1/live", scope: scopeConsume, noun: "event", does: "Watch events go by, as server-sent events", query: []string{"match", "tenant", "key"}, handle: (*server).watch},

		{method: "GET", path: "/v1/topics", scope: scopeManage, noun: "topic", does: "List topics", query: page(), handle: (*server).topics},
		{method: "GET", path: "/v1/topics/{topic}", scope: scopeManage, noun: "topic", does: "Show a topic", handle: (*server).topic},
		{method: "PUT", path: "/v1/topics/{topic}", scope: scopeRoot, noun: "topic", does: "Hand a topic to a publisher", body: true, handle: (*server).putTopic},
		{method: "DELETE", path: "/v1/topics/{topic}", scope: scopeRoot, noun: "topic", does: "Forget a topic's record and claim", handle: (*server).deleteTopic},
	}
}

// queueRoutes are about queues and what they hold.
func queueRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/queues", scope: scopeManage, noun: "queue", does: "List queues", query: page(), handle: (*server).queues},
		{method: "GET", path: "/v1/queues/{queue}", scope: scopeManage, noun: "queue", does: "Show a queue and what it holds", handle: (*server).queue},
		{method: "PUT", path: "/v1/queues/{queue}", scope: scopeManage, noun: "queue", does: "Define a queue", body: true, handle: (*server).putQueue},
		{method: "DELETE", path: "/v1/queues/{queue}", scope: scopeManage, noun: "queue", does: "Remove a queue with all it holds", query: []string{"if_empty"}, handle: (*server).deleteQueue},
		{method: "POST", path: "/v1/queues/{queue}/pause", scope: scopeManage, noun: "queue", does: "Stop the leasing of a queue", body: true, handle: (*server).pause},
		{method: "POST", path: "/v1/queues/{queue}/resume", scope: scopeManage, noun: "queue", does: "End a pause", body: true, handle: (*server).resume},
		{method: "POST", path: "/v1/queues/{queue}/inject", scope: scopeManage, noun: "queue", does: "Put stored events into this queue alone", body: true, handle: (*server).inject},

		{method: "GET", path: "/v1/queues/{queue}/tenants", scope: scopeManage, noun: "queue", does: "List a queue's tenants, deepest first", query: page(), handle: (*server).tenants},
		{method: "GET", path: "/v1/queues/{queue}/tenants/{tenant}", scope: scopeManage, noun: "queue", does: "Show what a tenant has in a queue", handle: (*server).tenant},
		{method: "PUT", path: "/v1/queues/{queue}/tenants/{tenant}", scope: scopeManage, noun: "queue", does: "Give a tenant a weight and a limit", body: true, handle: (*server).putTenant},
		{method: "DELETE", path: "/v1/queues/{queue}/tenants/{tenant}", scope: scopeManage, noun: "queue", does: "Take a tenant's weight and limit away", handle: (*server).deleteTenant},
	}
}

// leaseRoutes are what consumers do.
func leaseRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/lease", scope: scopeConsume, noun: "queue", does: "Lease messages of several queues by weight", body: true, handle: (*server).leaseAny},
		{method: "POST", path: "/v1/queues/{queue}/lease", scope: scopeConsume, noun: "queue", does: "Lease messages in fair turns", body: true, handle: (*server).lease},
		{method: "POST", path: "/v1/queues/{queue}/ack", scope: scopeConsume, noun: "queue", does: "End leases with success", body: true, handle: (*server).ack},
		{method: "POST", path: "/v1/queues/{queue}/retry", scope: scopeConsume, noun: "queue", does: "End leases for another attempt", body: true, handle: (*server).retry},
		{method: "POST", path: "/v1/queues/{queue}/bury", scope: scopeConsume, noun: "queue", does: "End leases for good, as dead letters", body: true, handle: (*server).bury},
		{method: "POST", path: "/v1/queues/{queue}/extend", scope: scopeConsume, noun: "queue", does: "Prolong leases", body: true, handle: (*server).extend},
		{method: "POST", path: "/v1/queues/{queue}/release", scope: scopeConsume, noun: "queue", does: "Give back what a restarted consumer held", body: true, handle: (*server).release},
	}
}

// deadRoutes are about messages that wait or are dead.
func deadRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/queues/{queue}/peek", scope: scopeManage, noun: "queue", does: "Show what waits, in the order of serving", query: []string{"tenant", "limit"}, handle: (*server).peek},
		{method: "POST", path: "/v1/queues/{queue}/purge", scope: scopeManage, noun: "queue", does: "Remove what waits or is delayed", body: true, handle: (*server).purge},
		{method: "GET", path: "/v1/queues/{queue}/dead", scope: scopeManage, noun: "queue", does: "List dead letters, oldest first", query: []string{"tenant", "limit", "cursor"}, handle: (*server).dead},
		{method: "DELETE", path: "/v1/queues/{queue}/dead", scope: scopeManage, noun: "queue", does: "Remove dead letters", query: []string{"tenant"}, handle: (*server).dropDead},
		{method: "DELETE", path: "/v1/queues/{queue}/dead/{id}", scope: scopeManage, noun: "queue", does: "Remove one dead letter", handle: (*server).dropOneDead},
		{method: "POST", path: "/v1/queues/{queue}/dead/redrive", scope: scopeManage, noun: "queue", does: "Make dead letters wait again", body: true, handle: (*server).redrive},
	}
}

// subscriptionRoutes are about subscriptions and their batches.
func subscriptionRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/subscriptions", scope: scopeManage, noun: "subscription", does: "List subscriptions", query: page(), handle: (*server).subscriptions},
		{method: "GET", path: "/v1/subscriptions/{subscription}", scope: scopeManage, noun: "subscription", does: "Show a subscription and what it holds", handle: (*server).subscription},
		{method: "PUT", path: "/v1/subscriptions/{subscription}", scope: scopeManage, noun: "subscription", does: "Define a subscription", body: true, handle: (*server).putSubscription},
		{method: "DELETE", path: "/v1/subscriptions/{subscription}", scope: scopeManage, noun: "subscription", does: "Remove a subscription with all it holds", query: []string{"if_empty"}, handle: (*server).deleteSubscription},
		{method: "POST", path: "/v1/subscriptions/{subscription}/pause", scope: scopeManage, noun: "subscription", does: "Stop the sending; events are still collected", body: true, handle: (*server).pauseSubscription},
		{method: "POST", path: "/v1/subscriptions/{subscription}/resume", scope: scopeManage, noun: "subscription", does: "End a pause or a disabling", body: true, handle: (*server).resumeSubscription},
		{method: "POST", path: "/v1/subscriptions/{subscription}/test", scope: scopeManage, noun: "subscription", does: "Send a ping now", body: true, handle: (*server).testSubscription},
		{method: "POST", path: "/v1/subscriptions/{subscription}/rotate", scope: scopeManage, noun: "subscription", does: "Give it a new secret", body: true, handle: (*server).rotateSubscription},
		{method: "POST", path: "/v1/subscriptions/{subscription}/inject", scope: scopeManage, noun: "subscription", does: "Put stored events into this subscription alone", body: true, handle: (*server).injectSubscription},
		{method: "GET", path: "/v1/subscriptions/{subscription}/batches", scope: scopeManage, noun: "subscription", does: "List batches, oldest first", query: append(page(), "state"), handle: (*server).batches},
		{method: "GET", path: "/v1/subscriptions/{subscription}/batches/{id}", scope: scopeManage, noun: "subscription", does: "Show a batch with its events", handle: (*server).batch},
		{method: "DELETE", path: "/v1/subscriptions/{subscription}/batches/{id}", scope: scopeManage, noun: "subscription", does: "Remove a batch", handle: (*server).dropBatch},
		{method: "POST", path: "/v1/subscriptions/{subscription}/batches/{id}/retry", scope: scopeManage, noun: "subscription", does: "Send a batch at once", body: true, handle: (*server).retryBatch},
		{method: "POST", path: "/v1/subscriptions/{subscription}/dead/retry", scope: scopeManage, noun: "subscription", does: "Send all dead batches again", body: true, handle: (*server).retryDead},
		{method: "GET", path: "/v1/subscriptions/{subscription}/attempts", scope: scopeManage, noun: "subscription", does: "Show the last attempts, newest first", query: []string{"batch", "event"}, handle: (*server).attempts},
	}
}

// operationRoutes are about operations. Whoever has an operation's id may look at it and cancel it.
func operationRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/operations", scope: scopePublish, noun: "operation", does: "Enqueue one piece of work", body: true, handle: (*server).startOperation},
		{method: "GET", path: "/v1/operations", scope: scopeManage, noun: "operation", does: "List operations of a subject or a queue, newest first", query: append(page(), "subject", "status", "queue", "tenant"), handle: (*server).operations},
		{method: "GET", path: "/v1/operations/counts", scope: scopeManage, noun: "operation", does: "Count what happened to a queue's operations", query: []string{"queue", "since", "until", "bucket"}, handle: (*server).operationCounts},
		{method: "GET", path: "/v1/operations/{id}", scope: scopePublish, noun: "operation", does: "Show an operation, now or when its status is another", query: []string{"wait", "seen"}, handle: (*server).operation},
		{method: "GET", path: "/v1/operations/{id}/watch", scope: scopePublish, noun: "operation", does: "Watch an operation until it has finished, as server-sent events", handle: (*server).watchOperation},
		{method: "POST", path: "/v1/operations/{id}/cancel", scope: scopePublish, noun: "operation", does: "Cancel an operation, or ask for it if it is running", body: true, handle: (*server).cancelOperation},
		{method: "POST", path: "/v1/operations/{id}/progress", scope: scopeConsume, noun: "operation", does: "Tell how far an operation has come", body: true, handle: (*server).reportProgress},
	}
}

// triggerRoutes are about triggers, and what their URLs do.
func triggerRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/triggers", scope: scopeManage, noun: "trigger", does: "List triggers", query: page(), handle: (*server).triggers},
		{method: "GET", path: "/v1/triggers/{trigger}", scope: scopeManage, noun: "trigger", does: "Show a trigger and how often it was called", handle: (*server).trigger},
		{method: "PUT", path: "/v1/triggers/{trigger}", scope: scopeManage, noun: "trigger", does: "Define a trigger", body: true, handle: (*server).putTrigger},
		{method: "DELETE", path: "/v1/triggers/{trigger}", scope: scopeManage, noun: "trigger", does: "Remove a trigger", handle: (*server).deleteTrigger},
		{method: "POST", path: "/v1/triggers/{trigger}/rotate", scope: scopeManage, noun: "trigger", does: "Give it a new URL; the old one is unknown from now on", body: true, handle: (*server).rotateTrigger},
		{method: "POST", path: "/t/{secret}", scope: scopeNone, noun: "trigger", does: "Do what the trigger of this URL does; the URL is all that is needed", body: true, takes: takesAnything, handle: (*server).fire},
	}
}

// houseRoutes are about the store and its nodes.
func houseRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/definitions", scope: scopeManage, noun: "store", does: "Show all definitions as one document", handle: (*server).definitions},
		{method: "PUT", path: "/v1/definitions", scope: scopeManage, noun: "store", does: "Apply a document of definitions, all or nothing", query: []string{"prune", "dry_run"}, body: true, handle: (*server).putDefinitions},
		{method: "GET", path: "/v1/nodes", scope: scopeManage, noun: "node", does: "List the processes that have joined the store", handle: (*server).nodes},
		{method: "GET", path: "/v1/stats", scope: scopeManage, noun: "store", does: "Describe the store", handle: (*server).stats},
		{method: "GET", path: "/livez", scope: scopeNone, ofNode: true, noun: "store", does: "Say that the process lives", anyQuery: true, handle: (*server).live},
		{method: "GET", path: "/readyz", scope: scopeNone, ofNode: true, noun: "store", does: "Say whether requests can be served", anyQuery: true, handle: (*server).ready},
		{method: "GET", path: "/healthz", scope: scopeNone, ofNode: true, noun: "store", does: "Say whether requests can be served", anyQuery: true, handle: (*server).ready},
		{method: "GET", path: "/openapi.json", scope: scopeNone, ofNode: true, noun: "store", does: "Describe this API", anyQuery: true, handle: (*server).describe},
	}
}

// mount registers every route, and what becomes of requests that have none.
func (s *server) mount(version string) {
	s.mux = http.NewServeMux()
	doc := huma.NewAPI(huma.Config{OpenAPI: newDocument(version)}, humago.NewAdapter(s.mux, ""))
	described := descriptions()
	for _, rt := range s.routes {
		op := rt.operation(described[rt.method+" "+rt.path])
		doc.OpenAPI().AddOperation(op)
		step, name := s.handle(&rt), rt.method+" "+rt.path
		doc.Adapter().Handle(op, func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			s.serve(w, r, name, step)
		})
	}
	s.mux.HandleFunc("/", s.unknown)
	text, err := json.Marshal(doc.OpenAPI())
	if err != nil {
		panic("describe the API: " + err.Error()) // it is made of constants
	}
	s.openAPI = text
}

// unknown answers a request that no route takes.
func (s *server) unknown(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, unknownRoute, func(_ http.ResponseWriter, c *call) (answer, error) {
		methods := s.methodsOf(c.URL.EscapedPath())
		switch {
		case len(methods) == 0:
			return answer{}, millrace.ErrNotFound
		case c.Method == http.MethodOptions:
			return answer{status: http.StatusNoContent, allow: strings.Join(methods, ", ")}, nil
		}
		a := answer{allow: strings.Join(methods, ", ")}
		return a, millrace.Errorf(millrace.CodeMethodNotAllowed, "this path takes %s", a.allow)
	})
}

// methodsOf is what a path can be asked for; nothing if it is not a path of ours.
func (s *server) methodsOf(path string) (methods []string) {
	for _, rt := range s.routes {
		if !rt.fits(path) {
			continue
		}
		methods = append(methods, rt.method)
		if rt.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	if len(methods) > 0 {
		methods = append(methods, http.MethodOptions)
		slices.Sort(methods)
		methods = slices.Compact(methods) // several routes may fit, of which one is more special
	}
	return methods
}

// isPlace reports whether a part of a path is no value but a place: this one, or the one above.
func isPlace(part string) bool { return part == "" || part == "." || part == ".." }

func (rt *route) fits(path string) bool {
	want, got := strings.Split(rt.path, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && (!strings.HasPrefix(want[i], "{") || isPlace(got[i])) {
			return false
		}
	}
	return true
}
