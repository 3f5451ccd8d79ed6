package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// exportList writes the list down.
func exportList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the whole list as text",
		Long: `Writes mode, rules and bans as lines that import reads. The list has no secrets:
keys of bans are hashes, unless hash_keys is off. With --json it is written as
list --json does.` + exitCodes,
		Example: `  caddy weir block export >list.txt
  caddy weir block export --redis redis.internal:6379 --password-file /run/secrets/redis`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return run(cmd, func(ctx context.Context, d door) error {
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				l, err := d.List(ctx, admin.Narrow{Bans: everyBan})
				if err != nil {
					return err
				}
				return writeJSON(cmd, l)
			}
			lines, err := d.Export(ctx)
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), lines)
			}
			return err
		})
	}
	return cmd
}
