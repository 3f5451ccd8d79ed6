package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// importList makes a change that is written down.
func importList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import <file|->",
		Short: "Make a change that is written down, such as an export",
		Long: `Reads lines that each say what to do, and does all of it in one change, or
nothing: a line that is wrong is named by its number, and nothing is changed.

  rule <name> <word>=<pattern>...   puts a rule
  remove <name>                     takes one out
  mode <enforce|dry_run|off>        sets the mode of the list
  ban <key> <word>=<value>...       puts a ban, as exports write it
  lift <scope> <origin> <key>       ends one

Empty lines and those that begin with # are passed over. At most 10,000 rules and
bans are imported at once; longer lists belong in a source, see docs/lists.md.` + exitCodes,
		Example: `  caddy weir block export >list.txt
  caddy weir block import list.txt --replace
  caddy weir block export --redis old:6379 | caddy weir block import - --redis new:6379`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Bool("replace", false, "also remove every rule that is not in the file; bans stay")
	return changes(cmd, func(ctx context.Context, cmd *cobra.Command, d door, args []string) (admin.Done, error) {
		read := func() ([]byte, error) { return os.ReadFile(args[0]) }
		if args[0] == "-" {
			read = func() ([]byte, error) { return io.ReadAll(cmd.InOrStdin()) }
		}
		lines, err := read()
		if err != nil {
			return admin.Done{}, fmt.Errorf("import: %w", err)
		}
		all, _ := cmd.Flags().GetBool("replace")
		return d.Import(ctx, admin.Import{Order: order(cmd), Text: string(lines), Replace: all})
	})
}
