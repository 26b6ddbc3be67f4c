package client

import (
	"context"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// topics is what is done with topics.
type topics struct{ c *Client }

func (t topics) Get(ctx context.Context, name string) (millrace.Topic, error) {
	if err := nameFault("topic", name); err != nil {
		return millrace.Topic{}, err
	}
	return t.read(ctx, get("topics", name))
}

func (t topics) Put(ctx context.Context, name, publisher string) (millrace.Topic, error) {
	if err := nameFault("topic", name); err != nil {
		return millrace.Topic{}, err
	}
	return t.read(ctx, put(api.AppendTopicPut(nil, publisher), "topics", name))
}

func (t topics) read(ctx context.Context, k call) (millrace.Topic, error) {
	r, err := t.c.do(ctx, k)
	if err != nil {
		return millrace.Topic{}, err
	}
	topic, err := api.DecodeTopic(r.text)
	return topic, understood(err)
}

func (t topics) List(ctx context.Context, page millrace.Page) ([]millrace.Topic, string, error) {
	k := get("topics")
	k.query = api.EncodePage(page)
	r, err := t.c.do(ctx, k)
	if err != nil {
		return nil, "", err
	}
	list, next, err := api.DecodeTopics(r.text)
	return list, next, understood(err)
}

func (t topics) Delete(ctx context.Context, name string) error {
	if err := nameFault("topic", name); err != nil {
		return err
	}
	return t.c.remove(ctx, remove("topics", name))
}

// remove deletes something. If an earlier try got no answer and it is gone now, that is what was asked.
func (c *Client) remove(ctx context.Context, k call) error {
	r, err := c.do(ctx, k)
	if r.again && millrace.CodeOf(err) == millrace.CodeNotFound {
		return nil
	}
	return err
}
