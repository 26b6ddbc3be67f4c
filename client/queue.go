package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// queues is what is done with queues.
type queues struct{ c *Client }

func (q queues) Put(ctx context.Context, name string, spec millrace.QueueSpec) (millrace.Queue, bool, error) {
	if err := nameFault("queue", name); err != nil {
		return millrace.Queue{}, false, err
	}
	r, err := q.c.do(ctx, put(api.AppendQueueSpec(nil, &spec), "queues", name))
	if err != nil {
		return millrace.Queue{}, false, err
	}
	queue, err := api.DecodeQueue(r.text)
	return queue, r.status == http.StatusCreated, understood(err)
}

func (q queues) Get(ctx context.Context, name string) (millrace.Queue, error) {
	if err := nameFault("queue", name); err != nil {
		return millrace.Queue{}, err
	}
	r, err := q.c.do(ctx, get("queues", name))
	if err != nil {
		return millrace.Queue{}, err
	}
	queue, err := api.DecodeQueue(r.text)
	return queue, understood(err)
}

func (q queues) List(ctx context.Context, page millrace.Page) ([]millrace.Queue, string, error) {
	k := get("queues")
	k.query = api.EncodePage(page)
	r, err := q.c.do(ctx, k)
	if err != nil {
		return nil, "", err
	}
	list, next, err := api.DecodeQueues(r.text)
	return list, next, understood(err)
}

func (q queues) Delete(ctx context.Context, name string, ifEmpty bool) error {
	if err := nameFault("queue", name); err != nil {
		return err
	}
	k := remove("queues", name)
	if ifEmpty {
		k.query = url.Values{"if_empty": {"true"}}
	}
	return q.c.remove(ctx, k)
}

func (q queues) Pause(ctx context.Context, name string) error { return q.act(ctx, name, "pause") }

func (q queues) Resume(ctx context.Context, name string) error { return q.act(ctx, name, "resume") }

// act does something with a queue that needs no words; done twice it is done.
func (q queues) act(ctx context.Context, name, verb string) error {
	if err := nameFault("queue", name); err != nil {
		return err
	}
	_, err := q.c.do(ctx, post(nil, "queues", name, verb))
	return err
}
