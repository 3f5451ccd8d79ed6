package cli

import (
	"context"

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
			return writeDone(cmd, &made)
		})
	}
	return cmd
}

// text is the value of a flag.
func text(cmd *cobra.Command, flag string) string {
	value, _ := cmd.Flags().GetString(flag)
	return value
}
