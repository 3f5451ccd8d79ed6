package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// ban keeps a client out.
func ban() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ban <address|network>",
		Short: "Keep a client out for a while",
		Long: `Bans an address or a network from all sites, from one, or from what one zone of
rate_limit looks at. A zone counts by a key: an address's network as long as
ip_prefix says, or something else, which --key names.

A ban is one of many, and costs nothing; a rule can say more. Your own address
and protected addresses need --force.` + exitCodes,
		Example: `  caddy weir block ban 203.0.113.7
  caddy weir block ban 2001:db8:1:2::/64 --for 1h --scope site:example.com
  caddy weir block ban --key 4711 --scope zone:api --for 10m --note "runaway script"`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.String("for", "", "how long, or until when, the `end`: 1h, 7d, 2026-12-24T18:00:00Z; default 24h")
	f.String("scope", "", "`scope`: all, site:NAME or zone:NAME; default all")
	f.String("key", "", "`key` by which a zone counts, instead of an address")
	f.String("note", "", "`text` for people")
	return changes(cmd, func(ctx context.Context, cmd *cobra.Command, d door, args []string) (admin.Done, error) {
		b := admin.BanKey{
			Order: order(cmd), Key: text(cmd, "key"), Scope: text(cmd, "scope"), Until: text(cmd, "for"), Note: text(cmd, "note"),
		}
		if len(args) == 1 {
			b.Client = args[0]
		}
		if b.Client == "" && b.Key == "" {
			return admin.Done{}, errors.New("who: an address, a network or --key")
		}
		return d.Ban(ctx, b)
	})
}
