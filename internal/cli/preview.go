package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// previewRules shows what a rule would have hit.
func previewRules() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "preview [<name>] [<word>=<pattern>...]",
		Short: "Show what a rule would have hit, and change nothing",
		Long: `Replays a rule, written as for add, over a sample of the recent requests of
the Caddy that is asked: all of them while few come, and one of so many under
load. Other servers have seen others. What a rule would do beyond the rules
there are already shows in the statuses.` + exitCodes,
		Example: `  caddy weir block preview scrapers 'user_agent=*scrapy*'
  caddy weir block preview --path '/search*' --query 'page=*' --json`,
	}
	ruleFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what, err := readRules(cmd, args)
		if err != nil {
			return exit(cmd, trouble, err)
		}
		return run(cmd, func(ctx context.Context, d door) error {
			p, err := d.Preview(ctx, what)
			if err != nil {
				return err
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return writeJSON(cmd, p)
			}
			return writePreview(cmd.OutOrStdout(), &p, time.Now())
		})
	}
	return cmd
}
