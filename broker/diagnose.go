package broker

import (
	"context"

	"github.com/millrace-dev/millrace"
)

var _ millrace.Diagnoser = (*Broker)(nil)

// Diagnose looks at the store; a store that does not answer is a finding.
func (b *Broker) Diagnose(ctx context.Context) ([]millrace.Finding, error) {
	fail := func(err error) []millrace.Finding {
		return []millrace.Finding{{Name: "store", Grade: millrace.GradeFail, Detail: err.Error(), Next: "look at the store and at the server's log"}}
	}
	if err := b.Ready(ctx); err != nil {
		return fail(err), nil
	}
	engine, ok := b.engine.(millrace.Diagnoser)
	if !ok {
		return []millrace.Finding{{Name: "store", Grade: millrace.GradeOK}}, nil
	}
	found, err := engine.Diagnose(ctx)
	if err != nil {
		return fail(err), nil
	}
	return found, nil
}
