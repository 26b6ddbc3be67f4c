package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func (q queues) Peek(ctx context.Context, name, tenant string, limit int) ([]millrace.StoredMessage, error) {
	messages, _, err := q.stored(ctx, name, "peek", tenant, millrace.Page{Limit: limit})
	return messages, err
}

func (q queues) Dead(ctx context.Context, name, tenant string, page millrace.Page) ([]millrace.StoredMessage, string, error) {
	return q.stored(ctx, name, "dead", tenant, page)
}

// stored asks for messages that wait or are dead.
func (q queues) stored(ctx context.Context, name, what, tenant string, page millrace.Page) ([]millrace.StoredMessage, string, error) {
	k := get("queues", name, what)
	k.query = api.EncodePage(page)
	if err := api.Join(nameFault("queue", name), k.about(tenant)); err != nil {
		return nil, "", err
	}
	r, err := q.c.do(ctx, k)
	if err != nil {
		return nil, "", err
	}
	messages, next, err := api.DecodeStoredMessages(r.text)
	return messages, next, understood(err)
}

// about narrows a call to one tenant, if there is one.
func (k *call) about(tenant string) error {
	if tenant == "" {
		return nil
	}
	if k.query == nil {
		k.query = url.Values{}
	}
	k.query.Set("tenant", tenant)
	return nameFault("tenant", tenant)
}

// Redrive is asked once: asked again for all it would take the next thousand too.
func (q queues) Redrive(ctx context.Context, name string, which millrace.DeadSelection) (done, left int, err error) {
	if err := api.Join(nameFault("queue", name), selectionFault(which)); err != nil {
		return 0, 0, err
	}
	k := post(api.AppendRedrive(nil, which), "queues", name, "dead", "redrive")
	k.once = true
	r, err := q.c.do(ctx, k)
	if err != nil {
		return 0, 0, err
	}
	done, left, err = api.DecodeRedriven(r.text)
	return done, left, understood(err)
}

// DropDead is asked once for all: asked again it would remove the next thousand, and
// the count of the first is lost.
func (q queues) DropDead(ctx context.Context, name string, which millrace.DeadSelection) (done, left int, err error) {
	if err := api.Join(nameFault("queue", name), selectionFault(which)); err != nil {
		return 0, 0, err
	}
	if len(which.IDs) > 0 {
		done, err = q.dropEach(ctx, name, which.IDs)
		return done, 0, err
	}
	k := remove("queues", name, "dead")
	k.once = true
	if err := k.about(which.Tenant); err != nil {
		return 0, 0, err
	}
	r, err := q.c.do(ctx, k)
	if err != nil {
		return 0, 0, err
	}
	done, left, err = api.DecodePurged(r.text)
	return done, left, understood(err)
}

// dropEach removes dead letters one by one; of several those that are gone are passed over.
func (q queues) dropEach(ctx context.Context, name string, ids []string) (done int, err error) {
	for _, id := range ids {
		err := q.c.remove(ctx, remove("queues", name, "dead", id))
		switch {
		case err == nil:
			done++
		case len(ids) > 1 && millrace.CodeOf(err) == millrace.CodeNotFound:
			if _, err := q.Get(ctx, name); err != nil { // it is the queue that is gone
				return done, err
			}
		default:
			return done, err
		}
	}
	return done, nil
}

// selectionFault refuses what selects nothing, or twice.
func selectionFault(which millrace.DeadSelection) error {
	var message string
	switch n := len(which.IDs); {
	case n == 0 && !which.All:
		message = "must hold ids, or all"
	case n > 0 && (which.All || which.Tenant != ""):
		message = "must hold either ids or all"
	case n > api.MaxIDs:
		message = "must hold at most " + strconv.Itoa(api.MaxIDs) + " ids"
	case which.Tenant != "":
		return nameFault("tenant", which.Tenant)
	default:
		return idFaults(which.IDs)
	}
	return millrace.Invalid([]millrace.Fault{{Location: "ids", Message: message}})
}

func idFaults(ids []string) error {
	faults := make([]error, 0, len(ids))
	for i, id := range ids {
		faults = append(faults, textFault("ids["+strconv.Itoa(i)+"]", id))
	}
	return api.Join(faults...)
}

// Purge is asked once: asked again it would remove what came in meanwhile.
func (q queues) Purge(ctx context.Context, name, tenant string) (done, left int, err error) {
	fault := nameFault("queue", name)
	if tenant != "" {
		fault = api.Join(fault, nameFault("tenant", tenant))
	}
	if fault != nil {
		return 0, 0, fault
	}
	k := post(api.AppendPurge(nil, tenant), "queues", name, "purge")
	k.once = true
	r, err := q.c.do(ctx, k)
	if err != nil {
		return 0, 0, err
	}
	done, left, err = api.DecodePurged(r.text)
	return done, left, understood(err)
}
