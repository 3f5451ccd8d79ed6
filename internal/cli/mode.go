package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// setMode switches the list or some of its rules.
func setMode() *cobra.Command {
	return changes(&cobra.Command{
		Use:   "mode <enforce|dry_run|off> [<name>...]",
		Short: "Switch the whole list, or some rules, on and off",
		Long: `Sets the mode of the whole list, which is that of all block handlers as well,
or that of the rules that are named.

  enforce   rules do what they say
  dry_run   rules are looked at and counted, and everything passes
  off       nothing is looked at; rules and bans stay for the day they are
            needed again` + exitCodes,
		Example: `  caddy weir block mode off --why "are we doing this?"
  caddy weir block mode enforce
  caddy weir block mode dry_run scrapers`,
		Args: cobra.MinimumNArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, d door, args []string) (admin.Done, error) {
		return d.SetMode(ctx, admin.SetMode{Order: order(cmd), Mode: args[0], Names: args[1:]})
	})
}
