package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// remove takes out rules.
func remove() *cobra.Command {
	return changes(&cobra.Command{
		Use:   "remove <name>...",
		Short: "Remove rules",
		Long: `Removes rules by their names: all of those that are named, or none if one of
them is not there.` + exitCodes,
		Example: `  caddy weir block remove scrapers
  caddy weir block remove scrapers 203.0.113.0/24 --why "they answered"`,
		Args: cobra.MinimumNArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, d door, args []string) (admin.Done, error) {
		return d.Remove(ctx, admin.Remove{Order: order(cmd), Names: args})
	})
}
