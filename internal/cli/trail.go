package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// trail shows who changed what.
func trail() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trail",
		Short: "Show who changed what, and when",
		Long: `Shows the last changes, the latest first. What zones do by themselves is not
among them: bans tell in list who made them.` + exitCodes,
		Example: `  caddy weir block trail
  caddy weir block trail -n 200 --json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntP("number", "n", 20, "`number` of changes to show")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return run(cmd, func(ctx context.Context, d door) error {
			n, _ := cmd.Flags().GetInt("number")
			records, err := d.History(ctx, n)
			if err != nil {
				return err
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return writeJSON(cmd, records)
			}
			return writeTrail(cmd.OutOrStdout(), records, time.Now())
		})
	}
	return cmd
}
