package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// changes completes a verb that makes a change and says what became of it.
func changes(cmd *cobra.Command, work func(ctx context.Context, cmd *cobra.Command, d door, args []string) (admin.Done, error)) *cobra.Command {
	cmd.Flags().SortFlags = false
	orders(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return run(cmd, func(ctx context.Context, d door) error {
			made, err := work(ctx, cmd, d, args)
			if err != nil {
				return err
			}
			warnOfFirst(cmd, d, &made)
			return writeDone(cmd, &made)
		})
	}
	return cmd
}

// warnOfFirst warns of the first change of a list that is reached past Caddy: there may be none that reads it.
func warnOfFirst(cmd *cobra.Command, d door, made *admin.Done) {
	if _, direct := d.(admin.Desk); direct && made.Version == 1 {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: nothing was ever kept there before: if a Caddy has a list, it is elsewhere (--redis, --db, --prefix, --file)")
	}
}

// text is the value of a flag.
func text(cmd *cobra.Command, flag string) string {
	value, _ := cmd.Flags().GetString(flag)
	return value
}
