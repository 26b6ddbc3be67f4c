package api

import (
	"strconv"

	"github.com/millrace-dev/millrace"
)

// leaseSchemas are what consumers ask for and get.
func leaseSchemas() map[string]Schema {
	options := []member{
		may("max", with(integer(1, millrace.MaxLeaseCount), "default", 1)),
		may("wait", about(with(duration(), "default", "0s"), "For the first message; at most "+FormatDuration(millrace.MaxWait)+".")),
		may("lease", about(duration(), "The queue's if it is left out; else "+between(millrace.MinLease, millrace.MaxLease)+", or 0s: the messages are gone when they are given, and have no receipt.")),
		may("consumer", about(nameSchema(), "Who asks, for release.")),
	}
	queues := has("queues", about(Schema{
		"type": "object", "minProperties": 1, "maxProperties": maxLeaseQueues,
		"propertyNames": nameSchema(), "additionalProperties": integer(1, millrace.MaxWeight),
	}, "The weight of each queue."))
	return map[string]Schema{
		"Lease":    requestOf(options...),
		"LeaseAny": requestOf(append(options, queues)...),
		"Message": with(answerOf(
			has("id", filled(Schema{"type": "string"})), has("queue", nameSchema()),
			may("receipt", filled(Schema{"type": "string"})), has("attempt", integer(1, maxInteger)), may("leased_until", utcTime()),
			may("operation", about(filled(Schema{"type": "string"}), "The id of its operation; absent if the queue is not tracked.")),
			has("event", SchemaRef("Event")),
		), "dependentRequired", Schema{"receipt": []string{"leased_until"}, "leased_until": []string{"receipt"}}),
		"Messages": answerOf(has("messages", Schema{"type": "array", "items": SchemaRef("Message"), "maxItems": millrace.MaxLeaseCount})),
		"Release":  requestOf(has("consumer", nameSchema())),
		"Released": answerOf(has("released", count())),
	}
}

// settleSchemas are how leases end.
func settleSchemas() map[string]Schema {
	why := may("error", about(Schema{"type": "string"}, "Why; the first 1024 bytes are kept."))
	delay := may("delay", about(duration(), "At most "+FormatDuration(millrace.MaxDelay)+"; the queue's backoff if it is left out."))
	lease := may("lease", about(duration(), "From now; the queue's if it is left out."))
	output := may("output", Schema{"description": "What came of it, any JSON of at most " + strconv.Itoa(millrace.MaxOutput) + " bytes; only tracked work keeps it."})
	lost := has("lost", about(listOf(Schema{"type": "string"}), "Receipts that were never given, of another queue, spent or expired."))
	return map[string]Schema{
		"Ack":     settleSchema(output),
		"Retry":   settleSchema(delay, why),
		"Bury":    settleSchema(why),
		"Extend":  settleSchema(lease),
		"Settled": answerOf(has("settled", count()), lost, has("dead", about(count(), "How many had spent their attempts."))),
		"Extended": answerOf(has("settled", count()), lost, has("leased_until", about(orNull(utcTime()), "The earliest end.")),
			has("cancelled", about(listOf(Schema{"type": "string"}), "Those whose operation is to be cancelled."))),
	}
}

// settleSchema is a settlement: receipts with one argument for all, or items with one each.
func settleSchema(arguments ...member) Schema {
	receipt := Schema{"type": "string"}
	receipts := append([]member{has("receipts", with(list(receipt, 0, millrace.MaxReceipts), "uniqueItems", true))}, arguments...)
	item := append([]member{has("receipt", receipt)}, arguments...)
	return Schema{"oneOf": []Schema{
		requestOf(receipts...),
		requestOf(has("items", list(requestOf(item...), 0, millrace.MaxReceipts))),
	}}
}

// deadSchemas are messages that wait or are dead.
func deadSchemas() map[string]Schema {
	id := filled(Schema{"type": "string"})
	return map[string]Schema{
		"StoredMessage": answerOf(
			has("id", id), has("attempts", count()),
			has("reason", Schema{"enum": []any{millrace.ReasonAttempts, millrace.ReasonBuried, nil}}), has("error", Schema{"type": []string{"string", "null"}}),
			has("dead_at", orNull(utcTime())), has("event", SchemaRef("Event"))),
		"Peeked":      answerOf(has("messages", listOf(SchemaRef("StoredMessage")))),
		"DeadLetters": page("messages", SchemaRef("StoredMessage")),
		"Redrive": {"oneOf": []Schema{
			requestOf(has("ids", list(id, 1, MaxIDs)), may("all", Schema{"const": false})),
			requestOf(has("all", Schema{"const": true}), may("tenant", nameSchema())),
		}},
		"Redriven": answerOf(has("redriven", count()), has("remaining", count())),
		"Purge":    requestOf(may("tenant", about(nameSchema(), "Every tenant if it is left out."))),
		"Purged":   answerOf(has("purged", count()), has("remaining", count())),
	}
}
