package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newQueueDropDead(r *remote) *cobra.Command {
	which := millrace.DeadSelection{}
	var yes bool
	cmd := &cobra.Command{
		Use:     "drop-dead NAME --yes --all | MESSAGE...",
		Short:   "Remove dead letters for good",
		Example: "  millrace queue drop-dead emails 01K0C --yes\n  millrace queue drop-dead emails --all --tenant acme --yes",
		Args:    atLeast("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := selectDead(&which, args[1:]); err != nil {
				return err
			}
			if !yes {
				return usagef("this removes dead letters for good: look with `millrace queue dead %s`, then add --yes", args[0])
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			done, left, err := allDead(cmd.Context(), args[0], which, c.Queues().DropDead)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendPurged(nil, done, left), [][]string{{"DROPPED", "REMAINING"}, {strconv.Itoa(done), strconv.Itoa(left)}})
		},
	}
	selectionFlags(cmd, &which)
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, for good")
	return cmd
}

// selectionFlags select dead letters together.
func selectionFlags(cmd *cobra.Command, which *millrace.DeadSelection) {
	cmd.Flags().BoolVar(&which.All, "all", false, "all of them")
	cmd.Flags().StringVar(&which.Tenant, "tenant", "", "with --all, of this tenant alone")
}

// selectDead adds the dead letters that the arguments name.
func selectDead(which *millrace.DeadSelection, ids []string) error {
	which.IDs = ids
	switch named := len(ids) > 0; {
	case named == which.All:
		return usagef("name the messages, as `queue dead` shows them, or give --all")
	case named && which.Tenant != "":
		return usagef("--tenant goes with --all, not with messages")
	}
	return nil
}

// allDead does something with as many dead letters as there were when it began;
// those that die meanwhile, or again, are not taken too.
func allDead(ctx context.Context, name string, which millrace.DeadSelection, do func(context.Context, string, millrace.DeadSelection) (int, int, error)) (done, left int, err error) {
	done, left, err = do(ctx, name, which)
	for total := done + left; which.All && err == nil && left > 0 && done < total; {
		var n int
		if n, left, err = do(ctx, name, which); n == 0 {
			break
		}
		done += n
	}
	return done, left, err
}
