package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/worker"
)

// errBroken is a link that no further attempt will mend.
var errBroken = errors.New("the repository is not there")

// syncFunc syncs a link and tells of its progress; it returns how many files have changed.
type syncFunc func(ctx context.Context, link string, progress func(percent int, note string) error) (files int, err error)

// result is what a sync leaves behind.
type result struct {
	Files int `json:"files"`
}

// handler works on one click: what it returns ends the operation, or has it tried again.
func handler(sync syncFunc) worker.Handler {
	return func(ctx context.Context, m millrace.Message) error {
		var ask request
		if err := json.Unmarshal(m.Event.Data, &ask); err != nil {
			return worker.Bury(fmt.Errorf("read request: %w", err))
		}
		files, err := sync(ctx, ask.Link, func(percent int, note string) error {
			return worker.Progress(ctx, percent, note)
		})
		if errors.Is(err, errBroken) {
			return worker.Bury(err)
		}
		if err != nil {
			return err
		}
		return worker.Output(ctx, result{Files: files})
	}
}

// pretend takes some seconds and fails for the link that is called broken. It stops when its operation is cancelled.
func pretend(ctx context.Context, link string, progress func(percent int, note string) error) (int, error) {
	for i, note := range []string{"cloning", "comparing", "writing"} {
		if err := progress(100*i/3, note); err != nil {
			return 0, err
		}
		if i == 1 && link == "broken" {
			return 0, errBroken
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return len(link), nil
}
