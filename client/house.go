package client

import (
	"context"
	"fmt"
	"io"
	"net/http"

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

var _ millrace.Diagnoser = (*Client)(nil)

// Diagnose asks the server how its store fares. It asks once: a server that
// does not answer is what the caller wants to know.
func (c *Client) Diagnose(ctx context.Context) ([]millrace.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/readyz?verbose", nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, connectionError(ctx, &call{method: http.MethodGet}, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, connectionError(ctx, &call{method: http.MethodGet}, err)
	}
	found, err := api.DecodeReadiness(text)
	switch {
	case err == nil && len(found) > 0: // also when the server is not ready
		return found, nil
	case res.StatusCode == http.StatusOK:
		return nil, millrace.Errorf(millrace.CodeInternal, "the server's answer is not understood")
	}
	return nil, api.DecodeProblem(res.StatusCode, text)
}
