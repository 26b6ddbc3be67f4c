package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newQueueTenants(r *remote) *cobra.Command {
	page := millrace.Page{}
	cmd := &cobra.Command{
		Use:   "tenants NAME",
		Short: "List a queue's tenants, deepest first",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			tenants, next, err := c.Queues().Tenants(cmd.Context(), args[0], page)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendTenants(nil, tenants, place(next)), more(tenantRows(tenants...), next))
		},
	}
	pageFlags(cmd, &page)
	return cmd
}

func tenantRows(tenants ...millrace.Tenant) [][]string {
	rows := [][]string{{"TENANT", "READY", "LEASED", "DELAYED", "DEAD", "WEIGHT", "LIMIT", "OLDEST"}}
	for _, t := range tenants {
		limit := "-"
		if t.Limit > 0 {
			limit = strconv.Itoa(t.Limit)
		}
		rows = append(rows, []string{t.Name, count(t.Ready), count(t.Leased), count(t.Delayed), count(t.Dead), strconv.Itoa(t.Weight), limit, moment(t.Oldest)})
	}
	return rows
}

// weightFlags are the flags of weight.
type weightFlags struct {
	millrace.TenantSettings
	reset bool
}

func newQueueWeight(r *remote) *cobra.Command {
	w := weightFlags{TenantSettings: millrace.TenantSettings{Weight: 1, Limit: -1}}
	cmd := &cobra.Command{
		Use:     "weight NAME TENANT",
		Short:   "Give a tenant a weight and a limit, or show them",
		Example: "  millrace queue weight emails acme --weight 5\n  millrace queue weight emails acme --weight 0   # paused: its messages pile up",
		Args:    exactArgs("NAME", "TENANT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			changes := cmd.Flags().Changed("weight") || cmd.Flags().Changed("limit")
			if changes && w.reset {
				return usagef("--reset takes weight and limit away: give it alone")
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			t, err := w.apply(cmd.Context(), c.Queues(), args[0], args[1], changes)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendTenant(nil, &t), tenantRows(t))
		},
	}
	f := cmd.Flags()
	f.IntVar(&w.Weight, "weight", w.Weight, "messages a turn; 0 pauses the tenant; 1 if left out beside --limit")
	f.IntVar(&w.Limit, "limit", w.Limit, "most messages in flight; 0 for no limit; the queue's if left out or negative")
	f.BoolVar(&w.reset, "reset", false, "weight 1 and the queue's limit again")
	return cmd
}

// apply does what the flags say and returns the tenant as it is then.
func (w *weightFlags) apply(ctx context.Context, q millrace.QueueService, name, tenant string, changes bool) (millrace.Tenant, error) {
	if changes {
		return q.PutTenant(ctx, name, tenant, w.TenantSettings)
	}
	if w.reset {
		if err := q.DeleteTenant(ctx, name, tenant); err != nil {
			return millrace.Tenant{}, err
		}
	}
	return q.Tenant(ctx, name, tenant)
}
