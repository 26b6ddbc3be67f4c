package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newQueueDrop(r *remote) *cobra.Command {
	which := millrace.DeadSelection{}
	var yes bool
	cmd := &cobra.Command{
		Use:     "drop NAME --yes --all | MESSAGE...",
		Short:   "Remove dead letters",
		Example: "  millrace queue drop emails 01K0C --yes\n  millrace queue drop emails --all --tenant acme --yes",
		Args:    atLeast("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			which.IDs = args[1:]
			switch named := len(which.IDs) > 0; {
			case named == which.All:
				return usagef("name the messages, as `queue dead` shows them, or give --all")
			case named && which.Tenant != "":
				return usagef("--tenant goes with --all, not with messages")
			case !yes:
				return usagef("this removes dead letters for good: look with `millrace queue dead %s`, then add --yes", args[0])
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			done, left, err := dropAll(cmd.Context(), c.Queues(), args[0], which)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendPurged(nil, done, left), [][]string{{"DROPPED", "REMAINING"}, {strconv.Itoa(done), strconv.Itoa(left)}})
		},
	}
	cmd.Flags().BoolVar(&which.All, "all", false, "all of them")
	cmd.Flags().StringVar(&which.Tenant, "tenant", "", "with --all, of this tenant alone")
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, for good")
	return cmd
}

// dropAll removes as many dead letters as there were when it began.
func dropAll(ctx context.Context, q millrace.QueueService, name string, which millrace.DeadSelection) (done, left int, err error) {
	done, left, err = q.DropDead(ctx, name, which)
	for total := done + left; which.All && err == nil && left > 0 && done < total; {
		var n int
		if n, left, err = q.DropDead(ctx, name, which); n == 0 {
			break
		}
		done += n
	}
	return done, left, err
}
