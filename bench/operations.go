package main

import (
	"context"
	"fmt"

	"github.com/millrace-dev/millrace"
)

// operations measures whether a page of a subject's operations costs more when the subject has many, or when the page
// lies deep. All subjects are in one store; a page is ten operations, with their details.
type operations struct{ site }

const (
	manyOperations = 100_000
	fewOperations  = 10
	pageSize       = 10
	deepPage       = 1000
	pagesOfAChunk  = 100
	operationsGoal = 1.5
)

func (o operations) run(ctx context.Context, quick bool) ([]finding, error) {
	m, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if err := o.setUp(ctx, m); err != nil {
		return nil, err
	}
	deep, err := o.cursorOf(ctx, m, deepPage)
	if err != nil {
		return nil, err
	}
	page := func(subject, cursor string) side {
		return side{redis: m.redis, chunk: func(ctx context.Context) (int, error) { return pagesOfAChunk, o.look(ctx, m, subject, cursor) }}
	}
	var all []finding
	for _, at := range []struct{ what, cursor string }{{"page 1", ""}, {"page 1,000", deep}} {
		p, err := interleave(ctx, sized(quick, 12, 50), page("many", at.cursor), page("few", ""))
		if err != nil {
			return nil, err
		}
		all = append(all, p.compareAll(at.what+" of 100,000 operations / page 1 of 10", o.site, operationsGoal)...)
	}
	return all, nil
}

// setUp opens the operations of both subjects, by events with their keys.
func (o operations) setUp(ctx context.Context, m *mill) error {
	spec := millrace.DefaultQueueSpec(":" + trackedQueue + ":")
	spec.Tracked = true
	if err := m.define(ctx, trackedQueue, spec); err != nil {
		return err
	}
	for subject, n := range map[string]int{"many": manyOperations, "few": fewOperations} {
		err := m.publishMany(ctx, n, millrace.MaxEvents, func(int) millrace.Event {
			return millrace.Event{Topic: trackedQueue, Type: "order.placed", Key: subject, Data: payload()}
		})
		if err != nil {
			return err
		}
	}
	return calmDown(ctx)
}

func (o operations) page(ctx context.Context, m *mill, subject, cursor string) (next string, err error) {
	list, next, err := m.Operations().List(ctx, millrace.OperationQuery{
		Subject: subject, Tenant: millrace.DefaultTenant, Page: millrace.Page{Limit: pageSize, Cursor: cursor},
	})
	if err != nil || len(list) != pageSize {
		return "", fmt.Errorf("list operations of %s: got %d, want %d: %v", subject, len(list), pageSize, err)
	}
	return next, nil
}

// cursorOf walks to a page of the many and returns where it begins.
func (o operations) cursorOf(ctx context.Context, m *mill, page int) (cursor string, err error) {
	for range page - 1 {
		if cursor, err = o.page(ctx, m, "many", cursor); err != nil {
			return "", err
		}
	}
	return cursor, nil
}

// look reads one page, often.
func (o operations) look(ctx context.Context, m *mill, subject, cursor string) error {
	for range pagesOfAChunk {
		if _, err := o.page(ctx, m, subject, cursor); err != nil {
			return err
		}
	}
	return nil
}
