package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// block is the topic of the shared block list.
func block() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "block <verb>",
		Short: "The shared block list: rules, bans, modes",
		Long: `The shared block list holds rules and bans that are made while servers run. A
change is in force on all servers within a second, and every change can be
taken back.

By default the running Caddy is asked, at its admin endpoint. When it does not
answer, the list is reached where it is kept:

  --direct   as the configuration (--config) says, in Redis or in a file
  --redis    in Redis, with the options --username, --password-file, …
  --file     in the file of a server without Redis` + exitCodes,
		Example: `  caddy weir block list
  caddy weir block add scrapers 'user_agent=*scrapy*' 'path=/wiki/*' --preview
  caddy weir block ban 203.0.113.7 --for 1h --note "login attempts"
  caddy weir block mode off
  caddy weir block undo 17`,
	}
	cmd.Flags().SortFlags = false
	reach(cmd)
	for _, verb := range []*cobra.Command{
		add(), previewRules(), remove(), ban(), lift(), setMode(),
		list(), test(), trail(), undo(), importList(), exportList(),
	} {
		usage(verb)
		verb.SetUsageTemplate(verbUsage)
		cmd.AddCommand(verb)
	}
	needsVerb(cmd)
	return cmd
}

// verbUsage is cobra's own, without the flags that all verbs have, but for the most needed ones: they
// would bury what is the verb's own.
var verbUsage = strings.Replace(new(cobra.Command).UsageTemplate(),
	"{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}",
	`  -c, --config file      configuration of the Caddy to ask
      --address address  its admin endpoint, if --config does not say it
      --direct           go straight to where the list is kept, past Caddy
      --timeout duration the longest to wait for an answer (default 10s)
      --json             write JSON, for programs
  More of them, for Redis and files, are told by 'caddy weir block --help'.`, 1)
