package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// feeds is the topic of feeds and their readers.
func feeds() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "feed <verb>",
		Short: "Feeds: how their readers behave",
		Long: `What the zones with the option feed know of feeds and of who reads them.

The running Caddy is asked, at its admin endpoint, and tells what it has seen
itself since it was started. Other servers have seen others.` + feedExitCodes,
		Example: `  caddy weir feed readers
  caddy weir feed readers --feed /feed.xml --sort early`,
	}
	f := cmd.PersistentFlags()
	f.SortFlags = false
	f.StringP("config", "c", "", "configuration of the Caddy to ask, a `file`")
	f.StringP("adapter", "a", "", "config adapter of --config, by `name`")
	f.String("address", "", "its admin endpoint, if --config does not say it: an `address`\nsuch as localhost:2019 or unix//run/caddy.sock")
	f.Duration("timeout", 10*time.Second, "the longest to wait for an answer")
	f.Bool("json", false, "write JSON, for programs")
	verb := readers()
	usage(verb)
	cmd.AddCommand(verb)
	needsVerb(cmd)
	return cmd
}

// feedExitCodes is the end of every help about feeds.
const feedExitCodes = `

Exit codes: 0 done; 2 it could not be done, or the command line is wrong.`
