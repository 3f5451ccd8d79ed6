package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// lift ends bans.
func lift() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lift <address|network>",
		Short: "End bans of a client",
		Long: `Ends all bans of an address, those of networks that hold it included, whoever
made them and wherever they reach; or those of a key, by --key; or one ban, by its
ID as list --json shows it.` + exitCodes,
		Example: `  caddy weir block lift 203.0.113.7
  caddy weir block lift 203.0.113.7 --scope zone:login
  caddy weir block lift --key 4711`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.String("scope", "", "only bans of this `scope`: all, site:NAME or zone:NAME")
	f.String("key", "", "`key` by which a zone counts, instead of an address")
	f.String("id", "", "`ID` of one ban")
	return changes(cmd, func(ctx context.Context, cmd *cobra.Command, d door, args []string) (admin.Done, error) {
		l := admin.Lift{Order: order(cmd), Key: text(cmd, "key"), ID: text(cmd, "id"), Scope: text(cmd, "scope")}
		if len(args) == 1 {
			l.Client = args[0]
		}
		if l.Client == "" && l.Key == "" && l.ID == "" {
			return admin.Done{}, errors.New("whose: an address, a network, --key or --id")
		}
		return d.Lift(ctx, l)
	})
}
