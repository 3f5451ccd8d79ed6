package grammar

import (
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
)

// Check is the table of a weir_check directive's block.
func Check(c *config.Check) directive.Table {
	return directive.Table{
		directive.Many(directive.Args("allow", "<address|cidr...>", 1, -1, func(args []string) error {
			return directive.AppendRanges(&c.Allow, args)
		})),
	}
}
