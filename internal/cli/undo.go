package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// undo takes a change back.
func undo() *cobra.Command {
	return changes(&cobra.Command{
		Use:   "undo <version>",
		Short: "Take a change back",
		Long: `Takes back what the change to a version did, and only that: changes since then
stay. What somebody has changed again since is not touched, and nothing is done.
The number is told by every change, and by trail.` + exitCodes,
		Example: `  caddy weir block trail
  caddy weir block undo 17`,
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, d door, args []string) (admin.Done, error) {
		version, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return admin.Done{}, fmt.Errorf("version: must be a whole number, got %q", args[0])
		}
		return d.Undo(ctx, admin.Undo{Order: order(cmd), Version: version})
	})
}
