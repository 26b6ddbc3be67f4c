package client

import "github.com/millrace-dev/millrace"

// Operations is what is done with operations.
func (c *Client) Operations() millrace.OperationService { return nil }

// Triggers is what is done with triggers.
func (c *Client) Triggers() millrace.TriggerService { return nil }
