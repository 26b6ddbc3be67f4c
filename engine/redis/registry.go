package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-dev/millrace"
)

// maxDeleted is how many deleted definitions the registry remembers.
const maxDeleted = 1000

// Define writes a definition as the next version of the registry.
func (e *Engine) Define(ctx context.Context, d millrace.Definition, replaces uint64) (millrace.Definition, error) {
	done, err := e.DefineAll(ctx, []millrace.Redefinition{{Definition: d, Replaces: replaces}})
	if err != nil {
		return d, err
	}
	return done[0], nil
}

// DefineAll writes several definitions in one step, or none.
func (e *Engine) DefineAll(ctx context.Context, list []millrace.Redefinition) ([]millrace.Definition, error) {
	args := []string{strconv.Itoa(maxDeleted)}
	for _, d := range list {
		if !goodUID(d.UID) {
			return nil, millrace.Errorf(millrace.CodeInvalid, "the uid cannot be part of a key")
		}
		deleted := "0"
		if d.Deleted {
			deleted = "1"
		}
		args = append(args, string(d.Kind)+"/"+d.Name, d.UID, string(d.Spec), deleted, strconv.FormatUint(d.Replaces, 10))
	}
	reply, err := e.runControl(ctx, &e.scripts.registryDefine, args...)
	if err != nil {
		return nil, err
	}
	done := make([]millrace.Definition, len(list))
	for i := range list {
		done[i] = list[i].Definition
		done[i].Version = uint64(intOf(reply[i]))
	}
	return done, nil
}

// Definitions returns what changed after a version.
func (e *Engine) Definitions(ctx context.Context, since uint64) (millrace.Changes, error) {
	reply, err := e.runControl(ctx, &e.scripts.registryChanges, strconv.FormatUint(since, 10))
	if err != nil {
		return millrace.Changes{}, err
	}
	c := millrace.Changes{Version: uint64(intOf(reply[0])), Full: intOf(reply[1]) == 1}
	for list := listOf(reply[2]); len(list) >= 5; list = list[5:] {
		kind, name, _ := strings.Cut(textOf(list[3]), "/")
		c.Definitions = append(c.Definitions, millrace.Definition{
			Kind: millrace.Kind(kind), Name: name, UID: textOf(list[1]), Version: uint64(intOf(list[0])),
			Deleted: textOf(list[2]) == "1", Spec: []byte(textOf(list[4])),
		})
	}
	slices.SortFunc(c.Definitions, func(a, b millrace.Definition) int { return cmp.Compare(a.Version, b.Version) })
	return c, nil
}

// RaiseVersion moves the registry's version past v.
func (e *Engine) RaiseVersion(ctx context.Context, v uint64) (uint64, error) {
	reply, err := e.runControl(ctx, &e.scripts.registryRaise, strconv.FormatUint(v, 10))
	if err != nil {
		return 0, err
	}
	return uint64(intOf(reply[0])), nil
}

// Apply tells one lane of a version of the registry.
func (e *Engine) Apply(ctx context.Context, lane int, a millrace.Apply) ([]string, error) {
	args := []string{strconv.FormatUint(a.Version, 10), strconv.Itoa(len(a.Queues)), strconv.Itoa(len(a.Removed))}
	for _, q := range a.Queues {
		if !goodUID(q.UID) {
			return nil, millrace.Errorf(millrace.CodeInvalid, "the uid cannot be part of a key")
		}
		args = append(args, q.UID, strconv.FormatUint(q.Version, 10), strconv.Itoa(q.MaxAttempts), settings(q))
	}
	args = append(args, a.Removed...)
	for i := range a.Subscriptions {
		s := &a.Subscriptions[i]
		if !goodUID(s.UID) {
			return nil, millrace.Errorf(millrace.CodeInvalid, "the uid cannot be part of a key")
		}
		args = append(args, s.UID, strconv.FormatUint(s.Version, 10), pushSettings(s))
	}
	reply, err := e.runLane(ctx, &e.scripts.laneApply, lane, timeless, args...)
	if err != nil {
		return nil, err
	}
	return texts(reply), nil
}

// settings is what few queues have, as the scripts read it; empty for the others.
func settings(q millrace.QueueSettings) string {
	q.UID, q.Version, q.MaxAttempts = "", 0, 0
	if !q.Tracked {
		q.Retention, q.ErrorRetention = 0, 0
	}
	if q == (millrace.QueueSettings{}) {
		return ""
	}
	list := []string{
		flag(q.Block), span(q.BlockDelay), flag(q.Ordered), flag(q.Paused), strconv.Itoa(q.TenantLimit),
		strconv.Itoa(q.MaxLength), flag(q.DropOldest), span(q.DeadRetention),
	}
	if q.Tracked {
		list = append(list, span(q.Retention), span(q.ErrorRetention))
	}
	return strings.Join(list, " ")
}

// pushSettings is what the scripts know of a subscription: flags, numbers, waits, format.
func pushSettings(s *millrace.SubscriptionSettings) string {
	waits := make([]string, len(s.Schedule))
	for i, wait := range s.Schedule {
		waits[i] = strconv.FormatInt(wait.Milliseconds(), 10)
	}
	return strings.Join([]string{
		flag(s.Ordered) + flag(s.Paused) + flag(s.Disabled), span(s.Timeout), strconv.Itoa(s.MaxEvents), strconv.Itoa(s.MaxBytes),
		strconv.Itoa(s.Concurrency), span(s.Retention), strings.Join(waits, ","), s.Format,
	}, " ")
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
