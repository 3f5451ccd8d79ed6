package grammar

import (
	"github.com/weirhq/caddy-weir/internal/aggregator"
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
)

// aggregators holds what a feed's aggregators block may say.
func aggregators(a *config.Aggregators) directive.Table {
	return directive.Table{
		directive.OneOf("scale", &a.Scale, aggregator.Scales...),
		directive.Count("max", "<factor>", &a.Max),
		directive.Texts("resolvers", "<address...>", &a.Resolvers),
		directive.Named("aggregator", oneAggregator(new(config.Aggregator)), func(body *directive.Body) error {
			one := config.Aggregator{Name: body.Args[0]}
			err := body.Read(oneAggregator(&one))
			a.Known = append(a.Known, one)
			return err
		}),
	}
}

// oneAggregator holds what the block of one of them may say.
func oneAggregator(a *config.Aggregator) directive.Table {
	return directive.Table{
		directive.Many(directive.Texts("agent", "<pattern...>", &a.Agents)),
		directive.Many(directive.Args("ranges", "<address|cidr...>", 1, -1, func(args []string) error {
			return directive.AppendRanges(&a.Ranges, args)
		})),
		directive.Many(directive.Texts("file", "<path...>", &a.Files)),
		directive.Many(directive.Texts("dns", "<domain...>", &a.DNS)),
	}
}
