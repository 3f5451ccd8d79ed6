package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// typed names what is wrong with a flag by the flag, where the list has another word for it.
func typed(err error, word, flag string) error {
	if err == nil {
		return nil
	}
	if what, its := strings.CutPrefix(err.Error(), word+": "); its {
		return typedError{err, flag + ": " + what}
	}
	return err
}

type typedError struct {
	error
	text string
}

func (e typedError) Error() string { return e.text }
func (e typedError) Unwrap() error { return e.error }

// ban keeps a client out.
func ban() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ban <address|network>",
		Short: "Keep a client out for a while",
		Long: `Bans an address or a network from all sites, from one, or from what one zone of
rate_limit looks at. An IPv6 address alone stands for its network of 64 bits, or
of as many as ip_prefix says; write /128 for one address. A zone counts by a key:
the network of an address, and that is what is banned from it, or something else,
which --key names. What was banned in the end is told.

A ban replaces the one that the same person made before of the same client and
scope, also one that would have ended later.

A ban is one of many, and costs nothing; a rule can say more. Your own address,
protected addresses and a large part of all addresses need --force.` + exitCodes,
		Example: `  caddy weir block ban 203.0.113.7
  caddy weir block ban 2001:db8:1:2::/64 --for 1h --scope site:example.com
  caddy weir block ban --key 4711 --scope zone:api --for 10m --note "runaway script"`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.String("for", "", "how long, or until when, the `end`: 1h, 7d, 2026-12-24T18:00:00Z\nor never; default 24h")
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
		made, err := d.Ban(ctx, b)
		return made, typed(err, "until", "--for")
	})
}
