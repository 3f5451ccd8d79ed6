// Package cli is `caddy weir …`: the control plane for people at a terminal, one file a verb.
//
// Verbs reach the shared block list through a door: the admin endpoint of a running Caddy,
// or Redis or the list's file themselves, for the hour in which no Caddy answers. What a verb
// does is told in package admin.
package cli

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "weir",
		Usage: "<topic> <verb>",
		Short: "Watches and changes rate limits and blocking while Caddy runs",
		Long: `
Watches and changes what the app weir does, while it runs.

Every verb has its own --help with examples, and --json for programs.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(block(), feeds())
			needsVerb(cmd)
		},
	})
}

// Exit codes.
const (
	done    = 0 // it is done, or the request passes
	no      = 1 // it would be dangerous and was not insisted on; or the request would be refused
	trouble = 2 // it could not be done, or the command line is wrong
)

// exitCodes is the end of every help.
const exitCodes = `

Exit codes: 0 done; 1 refused as dangerous, nothing was changed; 2 it could
not be done, or the command line is wrong.`

// needsVerb makes a command that only holds others say which, if none of them is named.
func needsVerb(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return exit(cmd, trouble, unknownVerb(cmd, args[0]))
	}
}
