package client

import (
	"context"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// Stats describes the store.
func (c *Client) Stats(ctx context.Context) (millrace.Stats, error) {
	r, err := c.do(ctx, get("stats"))
	if err != nil {
		return millrace.Stats{}, err
	}
	stats, err := api.DecodeStats(r.text)
	return stats, understood(err)
}

// Nodes lists the processes that have joined the store.
func (c *Client) Nodes(ctx context.Context) ([]millrace.Node, error) {
	r, err := c.do(ctx, get("nodes"))
	if err != nil {
		return nil, err
	}
	nodes, err := api.DecodeNodes(r.text)
	return nodes, understood(err)
}
