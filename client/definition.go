package client

import (
	"context"
	"net/url"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// Definitions is everything that is defined, as one document.
func (c *Client) Definitions(ctx context.Context) (millrace.Document, error) {
	r, err := c.do(ctx, get("definitions"))
	if err != nil {
		return millrace.Document{}, err
	}
	doc, err := api.DecodeDefinitions(r.text)
	return doc, understood(err)
}

// Apply makes a document's definitions the store's; see millrace.Backbone. A
// document that had to be sent again may find its first sending done.
func (c *Client) Apply(ctx context.Context, doc millrace.Document, o millrace.ApplyOptions) (millrace.Applied, error) {
	if err := millrace.Invalid(doc.Faults("")); err != nil {
		return millrace.Applied{}, err
	}
	k := put(api.AppendDocument(nil, &doc), "definitions")
	k.query = url.Values{}
	if o.Prune {
		k.query.Set("prune", "true")
	}
	if o.DryRun {
		k.query.Set("dry_run", "true")
	}
	r, err := c.do(ctx, k)
	if err != nil {
		return millrace.Applied{}, err
	}
	applied, err := api.DecodeApplied(r.text)
	return applied, understood(err)
}
