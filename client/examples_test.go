package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/client"
	"github.com/millrace-dev/millrace/httpapi"
)

// serve stands for a server somewhere: `millrace serve`.
func serve() (url string, stop func()) {
	b, err := broker.Open(context.Background(), "memory:", broker.Options{})
	must(err)
	server := httptest.NewServer(httpapi.Handler(b, httpapi.Options{}))
	return server.URL, func() {
		server.Close()
		must(b.Close(context.Background()))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func Example() {
	url, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url, client.Options{})
	must(err)
	defer c.Close()

	_, created, err := c.Queues().Put(ctx, "emails", millrace.DefaultQueueSpec(":orders:"))
	must(err)
	fmt.Println("created:", created)

	event := millrace.Event{ID: "a-1", Topic: "orders", Type: "created", Tenant: "acme"}
	for range 2 { // sent again, it is stored once
		published, err := c.Publish(ctx, event)
		must(err)
		fmt.Println("duplicate:", published[0].Duplicate)
	}

	messages, err := c.Queues().Lease(ctx, "emails", millrace.LeaseOptions{Max: 10})
	must(err)
	settled, err := c.Queues().Ack(ctx, "emails", millrace.Settlement{Receipt: messages[0].Receipt})
	must(err)
	fmt.Println("settled:", settled.Settled)
	// Output:
	// created: true
	// duplicate: false
	// duplicate: true
	// settled: 1
}

// Errors have codes that never change; the text is for people.
func ExampleClient_errors() {
	url, stop := serve()
	defer stop()
	c, err := client.New(url, client.Options{})
	must(err)
	defer c.Close()

	_, err = c.Queues().Get(context.Background(), "nowhere")
	fmt.Println(errors.Is(err, millrace.ErrNotFound), millrace.CodeOf(err))
	// Output: true not_found
}
