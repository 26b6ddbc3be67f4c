package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// tenantFields is how many values a script tells of a tenant.
const tenantFields = 7

// SetTenant gives a tenant a weight and a limit; nil takes them away.
func (e *Engine) SetTenant(ctx context.Context, lane int, queue, tenant string, s *millrace.TenantSettings) error {
	own := ""
	if s != nil {
		own = strconv.Itoa(max(s.Weight, 0)) + " " + strconv.Itoa(s.Limit)
	}
	_, err := e.runLane(ctx, &e.scripts.tenantSet, lane, timeless, queue, tenant, own)
	return err
}

// Tenants lists tenants that hold anything or have settings, by name after one.
func (e *Engine) Tenants(ctx context.Context, lane int, queue, after string, limit int) ([]millrace.TenantStats, error) {
	if limit <= 0 {
		return nil, nil
	}
	return e.tenants(ctx, lane, queue, after, min(limit, millrace.MaxPage))
}

// Tenant shows one tenant.
func (e *Engine) Tenant(ctx context.Context, lane int, queue, tenant string) (millrace.TenantStats, error) {
	shown, err := e.tenants(ctx, lane, queue, tenant, 0)
	if err != nil {
		return millrace.TenantStats{}, err
	}
	return shown[0], nil
}

func (e *Engine) tenants(ctx context.Context, lane int, queue, from string, limit int) ([]millrace.TenantStats, error) {
	reply, err := e.runLane(ctx, &e.scripts.tenantList, lane, timeless, queue, from, strconv.Itoa(limit))
	if err != nil {
		return nil, err
	}
	var shown []millrace.TenantStats
	for ; len(reply) >= tenantFields; reply = reply[tenantFields:] {
		t, err := e.tenantStats(reply)
		if err != nil {
			return nil, err
		}
		shown = append(shown, t)
	}
	return shown, nil
}

func (e *Engine) tenantStats(list []rueidis.RedisMessage) (millrace.TenantStats, error) {
	n := ints(list[1:5])
	t := millrace.TenantStats{
		Tenant:      textOf(list[0]),
		QueueCounts: millrace.QueueCounts{Ready: n[0], Leased: n[1], Delayed: n[2], Dead: n[3]},
	}
	if own := textOf(list[5]); own != "" {
		t.Settings = &millrace.TenantSettings{}
		if _, err := fmt.Sscanf(own, "%d %d", &t.Settings.Weight, &t.Settings.Limit); err != nil {
			return t, millrace.Wrap(millrace.CodeInternal, err, "the store holds settings of a tenant that cannot be read")
		}
	}
	if oldest, err := strconv.ParseUint(textOf(list[6]), 10, 64); err == nil && oldest > 0 {
		t.Oldest = time.Unix(60*millrace.MinuteOfSeq(oldest, len(e.own)), 0).UTC()
	}
	return t, nil
}

// splitWho is the reverse of whoOf.
func splitWho(who string) (tenant, key string) {
	tenant, key, _ = strings.Cut(who, "\x00")
	return tenant, key
}
