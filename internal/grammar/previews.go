package grammar

import (
	"fmt"

	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
)

// previews holds what a zone's previews block may say.
func previews(p *config.Previews) directive.Table {
	return directive.Table{
		directive.Many(directive.Args("agents", "<family> <pattern...>", 2, -1, func(args []string) error {
			if _, twice := p.Agents[args[0]]; twice {
				return fmt.Errorf("%s: already set, give all its patterns in one line", args[0])
			}
			if p.Agents == nil {
				p.Agents = make(map[string][]string)
			}
			p.Agents[args[0]] = args[1:]
			return nil
		})),
		directive.Flag("no_builtin", &p.NoBuiltin),
		directive.Duration("hold", &p.Hold),
		directive.Duration("wait", &p.Wait),
		directive.Size("memory", &p.Memory),
	}
}
