package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// everyBan is more bans than there can be.
const everyBan = 1 << 30

// list shows the list.
func list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show rules, bans and sources",
		Long: `Shows the rules of the list, the latest bans, and the files and URLs that entries
come from. The rules of the Caddyfile are not among them.` + exitCodes,
		Example: `  caddy weir block list
  caddy weir block list --client-ip 203.0.113.7
  caddy weir block list --bans 1000 --json`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.String("client-ip", "", "only the bans of this `address`, and the rules that name it")
	f.Int("bans", 20, "the most bans to show, a `number`, the latest first")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return run(cmd, func(ctx context.Context, d door) error {
			bans, _ := cmd.Flags().GetInt("bans")
			l, err := d.List(ctx, admin.Narrow{Client: text(cmd, "client-ip"), Bans: bans})
			if err != nil {
				return err
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return writeJSON(cmd, l)
			}
			return writeList(cmd.OutOrStdout(), &l, time.Now())
		})
	}
	return cmd
}
