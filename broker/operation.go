package broker

import "github.com/millrace-dev/millrace"

// Operations is what is done with operations.
func (b *Broker) Operations() millrace.OperationService { return nil }

// Triggers is what is done with triggers.
func (b *Broker) Triggers() millrace.TriggerService { return nil }
